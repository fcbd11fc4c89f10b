"""From a kept trajectory to what training needs of it. No torch, no re-tokenisation, no silent drop.

A token is trainable exactly if the policy sampled it here, i.e. the engine reported its log-prob; its role
in the conversation does not matter (public fault B23). Ids are taken as sampled, never from text (B9).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from records.trajectory import IdsSource, Trajectory


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What training needs of one kept rollout."""

    ids: list[int]
    mask: list[bool]
    """True where the token was sampled, i.e. enters the loss. mask[t] belongs to ids[t]."""
    logprob: list[float]
    """Behaviour log-probs, aligned with ids."""
    advantage: float
    group: str
    """Problem id: rows of one group share a baseline."""
    temperature: float = 1.0


class Unusable(StrEnum):
    """Why a trajectory can give no row; each is counted and shown."""

    ABORTED = "aborted"
    """Our failure ended it."""
    EMPTY = "empty"
    """No sampled token: an empty response, or one of tool text only."""
    BROKEN_LOGPROB = "broken_logprob"
    """The engine reported a log-prob that is not finite for a sampled token."""


def unusable(trajectory: Trajectory) -> Unusable | None:
    """Tell why a trajectory cannot be trained, or None.

    Ask before selection, so that it moves no baseline (B17).

    >>> from records.trajectory import StopReason, Trajectory
    >>> key = dict(run="", checkpoint="", benchmark="rl1", problem="a", sample=0)
    >>> unusable(Trajectory(**key, stop=StopReason.ANSWER)).value
    'empty'
    """
    if not trajectory.stop.is_models:
        return Unusable.ABORTED
    sampled = [logprob for logprob, on in zip(trajectory.logprob, trajectory.mask, strict=False) if on]
    if not sampled:
        return Unusable.EMPTY
    if not all(math.isfinite(logprob) for logprob in sampled):
        return Unusable.BROKEN_LOGPROB
    return None


def row_of(trajectory: Trajectory, advantage: float) -> Row:
    """Turn one usable trajectory into a row.

    Args:
        trajectory: ids, mask and behaviour log-probs exactly as sampled.
        advantage: its group-normalised advantage.

    Raises:
        ValueError: ids are re-tokenised; lists differ in length; a prompt token is marked as sampled; the
            sampling was truncated (top_p < 1: behaviour log-probs then disagree with a full softmax, B14)
            or greedy; the trajectory is unusable; the advantage is not finite.

    >>> from records.trajectory import StopReason, Trajectory
    >>> row = row_of(Trajectory(run="", checkpoint="", benchmark="rl1", problem="a", sample=0, ids=[5, 6, 7],
    ...     mask=[False, True, True], logprob=[0.0, -0.5, -0.1], prompt_len=1, stop=StopReason.ANSWER), 1.5)
    >>> row.group, row.mask, row.advantage
    ('a', [False, True, True], 1.5)
    """
    name = f"problem {trajectory.problem!r}, sample {trajectory.sample}"
    if trajectory.ids_source is not IdsSource.SAMPLED:
        raise ValueError(
            f"{name}: ids are {trajectory.ids_source}; training needs the ids the engine sampled"
        )
    if not len(trajectory.ids) == len(trajectory.mask) == len(trajectory.logprob):
        raise ValueError(
            f"{name}: {len(trajectory.ids)} ids, {len(trajectory.mask)} mask entries, "
            f"{len(trajectory.logprob)} log-probs: all three need one entry per token"
        )
    if trajectory.prompt_len < 1 or any(trajectory.mask[: trajectory.prompt_len]):
        raise ValueError(
            f"{name}: the prompt must hold at least one token and none that is marked as sampled"
        )
    if trajectory.top_p != 1.0 or not trajectory.T > 0:
        raise ValueError(
            f"{name}: sampled with T = {trajectory.T} and top_p = {trajectory.top_p}; "
            "train on T > 0 and top_p = 1 only"
        )
    if not math.isfinite(advantage):
        raise ValueError(f"{name}: the advantage is {advantage}")
    reason = unusable(trajectory)
    if reason is not None:
        raise ValueError(f"{name}: not trainable: {reason}; drop it before the advantages")
    return Row(
        ids=list(trajectory.ids),
        mask=list(trajectory.mask),
        logprob=list(trajectory.logprob),
        advantage=advantage,
        group=trajectory.problem,
        temperature=trajectory.T,
    )
