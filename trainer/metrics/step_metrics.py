"""`rollout_metrics`: behaviour of the rollouts of one RL step, with names, units and reductions.

All means are over raw rollouts before selection, graded or not, unless the name states otherwise. Rollouts that the
infrastructure lost, or whose prompt did not fit, give no evidence of behaviour and are counted separately. Shares are
in [0, 1]. A quantity without a case in the step (no correct rollout, no call) is absent rather than 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from records.trajectory import CallKind, GradedRollout, Rollout, StopReason, Turn
from records.verdict import Verdict, VerdictKind
from verifier.graders.policy import GraderName
from verifier.turn import read_turn

GRADERS = {grader.value for grader in GraderName}


def is_correct(rollout: GradedRollout) -> bool:
    """The verdict of the grader, for every reward of an experiment; an ungraded rollout is not correct.

    Without a grader's verdict a positive reward replaces it.

    >>> from records.verdict import Verdict, VerdictKind
    >>> wrong = Verdict(id="p", verdict=VerdictKind.WRONG, rule="", grader="strict")
    >>> is_correct(GradedRollout(run="", checkpoint="", benchmark="", problem="p", sample=0, reward=1.0,
    ...     verdicts={"strict": wrong}))
    False
    """
    verdict = _verdict_of(rollout)
    return is_rewarded(rollout) if verdict is None else verdict.verdict is VerdictKind.CORRECT


def is_graded(rollout: GradedRollout) -> bool:
    """Whether the rollout has a valid verdict: a failure of the grader is not a wrong answer, for any reward.

    >>> from records.verdict import Verdict, VerdictKind
    >>> broken = Verdict(id="p", verdict=VerdictKind.INFRA_FAILED, rule="", grader="strict")
    >>> is_graded(GradedRollout(run="", checkpoint="", benchmark="", problem="p", sample=0, reward=1.0,
    ...     verdicts={"strict": broken}))
    False
    """
    verdict = _verdict_of(rollout)
    return rollout.reward is not None if verdict is None else verdict.verdict is not VerdictKind.INFRA_FAILED


def _verdict_of(rollout: GradedRollout) -> Verdict | None:
    return next((v for g, v in rollout.verdicts.items() if g in GRADERS), None)


def is_rewarded(rollout: GradedRollout) -> bool:
    """True for a positive reward: RoC calls these rollouts positive."""
    return rollout.reward is not None and rollout.reward > 0


def is_lost(rollout: Rollout) -> bool:
    """True if engine, sandbox or reward function ended it; it is no evidence about the policy."""
    return not rollout.stop.is_models


def is_lost_call(rollout: Rollout) -> bool:
    """True if the rollout was lost with its last tool call, which gave no result."""
    last = rollout.turns[-1] if rollout.turns else None
    return is_lost(rollout) and last is not None and last.call is CallKind.EXECUTED and last.result is None


def is_played(rollout: Rollout) -> bool:
    """True if the policy received the prompt and ended the rollout itself."""
    return not is_lost(rollout) and bool(rollout.turns)


def rollout_metrics(rollouts: Sequence[GradedRollout]) -> dict[str, float]:
    """Behaviour of one batch of raw rollouts.

    >>> turn = Turn(text="<answer>", start=1, end=3, call=CallKind.NONE)
    >>> one = GradedRollout(run="r", checkpoint="c", benchmark="rl1", problem="p", sample=0, ids=[1, 2, 3],
    ...     mask=[False, True, True], logprob=[0.0, -1.0, -1.0], prompt_len=1, turns=[turn], reward=1.0,
    ...     stop=StopReason.ANSWER)
    >>> metrics = rollout_metrics([one])
    >>> metrics["accuracy"], metrics["response_len_mean"], metrics["no_tool_frac"]
    (1.0, 2.0, 1.0)
    """
    played = [t for t in rollouts if is_played(t)]
    graded = [t for t in rollouts if is_graded(t)]
    correct = [t for t in graded if is_correct(t)]
    calls = [t.calls for t in played]
    correct_calls = [t.calls for t in correct]
    first_calls = [c[0] for c in calls if c]
    metrics: dict[str, float] = {
        "num_rollouts": len(rollouts),
        "num_aborted": sum(is_lost(t) for t in rollouts),
        "num_sampled_tokens": sum(t.num_sampled for t in rollouts),
        "num_tool_calls": sum(len(t.calls) for t in rollouts),
        "num_tool_calls_run": sum(turn.result is not None for t in rollouts for turn in t.turns),
        "num_tool_calls_lost": sum(is_lost_call(t) for t in rollouts),
    }
    failed = [bool(turn.failed_call) for c in correct_calls for turn in c]
    metrics |= {"num_tool_calls_correct": len(failed), "num_tool_errors_correct": sum(failed)}
    metrics |= _mean("accuracy", [float(is_correct(t)) for t in graded])
    metrics |= _mean("reward_mean", [t.reward for t in graded if t.reward is not None])
    metrics |= _mean("response_len_mean", [t.response_len for t in played])
    metrics |= _mean("response_len_correct_mean", [t.response_len for t in correct])
    metrics |= _mean("truncated_frac", [t.stop is StopReason.LENGTH for t in played])
    metrics |= _mean("context_stop_frac", [t.stop is StopReason.CONTEXT for t in played])
    metrics |= _mean("max_turns_frac", [t.stop is StopReason.MAX_TURNS for t in played])
    metrics |= _mean("turns_mean", [len(t.turns) for t in played])
    metrics |= _mean("tool_calls_mean", [len(c) for c in calls])
    metrics |= _mean("no_tool_frac", [not any(_asks(turn) for turn in t.turns) for t in played])
    metrics |= _mean("no_call_no_answer_frac", [_is_idle(turn) for t in played for turn in _ended_turns(t)])
    metrics |= _mean(
        "parse_error_frac", [_fails_to_parse(turn) for t in played for turn in t.turns if _asks(turn)]
    )
    metrics |= _mean("tool_error_frac", [bool(turn.failed_call) for c in calls for turn in c])
    metrics |= _mean("tool_error_frac_correct", failed)
    metrics |= _mean("first_call_success_frac", [not turn.failed_call for turn in first_calls])
    metrics |= _mean("repeated_call_frac", [_repeats(c) for c in calls if c])
    metrics |= _mean("several_answers_frac_correct", [_num_answers(t) > 1 for t in correct])
    after_error = [t.tokens_after_first_error for t in played]
    metrics |= _mean("tokens_after_first_error_mean", [n for n in after_error if n is not None])
    metrics |= _mean(
        "recovery_frac", [float(is_correct(t)) for t in graded if (c := t.calls) and c[0].failed_call]
    )
    return metrics


def group_metrics(groups: Iterable[Sequence[GradedRollout]]) -> dict[str, float]:
    """Shares of groups that carry no gradient, among groups with at least one graded rollout."""
    outcomes: Counter[str] = Counter()
    for group in groups:
        rewards = {is_rewarded(t) for t in group if t.reward is not None}
        if rewards:
            outcomes["mixed" if len(rewards) > 1 else "right" if True in rewards else "wrong"] += 1
    total = outcomes.total()
    if not total:
        return {}
    return {
        "groups_all_right_frac": outcomes["right"] / total,
        "groups_all_wrong_frac": outcomes["wrong"] / total,
    }


def progress_note(metrics: Mapping[str, float]) -> str:
    """Return the numbers of the progress line.

    >>> progress_note({"accuracy": 0.5, "loss": 1.0})
    'acc 0.500'
    """
    return "  ".join(f"{short} {metrics[name]:.3f}" for name, short in _SHOWN.items() if name in metrics)


_SHOWN = {
    "accuracy": "acc",
    "tool_error_frac_correct": "err+",
    "response_len_mean": "len",
    "truncated_frac": "cut",
    "grad_norm": "norm",
}


def _asks(turn: Turn) -> bool:
    """True if the turn requests a tool, in any form."""
    return turn.call is not CallKind.NONE


def _fails_to_parse(turn: Turn) -> bool:
    return turn.call in (CallKind.PARSE_ERROR, CallKind.UNKNOWN_TOOL)


def _is_idle(turn: Turn) -> bool:
    """True if the turn ends with neither a call nor an answer."""
    return not _asks(turn) and "<answer>" not in turn.text


def _ended_turns(rollout: Rollout) -> Sequence[Turn]:
    """Turns that the policy ended itself, without a turn cut by the budget."""
    return rollout.turns[:-1] if rollout.stop is StopReason.LENGTH else rollout.turns


def _mean(name: str, values: Sequence[float]) -> dict[str, float]:
    return {name: sum(values) / len(values)} if values else {}


def _repeats(calls: Sequence[Turn]) -> bool:
    """True if the rollout ran the same code twice."""
    codes = [turn.code for turn in calls if turn.code is not None]
    return len(set(codes)) < len(codes)


def _num_answers(rollout: Rollout) -> int:
    return sum(read_turn(turn.text).num_answers for turn in rollout.turns)
