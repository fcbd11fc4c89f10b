"""`STAGES`: the checkpoints of a run in the order of training. Another stage is one more entry."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class StageKind(StrEnum):
    BASE = "base"
    SFT = "sft"
    RL = "rl"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """One checkpoint and its origin."""

    name: str
    kind: StageKind
    parent: str | None
    """The checkpoint that the stage starts from."""
    label: str
    """Name in figures and tables."""
    new_optimizer: bool = True
    """Whether the optimizer is new, with a warm-up; otherwise the parent's continues (paper section 4.3)."""
    is_filtered: bool = False
    """Whether the hard-problem filter runs before the stage, with the parent's policy (paper section 4.3)."""


STAGES = (
    Stage(name="base", kind=StageKind.BASE, parent=None, label="base"),
    Stage(name="sft", kind=StageKind.SFT, parent="base", label="SFT"),
    Stage(name="rl1", kind=StageKind.RL, parent="sft", label="RL 1"),
    Stage(name="rl2", kind=StageKind.RL, parent="rl1", label="RL 2", new_optimizer=False),
    Stage(name="rl3", kind=StageKind.RL, parent="rl2", label="RL 3", is_filtered=True),
)
BY_NAME = {stage.name: stage for stage in STAGES}
CHECKPOINTS = tuple(BY_NAME)
TRAINED = tuple(stage.name for stage in STAGES if stage.kind is not StageKind.BASE)
RL_STAGES = tuple(stage.name for stage in STAGES if stage.kind is StageKind.RL)
LAST = CHECKPOINTS[-1]
ENDS = (TRAINED[0], LAST)
"""The checkpoints before and after RL."""
FILTERED = next(stage for stage in STAGES if stage.is_filtered)
"""The stage that trains on the hard problems."""
