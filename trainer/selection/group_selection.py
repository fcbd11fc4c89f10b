"""`GroupSelection`: one group with the result of RoC (paper section 2.2.3)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from config.objective import ObjectiveSection, RocSelection
from records.group import Group
from records.trajectory import GradedRollout, Trajectory
from trainer.rollout.chat import Codec
from trainer.selection.grading import is_overlong
from trainer.selection.repetition import p_repetition
from trainer.selection.roc import Candidate, Selection, select
from trainer.selection.roc_release import p_err_text, p_format_text


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
        """The rollouts that the update trains on."""
        pairs = zip(self.group.rollouts, self.selection.reasons, strict=True)
        return [rollout for rollout, reason in pairs if reason.is_kept]


def select_group(
    group: Group[GradedRollout], objective: ObjectiveSection, codec: Codec, stream: Random
) -> GroupSelection:
    """Pick G rollouts of a group by the configured rule.

    Args:
        group: graded rollouts of one problem.
        objective: group size, RoC rule, overlong filter.
        codec: decodes a response for the release's text penalties.
        stream: random numbers of this group alone.
    """
    candidates = [_candidate(rollout, objective, codec) for rollout in group.rollouts]
    selection = select(candidates, objective.group_size, objective.roc, stream)
    return GroupSelection(group=group, candidates=candidates, selection=selection)


def _candidate(rollout: GradedRollout, objective: ObjectiveSection, codec: Codec) -> Candidate:
    """A rollout as input of the rule. The release computes its penalties from the decoded text."""
    err, form = rollout.p_err, rollout.p_format
    if objective.roc.selection is RocSelection.RELEASE:
        response = codec.decode(rollout.ids[rollout.prompt_len :])
        err, form = p_err_text(response), p_format_text(response)
    repeats = "p_repetition" in objective.roc.penalties
    return Candidate(
        index=rollout.sample,
        reward=rollout.reward,
        is_overlong=is_overlong(rollout, objective),
        p_err=err,
        p_format=form,
        p_repetition=p_repetition(rollout.ids, rollout.mask) if repeats else 0.0,
    )
