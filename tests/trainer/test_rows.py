"""Trajectory to row: exact ids, masks by engine log-prob, refusals."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from records.trajectory import IdsSource, StopReason, Trajectory
from trainer.update.training_rows import Unusable, row_of, unusable


def a_trajectory(**changes) -> Trajectory:
    """Prompt of 2, a sampled call, 2 tokens of tool text, a sampled answer."""
    fields = {
        "ids": [1, 2, 30, 31, 4, 5, 60, 61],
        "mask": [False, False, True, True, False, False, True, True],
        "logprob": [0.0, 0.0, -0.1, -0.2, 0.0, 0.0, -0.3, 0.0],
        "prompt_len": 2,
        "stop": StopReason.ANSWER,
    } | changes
    return Trajectory(run="r", checkpoint="c", benchmark="rl1", problem="p7", sample=3, **fields)


def test_a_row_is_the_trajectory_as_sampled() -> None:
    """B9, B23: nothing is re-tokenised; tool text is context; a sampled token of log-prob 0 still counts."""
    trajectory = a_trajectory(T=0.8)
    row = row_of(trajectory, 1.5)
    assert (row.ids, row.mask, row.logprob) == (trajectory.ids, trajectory.mask, trajectory.logprob)
    assert (row.advantage, row.group, row.temperature) == (1.5, "p7", 0.8)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({}, None),
        ({"stop": StopReason.LENGTH}, None),
        ({"stop": StopReason.CONTEXT}, None),
        ({"stop": StopReason.MAX_TURNS}, None),
        ({"stop": StopReason.ABORTED}, Unusable.ABORTED),
        ({"ids": [1, 2], "mask": [False] * 2, "logprob": [0.0] * 2}, Unusable.EMPTY),
        ({"mask": [False] * 8}, Unusable.EMPTY),
        ({"logprob": [0.0, 0.0, -0.1, math.nan, 0.0, 0.0, -0.3, 0.0]}, Unusable.BROKEN_LOGPROB),
        ({"logprob": [0.0, 0.0, -0.1, -math.inf, 0.0, 0.0, -0.3, 0.0]}, Unusable.BROKEN_LOGPROB),
        ({"logprob": [math.nan, 0.0, -0.1, -0.2, 0.0, 0.0, -0.3, 0.0]}, None),
    ],
)
def test_usable_rollouts_are_recognised(changes: dict, reason: Unusable | None) -> None:
    """Truncated rollouts are trained (paper 4.3.1); empty, tool-text-only and aborted ones are not."""
    assert unusable(a_trajectory(**changes)) is reason


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ids_source": IdsSource.RETOKENISED}, "ids are retokenised"),
        ({"mask": [False] * 7}, "8 ids, 7 mask entries, 8 log-probs"),
        ({"logprob": [0.0] * 9}, "8 ids, 8 mask entries, 9 log-probs"),
        ({"prompt_len": 3}, "none that is marked as sampled"),
        ({"prompt_len": 0}, "at least one token"),
        ({"top_p": 0.9}, "top_p = 0.9"),
        ({"T": 0.0}, "T = 0.0"),
        ({"mask": [False] * 8}, "not trainable: empty"),
    ],
)
def test_a_rollout_that_would_corrupt_training_is_refused_by_name(changes: dict, message: str) -> None:
    """Includes B14 (truncated sampling); the message names problem and sample."""
    with pytest.raises(ValueError, match=f"problem 'p7', sample 3: .*{message}"):
        row_of(a_trajectory(**changes), 1.0)


@pytest.mark.parametrize("advantage", [math.nan, math.inf])
def test_an_advantage_that_is_not_finite_is_refused(advantage: float) -> None:
    with pytest.raises(ValueError, match="the advantage is"):
        row_of(a_trajectory(), advantage)


def test_building_rows_leaves_the_trajectory_alone() -> None:
    trajectory = a_trajectory()
    before = replace(trajectory, ids=list(trajectory.ids), mask=list(trajectory.mask))
    row_of(trajectory, 1.0)
    assert trajectory == before
