"""Trajectories on disk: a round trip changes nothing, equal ones give equal files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from records.errors import ConfigError
from records.tool_call import Status, ToolError, ToolResult
from records.trajectory import CallKind, IdsSource, SelectionReason, StopReason, Trajectory, Turn
from records.trajectory_files import (
    SCHEMA,
    kept_for_disk,
    read_parquet,
    read_shard,
    write_parquet,
    write_shard,
)
from records.trajectory_row import to_row
from records.verdict import Verdict, VerdictKind

ERROR = ToolError(type="ValueError", message="no \u2028 \U0001f600", traceback="line 1")


def a_trajectory(sample: int = 0, **changes: Any) -> Trajectory:
    """Every field away from its default."""
    fields: dict[str, Any] = {
        "ids": [5, 6, 7, 8], "mask": [False, True, True, True], "logprob": [0.0, -0.5, -1.25, -2.0], "prompt_len": 1,
        "turns": [
            Turn(text="a\n\u2028", start=1, end=2, call=CallKind.EXECUTED, num_extra_calls=2, code="raise",
                 result=ToolResult(id="c#1", status=Status.ERROR, stderr="e", error=ERROR, dropped_bytes=3)),
            Turn(text="b", start=2, end=3, call=CallKind.PARSE_ERROR),
            Turn(text="c", start=3, end=4, call=CallKind.NONE),
        ],
        "T": 0.6, "top_p": 0.95, "seed": 2**63 - 1, "policy_version": 4, "stop": StopReason.ANSWER, "reward": 1.0,
        "p_err": 0.5, "p_format": 0.25, "selection": SelectionReason.KEPT, "control": "tool_off", "step": 7,
        "verdicts": {"strict": Verdict(id="p", verdict=VerdictKind.CORRECT, extracted="4", rule="integer")},
    }  # fmt: skip
    return Trajectory(
        run="r", checkpoint="rl1", benchmark="rl1", problem="p", sample=sample, **(fields | changes)
    )


ODD = [
    a_trajectory(),
    a_trajectory(1, reward=None, selection=None, detail="engine", verdicts={}, stop=StopReason.ABORTED),
    a_trajectory(
        2,
        ids=[],
        mask=[],
        logprob=[],
        turns=[],
        prompt_len=0,
        stop=StopReason.CONTEXT,
        selection=SelectionReason.NO_REWARD,
    ),
    a_trajectory(3, ids_source=IdsSource.RETOKENISED),
]


def test_a_file_returns_exactly_what_was_written(tmp_path: Path) -> None:
    assert write_parquet(ODD[::-1], tmp_path / "t.parquet") == 4
    assert read_parquet(tmp_path / "t.parquet") == ODD


def test_a_shard_returns_exactly_what_was_written_in_order(tmp_path: Path) -> None:
    exact = a_trajectory(4, logprob=[0.0, -0.1, -1 / 3, -1e-30])
    write_shard([*ODD[::-1], exact], tmp_path / "s.jsonl")
    assert list(read_shard(tmp_path / "s.jsonl")) == [*ODD[::-1], exact]


def test_equal_trajectories_give_equal_files_in_any_order(tmp_path: Path) -> None:
    write_parquet(ODD, tmp_path / "one.parquet")
    write_parquet(ODD[::-1], tmp_path / "other.parquet")
    assert (tmp_path / "one.parquet").read_bytes() == (tmp_path / "other.parquet").read_bytes()


def test_every_field_of_a_trajectory_has_its_column() -> None:
    assert set(SCHEMA.names) == set(to_row(a_trajectory()))


def test_a_duplicated_key_is_refused_and_the_old_file_stays(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    write_parquet(ODD[:1], path)
    with pytest.raises(ValueError, match="share the key"):
        write_parquet([ODD[0], ODD[0]], path)
    assert read_parquet(path) == ODD[:1]


@pytest.mark.parametrize("content", [None, b"", b"PAR1 not really"])
def test_a_file_that_is_not_parquet_is_refused_in_one_line(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"t\.parquet: cannot be read as Parquet"):
        read_parquet(path)


def test_another_schema_version_is_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist([{"schema_version": 99}]), tmp_path / "t.parquet")
    with pytest.raises(ConfigError, match="schema_version 99"):
        read_parquet(tmp_path / "t.parquet")


def test_keep_selects_the_stored_rollouts() -> None:
    assert kept_for_disk(ODD, "all") == ODD
    assert kept_for_disk(ODD, "trained") == [ODD[0], ODD[3]]
    assert kept_for_disk(ODD[::-1], "sample(2)") == ODD[:2]
    assert kept_for_disk(ODD, "sample(9)") == ODD
    with pytest.raises(ConfigError, match="must be all, trained or sample"):
        kept_for_disk(ODD, "some")
