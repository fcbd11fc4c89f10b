"""`Row`: the training data of one kept rollout, without re-tokenisation or silent drops.

A token is trainable exactly if the policy sampled it in this run, i.e. the engine reported its log-prob; its role in
the conversation does not matter (public fault B23). Ids are those that the engine sampled, never from text (B9).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from records.trajectory import IdsSource, Rollout


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """The training data of one kept rollout."""

    ids: Sequence[int]
    mask: Sequence[bool]
    """True for a sampled token, which enters the loss. mask[t] belongs to ids[t]."""
    logprob: Sequence[float]
    """Behaviour log-probs, aligned with ids."""
    advantage: float
    group: str
    """Problem id: rows of one group share a baseline."""
    temperature: float = 1.0


class Unusable(StrEnum):
    """Reason why a rollout gives no row."""

    ABORTED = "aborted"
    """The infrastructure lost the rollout."""
    EMPTY = "empty"
    """No sampled token: an empty response, or tool text only."""
    BROKEN_LOGPROB = "broken_logprob"
    """The engine reported a log-prob that is not finite for a sampled token."""


def unusable(rollout: Rollout) -> Unusable | None:
    """Reason why a rollout cannot be trained, or None.

    Call this before selection: the rollout then changes no baseline (B17).

    >>> from records.trajectory import Rollout, StopReason
    >>> key = dict(run="", checkpoint="", benchmark="rl1", problem="a", sample=0)
    >>> unusable(Rollout(**key, stop=StopReason.ANSWER)).value
    'empty'
    """
    if not rollout.stop.is_models:
        return Unusable.ABORTED
    sampled = [logprob for logprob, on in zip(rollout.logprob, rollout.mask, strict=False) if on]
    if not sampled:
        return Unusable.EMPTY
    if not all(math.isfinite(logprob) for logprob in sampled):
        return Unusable.BROKEN_LOGPROB
    return None


def row_of(rollout: Rollout, advantage: float) -> Row:
    """Convert one usable rollout to a row.

    Args:
        rollout: ids, mask and behaviour log-probs exactly as sampled.
        advantage: group-normalised advantage of the rollout.

    Raises:
        ValueError: ids are re-tokenised; lists differ in length; a prompt token is marked as sampled; sampling was
            truncated (top_p < 1: behaviour log-probs then disagree with a full softmax, B14) or greedy; the rollout
            is unusable; the advantage is not finite.

    >>> from records.trajectory import Rollout, StopReason
    >>> row = row_of(Rollout(run="", checkpoint="", benchmark="rl1", problem="a", sample=0, ids=[5, 6, 7],
    ...     mask=[False, True, True], logprob=[0.0, -0.5, -0.1], prompt_len=1, stop=StopReason.ANSWER), 1.5)
    >>> row.group, row.mask, row.advantage
    ('a', [False, True, True], 1.5)
    """
    name = f"problem {rollout.problem!r}, sample {rollout.sample}"
    if rollout.ids_source is not IdsSource.SAMPLED:
        raise ValueError(f"{name}: ids are {rollout.ids_source}; training needs the ids the engine sampled")
    if not len(rollout.ids) == len(rollout.mask) == len(rollout.logprob):
        raise ValueError(
            f"{name}: {len(rollout.ids)} ids, {len(rollout.mask)} mask entries, "
            f"{len(rollout.logprob)} log-probs: all three need one entry per token"
        )
    if rollout.prompt_len < 1 or any(rollout.mask[: rollout.prompt_len]):
        raise ValueError(
            f"{name}: the prompt must hold at least one token and none that is marked as sampled"
        )
    if rollout.top_p != 1.0 or not rollout.T > 0:
        raise ValueError(
            f"{name}: sampled with T = {rollout.T} and top_p = {rollout.top_p}; "
            "train on T > 0 and top_p = 1 only"
        )
    if not math.isfinite(advantage):
        raise ValueError(f"{name}: the advantage is {advantage}")
    reason = unusable(rollout)
    if reason is not None:
        raise ValueError(f"{name}: not trainable: {reason}; drop it before the advantages")
    return Row(
        ids=rollout.ids,
        mask=rollout.mask,
        logprob=rollout.logprob,
        advantage=advantage,
        group=rollout.problem,
        temperature=rollout.T,
    )
