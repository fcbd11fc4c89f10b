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
from trainer.selection.roc import Candidate, Selection, SelectionRule, select
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
    rule = selection_rule(objective)
    candidates = [_candidate(rollout, objective, rule, codec) for rollout in group.rollouts]
    selection = select(candidates, objective.group_size, rule, stream)
    return GroupSelection(group=group, candidates=candidates, selection=selection)


def selection_rule(objective: ObjectiveSection) -> SelectionRule:
    """The configured RoC rule."""
    roc = objective.roc
    return SelectionRule(
        selection=roc.selection,
        epsilon=roc.epsilon,
        use_p_err=roc.use_p_err,
        use_p_format=roc.use_p_format,
        use_repetition=roc.use_repetition,
        transform=roc.transform,
    )


def _candidate(
    rollout: GradedRollout, objective: ObjectiveSection, rule: SelectionRule, codec: Codec
) -> Candidate:
    """A rollout as input of the rule. The release computes its penalties from the decoded text."""
    err, form = rollout.p_err, rollout.p_format
    if rule.selection is RocSelection.RELEASE:
        response = codec.decode(rollout.ids[rollout.prompt_len :])
        err, form = p_err_text(response), p_format_text(response)
    return Candidate(
        index=rollout.sample,
        reward=rollout.reward,
        is_overlong=is_overlong(rollout, objective),
        p_err=err,
        p_format=form,
        p_repetition=p_repetition(rollout.ids, rollout.mask) if rule.use_repetition else 0.0,
    )
