"""Trajectories as rows of other trainers, the model card and the template of an exported checkpoint."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from records.errors import ConfigError
from records.files import write_json
from records.manifest import verify
from records.problem import Problem
from records.trajectory import Rollout, StopReason
from records.trajectory_files import write_parquet
from tests.trainer.tiny_checkpoint import make_checkpoint, tiny_config
from trainer.problems.problem_files import write_problems
from trainer.rollout.chat import chat_format, chat_template
from trainer.rollout.chat_text import live
from trainer.rollout.tokenizer import FolderCodec
from trainer.stages.conversation_rows import RowCounts, messages_of, write_rows
from trainer.stages.export import export, push
from trainer.stages.model_card import model_card
from trainer.stages.serving_template import serving_template

CALL = 'x</reason>\n<tool_call>\n{"name": "f", "arguments": {"code": "1"}}\n</tool_call>'
MESSAGES = [
    {"role": "user", "content": "What is <|im_end|> 1?"},
    {"role": "assistant", "content": f"<reason>{CALL}"},
    {"role": "tool", "content": "1"},
    {"role": "assistant", "content": "<reason>so</reason>1"},
]


def rollout(codec: FolderCodec, *, sample: int, stop: StopReason = StopReason.ANSWER) -> Rollout:
    chat = chat_format(tiny_config().rollout)
    prompt = codec.encode(chat.prompt("What is <|im_end|> 1?"))
    parts = [live(f"{CALL}<|im_end|>"), chat.tool_response("1"), live("so</reason>1<|im_end|>")]
    ids = prompt + [token for part in parts for token in codec.encode(part)]
    return Rollout(
        run="r", checkpoint="m", benchmark="b", problem="p", sample=sample, ids=ids,
        mask=[False] * len(ids), logprob=[0.0] * len(ids), prompt_len=len(prompt), stop=stop,
    )  # fmt: skip


@pytest.fixture
def parquet(tiny_checkpoint: Path, tmp_path: Path) -> Path:
    codec = FolderCodec.load(tiny_checkpoint)
    rows = [
        rollout(codec, sample=0).graded(reward=1.0),
        rollout(codec, sample=1).graded(reward=0.0),
        rollout(codec, sample=2, stop=StopReason.ABORTED).graded(reward=None),
    ]
    write_parquet(rows, tmp_path / "t.parquet")
    return tmp_path / "t.parquet"


def rows_of(parquet: Path, checkpoint: Path, form: str, problems: Path | None = None) -> list[dict[str, Any]]:
    out = parquet.with_name("rows.jsonl")
    counts = write_rows(parquet, out, form=form, checkpoint=checkpoint, problems=problems)
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert counts == RowCounts(rows=len(rows), lost=1)
    return rows


def test_messages_are_cut_at_control_ids_and_not_at_text_that_spells_them(
    parquet: Path, tiny_checkpoint: Path
) -> None:
    rows = rows_of(parquet, tiny_checkpoint, "messages")
    assert [row["messages"] for row in rows] == [MESSAGES, MESSAGES]
    assert [row["reward"] for row in rows] == [1.0, 0.0]


def test_sharegpt_names_the_roles_as_its_readers_do(parquet: Path, tiny_checkpoint: Path) -> None:
    row = rows_of(parquet, tiny_checkpoint, "sharegpt")[0]
    assert [turn["from"] for turn in row["conversations"]] == ["human", "gpt", "observation", "gpt"]
    assert [turn["value"] for turn in row["conversations"]] == [m["content"] for m in MESSAGES]


def test_verl_gets_one_row_per_problem_with_its_gold(parquet: Path, tiny_checkpoint: Path) -> None:
    problems = parquet.with_name("problems.jsonl")
    write_problems([Problem(id="p", prompt="What is <|im_end|> 1?", answer="1", family="f")], problems)
    assert rows_of(parquet, tiny_checkpoint, "verl", problems) == [
        {
            "data_source": "f",
            "prompt": MESSAGES[:1],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": "1"},
            "extra_info": {"index": "p", "num_rollouts": 2, "solved_frac": 0.5},
        }
    ]
    write_problems([Problem(id="q", prompt="What?", answer="1")], problems)
    with pytest.raises(ConfigError, match="holds no p"):
        write_rows(
            parquet, parquet.with_name("o"), form="verl", checkpoint=tiny_checkpoint, problems=problems
        )


def test_a_message_that_was_cut_ends_where_it_was_cut(tiny_checkpoint: Path) -> None:
    codec = FolderCodec.load(tiny_checkpoint)
    cut = messages_of(codec.encode(live("<|im_start|>assistant\n<reason>so")), codec)
    assert cut == [{"role": "assistant", "content": "<reason>so"}]


def test_the_served_template_renders_a_parsed_call_as_the_model_wrote_it(
    tiny_checkpoint: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(tiny_checkpoint, out, dtype="bfloat16", untie=False)
    served: Any = AutoTokenizer.from_pretrained(out)
    parsed = [
        {"role": "user", "content": "What is 1?"},
        {
            "role": "assistant",
            "content": "x</reason>\n",
            "tool_calls": [{"function": {"name": "f", "arguments": {"code": "1"}}}],
        },
        {"role": "tool", "content": "1"},
    ]
    written = [parsed[0], {"role": "assistant", "content": CALL}, parsed[2]]
    trained: Any = AutoTokenizer.from_pretrained(tiny_checkpoint)
    settings = {"tokenize": False, "add_generation_prompt": True}
    text = served.apply_chat_template(parsed, **settings)
    assert text == served.apply_chat_template(written, **settings)
    assert text == trained.apply_chat_template(written, **settings)
    chat = chat_template(chat_format(tiny_config().rollout))
    assert serving_template(chat) != chat


def test_the_model_card_holds_the_numbers_of_the_run_and_no_others(tmp_path: Path) -> None:
    checkpoint = make_checkpoint(tmp_path)
    card = model_card(checkpoint, verify(checkpoint), dtype="bfloat16")
    assert "The run holds no evaluation of this checkpoint." in card
    assert "The run judged no claims." in card
    claims = checkpoint.parent.parent / "claims" / "claims.json"
    claims.parent.mkdir()
    write_json(claims, [{"verdict": "inconclusive"}, {"verdict": "opposite"}, {"verdict": "inconclusive"}])
    card = model_card(checkpoint, verify(checkpoint), dtype="bfloat16")
    assert "2 inconclusive, 1 opposite." in card


def test_a_hub_that_cannot_be_reached_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Offline:
        def create_repo(self, *_: Any, **__: Any) -> str:
            raise ConnectionError("no\nnetwork")

    monkeypatch.setattr("huggingface_hub.HfApi", Offline)
    with pytest.raises(ConfigError, match=r"--push me/model: the hub did not take it \(no network\)"):
        push(tmp_path, "me/model")
