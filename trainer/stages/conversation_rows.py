"""`write_rows`: trajectories as the rows that other trainers read: messages, sharegpt, verl.

Segments are cut at the ids of the control tokens, so text that spells such a token stays text. A rollout that the
infrastructure lost is no conversation and is left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypedDict

from records.errors import ConfigError
from records.files import write_text
from records.problem import Problem
from records.trajectory import Trajectory
from records.trajectory_files import read_parquet
from trainer.problems.problem_files import read_problems
from trainer.rollout.chat import TURN_END, Codec
from trainer.rollout.chat_text import live
from trainer.rollout.tokenizer import FolderCodec

FORMS = ("messages", "sharegpt", "verl")
_RESPONSE = ("<tool_response>\n", "\n</tool_response>")
_SHAREGPT = {"system": "system", "user": "human", "assistant": "gpt", "tool": "observation"}


class Message(TypedDict):
    """One message; the role is system, user, assistant or tool."""

    role: str
    content: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RowCounts:
    """Rows written, and trajectories left out because the infrastructure lost them."""

    rows: int
    lost: int


def write_rows(
    trajectories: Path, out: Path, *, form: str, checkpoint: Path, problems: Path | None
) -> RowCounts:
    """Write one JSON line per trajectory, or for verl one per problem, with the share of right rollouts.

    Args:
        trajectories: Parquet file of training or of an evaluation.
        out: new JSONL file.
        form: of the rows.
        checkpoint: folder whose tokenizer made the ids.
        problems: JSONL file with the golds of the problems; verl alone requires it.

    Raises:
        ConfigError: a file is broken, `out` exists, or a problem has no gold.
    """
    if out.exists():
        raise ConfigError(f"{out}: exists already; name a new file")
    if (form == "verl") != (problems is not None):
        raise ConfigError("--problems: give the file with the golds for --form verl, and for no other form")
    codec = FolderCodec.load(checkpoint)
    found = read_parquet(trajectories)
    kept = [one for one in found if one.stop.is_models]
    golds = {} if problems is None else {problem.id: problem for problem in read_problems(problems)}
    rows = _verl(kept, golds, codec) if form == "verl" else [_conversation(one, codec, form) for one in kept]
    write_text(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
    return RowCounts(rows=len(rows), lost=len(found) - len(kept))


def messages_of(ids: Sequence[int], codec: Codec) -> list[Message]:
    """The messages of a context; an assistant message begins with what opens it, and the last one may be cut."""
    (start_id,), (end_id,) = codec.encode(live("<|im_start|>")), codec.encode(TURN_END)
    messages = []
    for segment in _split(ids, start_id):
        body = segment[: segment.index(end_id)] if end_id in segment else segment
        role, _, content = codec.decode(body).partition("\n")
        messages.append(_message(role, content))
    return messages


def _message(role: str, content: str) -> Message:
    """The suite shows a tool response under the user role; other trainers expect a role of its own."""
    head, tail = _RESPONSE
    if role == "user" and content.startswith(head) and content.endswith(tail):
        return Message(role="tool", content=content[len(head) : -len(tail)])
    return Message(role=role, content=content)


def _split(ids: Sequence[int], start_id: int) -> list[list[int]]:
    """What follows each start, up to the next."""
    segments: list[list[int]] = []
    for token in ids:
        if token == start_id:
            segments.append([])
        elif segments:
            segments[-1].append(token)
    return segments


def _conversation(one: Trajectory, codec: Codec, form: str) -> dict[str, Any]:
    messages = messages_of(one.ids, codec)
    about = {"problem": one.problem, "sample": one.sample, "reward": one.reward, "stop": one.stop.value}
    if form == "messages":
        return {"messages": messages, **about}
    return {
        "conversations": [{"from": _SHAREGPT[m["role"]], "value": m["content"]} for m in messages],
        **about,
    }


def _verl(kept: Iterable[Trajectory], golds: Mapping[str, Problem], codec: Codec) -> list[dict[str, Any]]:
    """Rows of verl's RL data set: prompt, rule-based gold, and the share of rollouts that were right here."""
    groups: dict[str, list[Trajectory]] = {}
    for one in kept:
        groups.setdefault(one.problem, []).append(one)
    missing = sorted(groups.keys() - golds.keys())
    if missing:
        raise ConfigError(f"--problems: holds no {missing[0]} ({len(missing)} problems are missing)")
    return [
        {
            "data_source": golds[name].family or "rstar2-suite",
            "prompt": messages_of(group[0].ids[: group[0].prompt_len], codec)[:-1],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": golds[name].answer},
            "extra_info": {"index": name, "num_rollouts": len(group), "solved_frac": _solved(group)},
        }
        for name, group in groups.items()
    ]


def _solved(group: Sequence[Trajectory]) -> float | None:
    rewards = [one.reward for one in group if one.reward is not None]
    return sum(reward > 0 for reward in rewards) / len(rewards) if rewards else None
