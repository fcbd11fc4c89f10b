"""`GroupSelection`: one group with what the selection made of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from records.group import Group
from records.trajectory import GradedRollout, Trajectory
from trainer.selection.roc import Candidate, Selection


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSelection:
    """Rollouts, candidates and reasons of one group, in the same order."""

    group: Group[GradedRollout]
    candidates: Sequence[Candidate]
    selection: Selection

    @property
    def trajectories(self) -> list[Trajectory]:
        """Every rollout of the group with its reason."""
        pairs = zip(self.group.rollouts, self.selection.reasons, strict=True)
        return [rollout.selected(reason) for rollout, reason in pairs]

    @property
    def kept(self) -> list[GradedRollout]:
        """The rollouts that are trained."""
        pairs = zip(self.group.rollouts, self.selection.reasons, strict=True)
        return [rollout for rollout, reason in pairs if reason.is_kept]
