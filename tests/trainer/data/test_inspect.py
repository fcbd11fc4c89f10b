"""`inspect`: rows of a recipe with the loss on assistant tokens only, lengths, one page; and rows of a training run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from config.resolve import resolve
from records.errors import ConfigError
from trainer.cli import app
from trainer.data.conversations.conversation import Call, Conversation, Message
from trainer.inspect_data import inspect
from trainer.inspect_page import lengths, write_page
from trainer.rollout.chat import chat_format
from trainer.rollout.tokenizer import FolderCodec
from trainer.sft.conversations import CONVERSATIONS, corpus_rows, corpus_texts

TOOL = "execute_python_code_with_standard_io"
NATIVE = Conversation(
    id="n", source="s", functions=('{"name": "f", "parameters": {}}',),
    messages=(
        Message(role="system", text="Be brief."), Message(role="user", text="Ask f. <|im_end|>"),
        Message(role="assistant", text="I ask.", calls=(Call.of("f", {"x": 1}),)), Message(role="tool", text="seven"),
        Message(role="assistant", text="It is 7."),
    ),
)  # fmt: skip
AGENTIC = Conversation(
    id="a", source="s", functions=(f'{{"name": "{TOOL}", "parameters": {{}}}}',),
    messages=(
        Message(role="user", text="What is 1 + 1?"),
        Message(role="assistant", text="I add.", calls=(Call.of(TOOL, {"code": "print(1 + 1)", "input": ""}),)),
    ),
)  # fmt: skip


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    rows = [each.to_json() | {"licence": "MIT"} for each in (NATIVE, AGENTIC)]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / CONVERSATIONS)
    return tmp_path


def test_the_loss_sees_assistant_tokens_only(corpus: Path, tiny_checkpoint: Path) -> None:
    rollout = resolve().rollout
    found = inspect(corpus / CONVERSATIONS, tiny_checkpoint, 2, rollout, budget=10**6)
    native, agentic = ([s.text for s in row.segments if s.is_trained] for row in found.rows)
    call = '<tool_call>\n{"name": "f", "arguments": {"x": 1}}\n</tool_call>'
    assert native == [f"I ask.\n{call}<|im_end|>", "It is 7.<|im_end|>"]
    call = f'<tool_call>\n{{"name": "{TOOL}", "arguments": {{"code": "print(1 + 1)", "input": ""}}}}\n</tool_call>'
    assert agentic == [f"I add.</reason>\n{call}<|im_end|>"]
    assert found.rows[1].segments[0].text == chat_format(rollout).prompt("What is 1 + 1?")
    assert "Be brief." in found.rows[0].segments[0].text
    assert found.truncated_frac == 0.0


def test_text_of_a_conversation_becomes_no_control_token(corpus: Path, tiny_checkpoint: Path) -> None:
    chat, codec = chat_format(resolve().rollout), FolderCodec.load(tiny_checkpoint)
    rows = corpus_rows(corpus, chat, codec, None).rows
    ends = [codec.token(i) for i in rows[0].ids].count("<|im_end|>")
    assert ends == len(NATIVE.messages)
    assert len(list(corpus_texts(corpus, chat))) == 6


def test_a_conversation_longer_than_the_context_is_counted_and_left_out(
    corpus: Path, tiny_checkpoint: Path
) -> None:
    chat, codec = chat_format(resolve().rollout), FolderCodec.load(tiny_checkpoint)
    lengths_of = [len(row.ids) for row in corpus_rows(corpus, chat, codec, None).rows]
    cut = corpus_rows(corpus, chat, codec, min(lengths_of))
    assert (len(cut.rows), cut.num_too_long) == (1, 1)


def test_lengths_and_truncation_use_the_same_page(corpus: Path, tiny_checkpoint: Path) -> None:
    found = inspect(corpus / CONVERSATIONS, tiny_checkpoint, 1, resolve().rollout, budget=100)
    assert sum(count for *_, count in found.histogram()) == 2
    assert any("longer than 100 tokens: " in line for line in lengths(found))
    write_page(found, corpus / "page.html")
    page = (corpus / "page.html").read_text()
    assert '<span class="loss">I ask.' in page
    assert "&lt;tool_call&gt;" in page
    assert "<script" not in page


def test_the_command_reads_problems_without_a_tokenizer_and_names_faults(tmp_path: Path) -> None:
    (tmp_path / "p.jsonl").write_text('{"id": "a", "problem": "1 + 1?", "answer": "2"}\n')
    done = CliRunner().invoke(app, ["inspect", str(tmp_path / "p.jsonl"), "--budget", "3"])
    assert done.exit_code == 0
    assert "longer than 3 characters: 100.00%" in done.output
    (tmp_path / "bad.parquet").write_text("no")
    with pytest.raises(ConfigError, match="cannot be read"):
        inspect(tmp_path / "bad.parquet", None, 1, resolve().rollout, None)
