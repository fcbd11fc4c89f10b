"""`behaviour`: numbers reported with a score, such as ends, lengths, tool calls and lost samples."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from records.verdict import VerdictKind
from verifier.graders.policy import GraderName

if TYPE_CHECKING:
    from records.trajectory import GradedRollout


Metrics = Callable[[Sequence["GradedRollout"]], dict[str, float]]


def behaviour(trajectories: Sequence[GradedRollout], metrics: Metrics) -> dict[str, float]:
    """Return numbers of the samples of one score; `metrics` are those of training.

    Shares refer to the graded samples, except infra_failed_frac, the share that was lost.
    """
    from records.trajectory import StopReason

    graded = [t for t in trajectories if t.reward is not None]
    kinds = Counter(t.verdicts[GraderName.STRICT.value].verdict for t in graded)
    shares = {
        f"{kind.value}_frac": kinds[kind] / len(graded)
        for kind in VerdictKind
        if kind not in (VerdictKind.CORRECT, VerdictKind.INFRA_FAILED)
    }
    lost = len(trajectories) - len(graded)
    unfit = sum(not trajectory.turns for trajectory in graded)
    return (
        metrics(graded)
        | shares
        | {
            "num_rollouts": len(trajectories),
            "num_aborted": sum(t.stop is StopReason.ABORTED for t in trajectories),
            "num_lost": lost,
            "num_questions_lost": len({t.problem for t in trajectories} - {t.problem for t in graded}),
            "infra_failed_frac": lost / len(trajectories),
            "prompt_does_not_fit_frac": unfit / len(graded),
        }
    )
