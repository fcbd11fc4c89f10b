"""Token tables: labels of each sampled token, and entropies known from arithmetic."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch
from transformers import AutoModelForCausalLM
from typer.testing import CliRunner

from records.errors import ConfigError
from records.manifest import Manifest
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, IdsSource, StopReason, Trajectory, Turn
from records.trajectory_files import write_parquet
from tests.analysis.fake_run import put, summary_json
from tests.trainer.tiny_checkpoint import VOCAB, tiny_config
from trainer.cli import app
from trainer.metrics.token_table import choose, places, score_samples, segments
from trainer.model import load_model
from trainer.rollout.tokenizer import FolderCodec


class Pieces:
    """A codec whose ids index a list of texts."""

    def __init__(self, pieces: Sequence[str]) -> None:
        self.pieces = list(pieces)

    def token(self, token_id: int) -> str:
        return self.pieces[token_id]


def labels(*pieces: str) -> list[str]:
    return segments(range(len(pieces)), Pieces(pieces))  # pyright: ignore[reportArgumentType]


def test_tags_of_one_token_open_and_close_segments() -> None:
    pieces = ["think", "</reason>", "\n", "<tool_call>", "{", "}", "</tool_call>", "<|im_end|>"]
    assert labels(*pieces) == [
        "reason",
        "other",
        "other",
        "other",
        "tool_call",
        "tool_call",
        "other",
        "other",
    ]
    assert labels("a", "</reason>", "<answer>", "4", "</answer>") == [
        "reason",
        "other",
        "other",
        "answer",
        "other",
    ]


def test_tags_may_be_spread_over_tokens_and_end_within_one() -> None:
    """Public vocabularies hold `>` with a newline as one token."""
    pieces = ["think", "</", "reason", ">\n\n", "<", "tool", "_call", ">\n", "{", "}\n</", "tool_call", ">\n"]
    assert labels(*pieces) == [
        "reason", "reason", "reason", "other", "other", "other", "other", "other", "tool_call", "tool_call",
        "tool_call", "other",
    ]  # fmt: skip


def test_one_token_may_hold_several_tags_and_unknown_ones_change_nothing() -> None:
    assert labels("a", "</reason><answer>", "4", "</answer>\n<reason>", "b") == [
        "reason", "other", "answer", "other", "reason"
    ]  # fmt: skip
    assert labels("<answer>", "x", "</answer>", "</tool_call>", "y") == ["reason"] * 5
    assert labels("a", "</reason>", "</answer>", "<reas", "onable>") == ["reason", *["other"] * 4]


def test_a_tag_inside_the_json_of_a_call_belongs_to_the_call() -> None:
    pieces = ["</reason>", "<tool_call>", '{"a": "', "</tool_call>", "<answer>", '"}', "</tool_call>", "x"]
    assert labels(*pieces) == [
        "other",
        "other",
        "tool_call",
        "tool_call",
        "tool_call",
        "tool_call",
        "other",
        "other",
    ]


def a_trajectory(sample: int = 0, **changes: Any) -> Trajectory:
    """Three turns: a good call, a broken call, an answer; the tool answered between them."""
    ok = ToolResult(id="c", status=Status.OK, stdout="4")
    turns = [
        Turn(text="", start=2, end=5, call=CallKind.EXECUTED, result=ok, code="1"),
        Turn(text="", start=7, end=9, call=CallKind.PARSE_ERROR),
        Turn(text="", start=10, end=13, call=CallKind.NONE),
    ]
    mask = [2 <= i < 5 or 7 <= i < 9 or i >= 10 for i in range(13)]
    fields: dict[str, Any] = {
        "ids": [20 + i for i in range(13)], "mask": mask, "logprob": [-1.0 * on for on in mask], "prompt_len": 2,
        "turns": turns, "stop": StopReason.ANSWER, "reward": 1.0,
    }  # fmt: skip
    return Trajectory(
        run="r", checkpoint="sft", benchmark="b", problem="p", sample=sample, **(fields | changes)
    )


def test_every_sampled_token_has_its_turn_and_its_distance_from_the_tool(tiny_checkpoint: Path) -> None:
    found = list(places(a_trajectory(), FolderCodec.load(tiny_checkpoint)))
    assert [p.index for p in found] == [2, 3, 4, 7, 8, 10, 11, 12]
    assert [p.turn for p in found] == [0, 0, 0, 1, 1, 2, 2, 2]
    assert [p.after_tool for p in found] == [None] * 3 + ["ok"] * 2 + ["error"] * 3
    assert [p.distance for p in found] == [None, None, None, 0, 1, 0, 1, 2]


def test_only_what_an_engine_sampled_without_a_control_is_scored() -> None:
    silent = a_trajectory(1, mask=[False] * 13)
    off = a_trajectory(2, control="tool_off")
    assert choose([silent, a_trajectory(0), off], 5, seed=1) == [a_trajectory(0)]
    with pytest.raises(ConfigError, match="no trajectory with sampled tokens"):
        choose([silent, off], 5, seed=1)
    with pytest.raises(ConfigError, match="re-tokenised ids"):
        choose([a_trajectory(0), a_trajectory(1, ids_source=IdsSource.RETOKENISED)], 5, seed=1)


def test_the_draw_does_not_depend_on_the_order_of_the_file() -> None:
    many = [a_trajectory(i) for i in range(20)]
    cool = [replace(t, T=0.6) for t in many]
    assert choose(cool + many, len(many), seed=1) == choose(many, len(many), seed=1)
    assert choose(cool, 3, seed=1)
    drawn = choose(many, 5, seed=1)
    assert drawn == choose(many[::-1], 5, seed=1)
    assert [t.sample for t in drawn] == sorted({t.sample for t in drawn})
    assert drawn != choose(many, 5, seed=2)


@pytest.fixture
def scored(tiny_checkpoint: Path, tmp_path: Path, torch_settings: None) -> Any:
    """Scores samples under a checkpoint and returns the rows of the table."""

    def score(checkpoint: Path, samples: list[Trajectory]) -> list[dict[str, Any]]:
        write_parquet(samples, tmp_path / "samples.parquet")
        config = tiny_config()
        manifest = score_samples(
            checkpoint, tmp_path / "samples.parquet", tmp_path / "out", config.analysis, config.runtime
        )
        assert Manifest.load(tmp_path / "out") == manifest
        rows = pq.read_table(tmp_path / "out" / "tokens.parquet").to_pylist()
        assert len(rows) == manifest.facts["num_tokens"]
        return rows

    return score


def test_a_uniform_model_has_entropy_ln_v_and_log_prob_minus_ln_v(
    scored: Any, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    model = AutoModelForCausalLM.from_pretrained(tiny_checkpoint)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    uniform = tmp_path / "uniform"
    model.save_pretrained(uniform)
    (uniform / "tokenizer.json").write_bytes((tiny_checkpoint / "tokenizer.json").read_bytes())
    rows = scored(uniform, [a_trajectory()])
    assert [row["entropy"] for row in rows] == pytest.approx([math.log(VOCAB)] * 8, abs=1e-5)
    assert [row["logprob"] for row in rows] == pytest.approx([-math.log(VOCAB)] * 8, abs=1e-5)


def test_entropies_and_log_probs_match_the_models_scores(scored: Any, tiny_checkpoint: Path) -> None:
    """At temperature 1 for any sampling temperature, and at the position that predicts the token."""
    sample = a_trajectory(T=0.6)
    rows = scored(tiny_checkpoint, [sample, a_trajectory(1, T=0.6, ids=[50 + i for i in range(13)])])
    with torch.no_grad():
        logits = (
            load_model(tiny_checkpoint, torch.device("cpu"))(torch.tensor([sample.ids])).logits[0].double()
        )
    exact = logits.log_softmax(-1)
    for row in rows[:8]:
        before = exact[row["index"] - 1]
        assert row["token_id"] == sample.ids[row["index"]]
        assert row["logprob"] == pytest.approx(before[row["token_id"]].item(), abs=1e-5)
        assert row["entropy"] == pytest.approx(-(before.exp() * before).sum().item(), abs=1e-5)
        assert row["correct"] is True
    assert [row["sample"] for row in rows] == [0] * 8 + [1] * 8


def test_a_token_table_of_other_inputs_is_not_replaced(
    scored: Any, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    scored(tiny_checkpoint, [a_trajectory()])
    before = (tmp_path / "out" / "tokens.parquet").read_bytes()
    scored(tiny_checkpoint, [a_trajectory()])
    with pytest.raises(ConfigError, match=r"out: holds the token table of another input \(samples\)"):
        scored(tiny_checkpoint, [a_trajectory(1)])
    assert (tmp_path / "out" / "tokens.parquet").read_bytes() == before


def test_samples_that_changed_since_their_evaluation_are_refused(
    scored: Any, tiny_checkpoint: Path, tmp_path: Path
) -> None:
    put(tmp_path / "summary.json", summary_json([]))
    with pytest.raises(ConfigError, match=r"samples\.parquet: its sha256 .* is not the .*summary\.json"):
        scored(tiny_checkpoint, [a_trajectory()])


def test_lost_samples_are_in_no_token_table() -> None:
    lost = a_trajectory(1, stop=StopReason.ABORTED, reward=None)
    ungraded = a_trajectory(2, reward=None)
    assert choose([a_trajectory(0), lost, ungraded], 5, seed=1) == [a_trajectory(0)]
    with pytest.raises(ConfigError, match="no trajectory"):
        choose([lost], 5, seed=1)


def test_a_table_of_the_user_is_kept(tmp_path: Path) -> None:
    kept = tmp_path / "manifest.json"
    kept.write_text("mine\n")
    result = CliRunner().invoke(
        app, ["score", "--checkpoint", "c", "--samples", "s.parquet", "--out", str(tmp_path)]
    )
    assert result.exit_code == 2, result.output
    assert "manifest.json: exists already" in result.stderr
    assert kept.read_text() == "mine\n"
