"""`to_row`, `from_row`: a trajectory as the JSON object in samples files, journals and pipes.

A row has the fields of `Trajectory`, with the columns `kept` and `reason` in place of `selection` and `detail`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from typing import Any

from records.tool_call import ToolResult
from records.trajectory import (
    SCHEMA_VERSION,
    CallKind,
    IdsSource,
    Rollout,
    SelectionReason,
    StopReason,
    Trajectory,
    Turn,
)
from records.verdict import Verdict

FIELDS = tuple(column.name for column in fields(Trajectory) if column.name not in ("detail", "selection"))
"""Fields of `Trajectory` that are columns under their own name."""


def to_row(rollout: Rollout) -> dict[str, Any]:
    """Return the row of a rollout, a graded rollout or a trajectory.

    >>> row = to_row(Rollout(run="", checkpoint="", benchmark="", problem="a", sample=2, detail="engine"))
    >>> row["reward"], row["kept"], row["reason"]
    (None, None, 'engine')
    """
    trajectory = rollout if isinstance(rollout, Trajectory) else rollout.selected()
    # asdict of the whole would visit every id, mask and log-prob.
    return {name: getattr(trajectory, name) for name in FIELDS} | {
        "turns": [asdict(turn) for turn in trajectory.turns],
        "verdicts": {name: asdict(verdict) for name, verdict in trajectory.verdicts.items()},
        "kept": trajectory.kept,
        "reason": trajectory.reason,
        "schema_version": SCHEMA_VERSION,
    }


def from_row(row: Mapping[str, Any]) -> Trajectory:
    """Read the output of `to_row`; KeyError, TypeError, ValueError or AttributeError if `row` is something else."""
    values = {name: row[name] for name in FIELDS if name in row}
    selection, detail = _selection_of(row.get("kept"), row.get("reason") or "")
    return Trajectory(
        **values
        | {
            "turns": [_turn_of(turn) for turn in row["turns"]],
            "stop": StopReason(row["stop"]),
            "ids_source": IdsSource(row["ids_source"]),
            # A Parquet row has a field for every grader; graders that did not run are null.
            "verdicts": {n: Verdict.from_json(v) for n, v in (row.get("verdicts") or {}).items() if v},
            "selection": selection,
            "detail": detail,
        }
    )


def _turn_of(turn: Mapping[str, Any]) -> Turn:
    result = ToolResult.from_json(turn["result"]) if turn["result"] else None
    return Turn(**{**turn, "call": CallKind(turn["call"]), "result": result})


def _selection_of(kept: bool | None, reason: str) -> tuple[SelectionReason | None, str]:
    """Return selection and detail of a row. A rollout with a detail has no reward, so only that reason can drop it."""
    if kept is None:
        return None, reason
    if reason in list(SelectionReason):
        return SelectionReason(reason), ""
    return SelectionReason.NO_REWARD, reason
