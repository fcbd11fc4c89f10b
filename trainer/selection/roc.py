"""`select`: Resample on Correct, which computes trajectory penalties and chooses the trained rollouts of a group.

Sources: paper section 2.2.3 (Eq. 4 and 5) and the released down-sampler. `config.objective.RocSelection` names the
rules:

- paper: both classes keep their share of G; positives drawn with weights 1 / (p_total + epsilon), negatives
  uniformly, without replacement.
- random: the same rejection and quotas, both classes drawn uniformly. Isolates the effect of the penalty.
- permuted: as paper, with the penalties shuffled among the positives. Isolates the information in the penalty.
- none: every graded rollout of a group with spread is kept.
- release: the rule of the released code (`trainer.selection.roc_release`): proportional rounding, the p positives
  with the smallest penalty, the first z negatives. Deterministic.

docs/decisions.md decides what the paper leaves open. RoC never changes a reward. Rollouts without a reward leave
before any count, so they change neither quota nor baseline (B17, B38).

Invariants that the tests assert: every candidate gets exactly one reason (conservation, B35); exactly G are kept
if more than G are valid (paper, random); the result does not depend on the order of the candidates.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from config.objective import RocSection, RocSelection
from records.trajectory import SelectionReason, Turn
from trainer.selection.advantage import has_spread
from trainer.selection.roc_release import release_counts
from verifier.turn import read_turn

NO_CALL_P_ERR = 0.5
"""Eq. 4 for a rollout without a tool call; the penalty encourages tool use."""


# --- penalties -------------------------------------------------------------------------------------------


def p_err(turns: Sequence[Turn]) -> float:
    """Share of tool calls that failed by the model's fault (paper Eq. 4); 0.5 without a tool call.

    `Turn.failed_call` decides by the outcome of the call, never by the text of the response.

    Args:
        turns: all assistant turns of a rollout.

    Returns:
        A number in [0, 1].

    >>> from records.trajectory import CallKind
    >>> turns = [Turn(text="", start=0, end=1, call=kind) for kind in (CallKind.PARSE_ERROR, CallKind.NONE)]
    >>> p_err(turns), p_err(turns[1:])
    (1.0, 0.5)
    """
    faults = [failed for turn in turns if (failed := turn.failed_call) is not None]
    if not faults:
        return NO_CALL_P_ERR
    return sum(faults) / len(faults)


def p_format(turns: Sequence[Turn]) -> float:
    """Penalty for a missing or repeated answer (paper Eq. 5), on sampled text only.

    The penalty is 1 without an answer tag, else min(1, (answer tags - 1) / turns). Only `<answer>` openings in answer
    text (`verifier.turn`) count: tags in reasoning, code or tool responses do not. All turns count; the release
    counts one fewer (`trainer.selection.roc_release.p_format_text`).

    Args:
        turns: all assistant turns of a rollout.

    Returns:
        A number in [0, 1].

    >>> from records.trajectory import CallKind
    >>> def turn(text): return Turn(text=text, start=0, end=1, call=CallKind.NONE)
    >>> p_format([turn("no tag")]), p_format([turn("<answer>1</answer>")])
    (1.0, 0.0)
    >>> p_format([turn("calls a tool"), turn("<answer>1</answer> again <answer>1</answer>")])
    0.5
    """
    num_answers = sum(read_turn(turn.text).num_answers for turn in turns)
    if num_answers == 0:
        return 1.0
    return min(1.0, (num_answers - 1) / len(turns))


def penalty(candidate: Candidate, roc: RocSection) -> float:
    """p_total: the sum of the configured penalties, in [0, 2] under the paper's rule.

    >>> from config.resolve import resolve
    >>> late = Candidate(index=0, reward=1.0, p_err=0.25, p_format=1.0)
    >>> roc = resolve().objective.roc
    >>> penalty(late, roc), penalty(late, roc.model_copy(update={"penalties": ["p_err"]}))
    (1.25, 0.25)
    """
    parts = {"p_err": candidate.p_err, "p_format": candidate.p_format, "p_repetition": candidate.p_repetition}
    return sum(value for name, value in parts.items() if name in roc.penalties)


# --- records ---------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """The selection's view of one rollout of a group."""

    index: int
    """The rollout's number in its group (`Rollout.sample`); unique within the group."""
    reward: float | None
    """None: the rollout was lost, not graded, or filtered (`is_overlong`); this is never a reward of 0."""
    is_overlong: bool = False
    """Cut at the length limit, and the filter of such rollouts is on (paper section 4.3.1)."""
    p_err: float = 0.0
    p_format: float = 0.0
    p_repetition: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The outcome for one group."""

    reasons: tuple[SelectionReason, ...]
    """One per candidate, in the given order."""
    kept: tuple[int, ...]
    """`Candidate.index` of the kept candidates, ascending."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Pressure:
    """Effect of a selection on the penalties of the positives."""

    num_before: int
    num_after: int
    p_total_before: float
    """Mean p_total of the graded positives; NaN if there is none."""
    p_total_after: float
    """Mean p_total of the kept positives; NaN if there is none."""


# --- selection -------------------------------------------------------------------------------------------


def select(group: Sequence[Candidate], G: int, roc: RocSection, rng: Random) -> Selection:
    """Choose the rollouts of one group to train on.

    Order: candidates without a reward leave; a group without spread is rejected; the rule chooses; a selection
    without spread is rejected.

    Args:
        group: all rollouts of one problem, in any order.
        G: rollouts to train, at least 2.
        roc: the configured rule.
        rng: stream of this group, e.g. `Random(f"{seed}:{step}:{problem}")`. Paper and random use one uniform
            number per valid rollout in order of index (after one for a tie of remainders): arms with equal seeds
            then use equal draws.

    Returns:
        A reason for each candidate and the kept indices.

    Raises:
        ValueError: G is below 2, an index occurs twice, a reward or penalty is not finite, or the release's own
            assertion would fail under the release rule.

    >>> from random import Random
    >>> from config.resolve import resolve
    >>> group = [Candidate(index=i, reward=float(i < 4), p_err=0.1 * i) for i in range(6)]
    >>> select(group, 3, resolve().objective.roc, Random(1)).kept
    (0, 3, 5)
    >>> select(group[:4], 2, resolve().objective.roc, Random(1)).reasons[0].value
    'equal_reward'
    """
    _check(group, G)
    rejected = reject_equal(group)
    if rejected is not None:
        return rejected
    valid = sorted((c for c in group if c.reward is not None), key=lambda c: c.index)
    match roc.selection:
        case RocSelection.NONE:
            return _selection(group, {c.index for c in valid}, kept=SelectionReason.KEPT_ALL)
        case RocSelection.RELEASE:
            return _select_release(group, valid, G, roc)
        case RocSelection.PAPER | RocSelection.RANDOM | RocSelection.PERMUTED:
            return _select_drawn(group, valid, G, roc, rng)


def reject_equal(group: Sequence[Candidate]) -> Selection | None:
    """Reject a group whose valid rewards have no spread (all right, all wrong, a single one, none).

    Returns:
        A selection that keeps nothing, or None if the group carries a gradient.

    >>> reject_equal([Candidate(index=0, reward=1.0), Candidate(index=1, reward=None)]).reasons
    (<SelectionReason.EQUAL_REWARD: 'equal_reward'>, <SelectionReason.NO_REWARD: 'no_reward'>)
    >>> reject_equal([Candidate(index=0, reward=1.0), Candidate(index=1, reward=0.0)]) is None
    True
    """
    if has_spread([c.reward for c in group if c.reward is not None]):
        return None
    return _selection(group, set(), dropped=SelectionReason.EQUAL_REWARD)


def quotas(num_positive: int, num_negative: int, G: int, rng: Random) -> tuple[int, int]:
    """Numbers of positives and negatives to keep when more than G rollouts are valid.

    The share of a class is G * n_class / n_valid. The remainder goes to the larger fraction, and the stream decides
    an exact tie. A class that exists keeps at least one (docs/decisions.md). The paper's floor(n / 2) per class equals
    this rule for even counts and N = 2G, and falls one short of G for odd counts.

    Args:
        num_positive: valid rollouts of reward > 0.
        num_negative: valid rollouts of reward <= 0.
        G: rollouts to keep; at least 2, less than the sum of the two.
        rng: read only on a tie.

    Returns:
        (positives, negatives) to keep; they sum to G.

    31 of 32 right and G = 16: the shares are 15.5 and 0.5, a tie; with either result one negative stays.

    >>> from random import Random
    >>> quotas(10, 22, 16, Random(0)), quotas(13, 7, 10, Random(0)), quotas(39, 1, 16, Random(0))
    ((5, 11), (6, 4), (15, 1))
    """
    num_valid = num_positive + num_negative
    if not 2 <= G < num_valid:
        raise ValueError(f"quotas need 2 <= G < valid rollouts, not G = {G} of {num_valid}")
    positive, remainder_positive = divmod(G * num_positive, num_valid)
    remainder_negative = (G * num_negative) % num_valid
    if remainder_positive + remainder_negative > 0:
        if remainder_positive == remainder_negative:
            positive += rng.random() < 0.5
        elif remainder_positive > remainder_negative:
            positive += 1
    if num_positive > 0:
        positive = max(positive, 1)
    if num_negative > 0:
        positive = min(positive, G - 1)
    return positive, G - positive


def pressure(group: Sequence[Candidate], selection: Selection, roc: RocSection) -> Pressure:
    """Mean p_total of the positives before and after selection.

    >>> from config.resolve import resolve
    >>> group = [Candidate(index=0, reward=1.0, p_err=0.5), Candidate(index=1, reward=1.0),
    ...          Candidate(index=2, reward=0.0)]
    >>> kept = Selection(reasons=(SelectionReason.NOT_DRAWN, SelectionReason.KEPT, SelectionReason.KEPT), kept=(1, 2))
    >>> outcome = pressure(group, kept, resolve().objective.roc)
    >>> outcome.p_total_before, outcome.p_total_after
    (0.25, 0.0)
    """
    before = [penalty(c, roc) for c in group if c.reward is not None and c.reward > 0]
    kept = set(selection.kept)
    after = [penalty(c, roc) for c in group if c.reward is not None and c.reward > 0 and c.index in kept]
    return Pressure(
        num_before=len(before),
        num_after=len(after),
        p_total_before=math.fsum(before) / len(before) if before else math.nan,
        p_total_after=math.fsum(after) / len(after) if after else math.nan,
    )


def _check(group: Sequence[Candidate], G: int) -> None:
    if G < 2:
        raise ValueError(
            f"G is {G}: a group of fewer than 2 has no baseline; train at least 2 rollouts per problem"
        )
    indices = [c.index for c in group]
    if len(set(indices)) != len(indices):
        raise ValueError(f"two candidates of one group share an index: {sorted(indices)}")
    for candidate in group:
        for name, value in (
            ("p_err", candidate.p_err),
            ("p_format", candidate.p_format),
            ("p_repetition", candidate.p_repetition),
        ):
            if not 0.0 <= value <= 1.0:
                raise ValueError(f"{name} of rollout {candidate.index} is {value}: penalties lie in [0, 1]")


def _selection(
    group: Sequence[Candidate],
    chosen: set[int],
    kept: SelectionReason = SelectionReason.KEPT,
    dropped: SelectionReason = SelectionReason.NOT_DRAWN,
) -> Selection:
    reasons = tuple(
        _without_reward(c) if c.reward is None else kept if c.index in chosen else dropped for c in group
    )
    return Selection(reasons=reasons, kept=tuple(sorted(chosen)))


def _without_reward(candidate: Candidate) -> SelectionReason:
    return SelectionReason.OVERLONG if candidate.is_overlong else SelectionReason.NO_REWARD


def _select_drawn(
    group: Sequence[Candidate], valid: list[Candidate], G: int, roc: RocSection, rng: Random
) -> Selection:
    if len(valid) <= G:
        return _selection(group, {c.index for c in valid}, kept=SelectionReason.KEPT_ALL)
    positives = [c for c in valid if c.reward is not None and c.reward > 0]
    negatives = [c for c in valid if c.reward is not None and c.reward <= 0]
    num_positive, num_negative = quotas(len(positives), len(negatives), G, rng)
    uniforms = {c.index: rng.random() for c in valid}
    weights = _weights(positives, roc, rng)
    chosen = _draw(positives, [uniforms[c.index] for c in positives], weights, num_positive)
    chosen += _draw(negatives, [uniforms[c.index] for c in negatives], [1.0] * len(negatives), num_negative)
    if not has_spread([c.reward for c in chosen if c.reward is not None]):
        return _selection(group, set(), dropped=SelectionReason.EQUAL_AFTER_SELECTION)
    return _selection(group, {c.index for c in chosen})


def _weights(positives: list[Candidate], roc: RocSection, rng: Random) -> list[float]:
    if roc.selection is RocSelection.RANDOM:
        return [1.0] * len(positives)
    penalties = [penalty(c, roc) for c in positives]
    if roc.selection is RocSelection.PERMUTED:
        rng.shuffle(penalties)
    return [1.0 / (p_total + roc.epsilon) for p_total in penalties]


def _draw(
    candidates: list[Candidate], uniforms: list[float], weights: list[float], num: int
) -> list[Candidate]:
    """Weighted draw without replacement: the `num` smallest of Exp(1) / weight.

    The minimum of exponential clocks is each one with probability weight / sum, and the others are memoryless. The
    result therefore equals successive draws from the remainder (Efraimidis and Spirakis, 2006).
    """
    clocks = [-math.log1p(-uniform) / weight for uniform, weight in zip(uniforms, weights, strict=True)]
    order = sorted(range(len(candidates)), key=lambda i: (clocks[i], candidates[i].index))
    return [candidates[i] for i in order[:num]]


def _select_release(group: Sequence[Candidate], valid: list[Candidate], G: int, roc: RocSection) -> Selection:
    """The least penalties (stable, so ties by index) and the first negatives; see `trainer.selection.roc_release`."""
    if len(valid) < G:
        return _selection(group, set(), dropped=SelectionReason.GROUP_TOO_SMALL)
    if len(valid) == G:
        return _selection(group, {c.index for c in valid}, kept=SelectionReason.KEPT_ALL)
    positives = [c for c in valid if c.reward is not None and c.reward > 0]
    negatives = [c for c in valid if c.reward is not None and c.reward <= 0]
    num_positive, num_negative = release_counts(len(positives), len(negatives), G)
    best = sorted(positives, key=lambda c: penalty(c, roc))[:num_positive]
    return _selection(group, {c.index for c in best + negatives[:num_negative]})
