"""Semantic locks: one test per decision of docs/decisions.md, in its order and under its number.

A failure here means that a rule of the method has changed. Do not adapt the test alone: change the entry in
docs/decisions.md (value, why, how sensitive) in the same step.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
import torch

from config.objective import Normalisation, RocSelection
from config.resolve import resolve
from records.tool_call import Status, ToolResult
from records.trajectory import CallKind, SelectionReason, StopReason, Trajectory, Turn
from trainer.selection.advantage import group_advantages
from trainer.selection.roc import Candidate, p_err, p_format, pressure, quotas, select
from trainer.selection.roc_release import p_err_text, p_format_text, release_counts
from trainer.update.loss import MAX_LOG_RATIO, clipped_loss, row_weights
from trainer.update.training_rows import Unusable, row_of, unusable

PAPER = resolve().objective.roc

PENALTIES = [0.0] * 6 + [0.25] * 4 + [0.5] * 4 + [1.0] * 2
"""Penalties of the 16 positives in the sensitivity table; the group has 16 negatives as well."""


def a_group(num_positive: int, num_negative: int) -> list[Candidate]:
    return [
        Candidate(index=i, reward=float(i < num_positive), p_err=PENALTIES[i % 16])
        for i in range(num_positive + num_negative)
    ]


def a_turn(call: CallKind, status: Status | None = None, text: str = "", num_extra_calls: int = 0) -> Turn:
    result = None if status is None else ToolResult(id="c", status=status)
    return Turn(text=text, start=1, end=2, call=call, result=result, num_extra_calls=num_extra_calls)


def a_trajectory(*turns: Turn, stop: StopReason = StopReason.ANSWER) -> Trajectory:
    return Trajectory(
        run="r", checkpoint="c", benchmark="rl1", problem="p", sample=0, turns=list(turns), stop=stop,
        ids=[1, 2], mask=[False, True], logprob=[0.0, -1.0], prompt_len=1,
    )  # fmt: skip


def test_every_decision_has_a_lock_and_every_lock_a_decision(project_root: Path) -> None:
    text = (project_root / "docs" / "decisions.md").read_text()
    decided = re.findall(r"^### (D\d\d) ", text, flags=re.MULTILINE)
    here = Path(__file__).read_text()
    elsewhere = re.findall(r"^Locked in `(tests/[\w/]+\.py)::(\w+)`", text, flags=re.MULTILINE)
    locked = sorted(set(re.findall(r"^def test_(d\d\d)_", here, flags=re.MULTILINE)))
    assert decided == [f"D{number:02d}" for number in range(1, len(decided) + 1)]
    assert len(decided) == len(locked) + len(elsewhere)
    for path, name in elsewhere:
        assert f"def {name}(" in (project_root / path).read_text()


# --- selection -------------------------------------------------------------------------------------------


def test_d01_a_class_keeps_its_share_rounded_to_the_larger_fraction() -> None:
    assert quotas(16, 16, 16, Random(0)) == (8, 8)
    assert quotas(10, 21, 16, Random(0)) == (5, 11)
    assert quotas(11, 20, 16, Random(0)) == (6, 10)
    assert {quotas(15, 17, 16, Random(seed)) for seed in range(20)} == {(7, 9), (8, 8)}


def test_d02_a_class_that_exists_keeps_at_least_one() -> None:
    assert quotas(39, 1, 16, Random(0)) == (15, 1)
    assert quotas(1, 39, 16, Random(0)) == (1, 15)


def test_d03_no_more_than_g_valid_keeps_all() -> None:
    selection = select(a_group(3, 13), 16, PAPER, Random(0))
    assert selection.reasons == (SelectionReason.KEPT_ALL,) * 16


def test_d04_positives_are_drawn_by_inverse_penalty_without_replacement() -> None:
    assert PAPER.epsilon == 0.05
    group = [Candidate(index=0, reward=1.0), Candidate(index=1, reward=1.0, p_err=0.45)]
    group += [Candidate(index=i, reward=0.0) for i in (2, 3)]
    rng = Random(3)
    first = sum(0 in select(group, 2, PAPER, rng).kept for _ in range(4000)) / 4000
    assert first == pytest.approx(20 / (20 + 2), abs=0.015)


def sensitivity_table() -> list[str]:
    """Mean p_total of the 8 positives kept of 16, over 500 seeded draws; the rows of docs/decisions.md, D04."""
    group = a_group(16, 16)
    rules = [
        (f"paper, epsilon {e:g}", PAPER.model_copy(update={"epsilon": e}))
        for e in (0.001, 0.01, 0.05, 0.2, 1.0)
    ]
    rules.append(("random", PAPER.model_copy(update={"selection": RocSelection.RANDOM})))
    rules.append(("release (the least)", PAPER.model_copy(update={"selection": RocSelection.RELEASE})))
    rows = []
    for name, rule in rules:
        rng, total = Random(0), 0.0
        for _ in range(500):
            total += pressure(group, select(group, 16, rule, rng), rule).p_total_after
        rows.append(f"| {name} | {total / 500:.3f} |")
    return rows


def test_d04_the_sensitivity_table_in_the_document_is_what_the_code_gives(project_root: Path) -> None:
    text = (project_root / "docs" / "decisions.md").read_text()
    missing = [row for row in sensitivity_table() if row not in text]
    assert not missing


def test_d05_negatives_are_drawn_uniformly() -> None:
    rng, counts = Random(4), [0] * 32
    for _ in range(1000):
        for i in select(a_group(16, 16), 16, PAPER, rng).kept:
            counts[i] += 1
    assert all(abs(count / 1000 - 0.5) < 0.06 for count in counts[16:])


def test_d06_equal_reward_rejects_a_group_before_and_after_selection() -> None:
    assert set(select(a_group(16, 0), 8, PAPER, Random(0)).reasons) == {SelectionReason.EQUAL_REWARD}
    group = [Candidate(index=i, reward=1.0) for i in range(9)]
    group.append(Candidate(index=9, reward=0.5, p_err=1.0))
    reasons = select(group, 2, PAPER.model_copy(update={"epsilon": 1e-9}), Random(0)).reasons
    assert set(reasons) == {SelectionReason.EQUAL_AFTER_SELECTION}


def test_d07_a_rollout_is_positive_if_its_reward_is_above_zero() -> None:
    rewards = [0.1, 2.0, 0.0, -1.0, 0.0, -0.5]
    group = [Candidate(index=i, reward=reward) for i, reward in enumerate(rewards)]
    for seed in range(20):
        kept = select(group, 3, PAPER, Random(seed)).kept
        assert sum(i < 2 for i in kept) == 1


def test_d08_rule_none_keeps_every_graded_rollout_of_a_group_with_spread() -> None:
    rule = PAPER.model_copy(update={"selection": RocSelection.NONE})
    assert len(select(a_group(20, 12), 16, rule, Random(0)).kept) == 32
    assert select(a_group(32, 0), 16, rule, Random(0)).kept == ()


def test_d09_random_differs_from_paper_only_in_the_weights() -> None:
    random_rule = PAPER.model_copy(update={"selection": RocSelection.RANDOM})
    for num_negative in range(1, 32):
        group = a_group(32 - num_negative, num_negative)
        paper = select(group, 16, PAPER, Random(num_negative)).kept
        uniform = select(group, 16, random_rule, Random(num_negative)).kept
        negatives = [[i for i in kept if i >= 32 - num_negative] for kept in (paper, uniform)]
        assert negatives[0] == negatives[1]
        assert len(paper) == len(uniform) == 16


def test_d10_the_release_rule_refuses_where_its_own_assertion_would_fail() -> None:
    with pytest.raises(ValueError, match="its own assertion fails"):
        release_counts(23, 7, 15)


# --- penalties -------------------------------------------------------------------------------------------


def test_d11_a_call_is_an_error_by_what_happened_not_by_its_text() -> None:
    for status in (Status.ERROR, Status.TIMEOUT, Status.MEMORY, Status.OUTPUT_LIMIT, Status.CRASH):
        assert p_err([a_turn(CallKind.EXECUTED, status)]) == 1.0
    for call in (CallKind.PARSE_ERROR, CallKind.UNKNOWN_TOOL):
        assert p_err([a_turn(call)]) == 1.0
    assert p_err([a_turn(CallKind.EXECUTED, Status.OK)]) == 0.0
    assert p_err_text("<tool_response>reason: worker_timeout</tool_response>") == 0.0


def test_d12_no_call_scores_one_half_and_what_did_not_run_is_not_counted() -> None:
    assert p_err([a_turn(CallKind.NONE)]) == 0.5
    assert p_err([a_turn(CallKind.EXECUTED)]) == 0.5
    lost = [a_turn(CallKind.EXECUTED, status) for status in Status if status.is_infrastructure]
    assert p_err([*lost, a_turn(CallKind.EXECUTED, Status.OK)]) == 0.0
    assert p_err([a_turn(CallKind.EXECUTED, Status.OK, num_extra_calls=3)]) == 0.0


def test_d13_answers_are_counted_in_sampled_text_and_turns_in_full() -> None:
    answered = a_turn(CallKind.NONE, text="<answer>1</answer>")
    assert p_format([answered]) == 0.0
    assert p_format([a_turn(CallKind.EXECUTED, Status.OK), answered, answered]) == pytest.approx(1 / 3)
    assert p_format_text("<answer>1</answer><|im_end|>") == 1.0


# --- baseline and loss -----------------------------------------------------------------------------------


def test_d14_advantages_divide_by_the_std_with_n_minus_1_and_no_epsilon() -> None:
    assert group_advantages([1.0, 1.0, 1.0, 0.0]) == [0.5, 0.5, 0.5, -1.5]


def test_d15_no_spread_means_exactly_zero() -> None:
    assert group_advantages([0.1] * 7) == [0.0] * 7
    assert group_advantages([1.0]) == [0.0]


def test_d16_the_denominator_counts_the_sampled_tokens_of_trained_rows() -> None:
    assert row_weights(Normalisation.GLOBAL_TOKENS, [3, 5], ["a", "b"]) == [1 / 8, 1 / 8]
    assert row_weights(Normalisation.GLOBAL_TOKENS, [3], ["a"]) == [1 / 3]


def test_d17_per_group_is_the_mean_over_questions_of_equation_6() -> None:
    assert row_weights(Normalisation.PER_GROUP_TOKENS, [3, 1, 2], ["a", "a", "b"]) == [1 / 8, 1 / 8, 1 / 4]


def test_d18_clip_higher_and_no_second_bound() -> None:
    assert resolve().objective.clip == [0.2, 0.28]


def test_d19_log_ratios_are_cut_at_20_before_exp() -> None:
    assert MAX_LOG_RATIO == 20.0
    current = torch.tensor([0.0], requires_grad=True)
    on = torch.tensor([True])
    clipped_loss(current, torch.tensor([-30.0]), -torch.ones(1), torch.ones(1), on, (0.2, 0.28))[0].backward()
    assert current.grad is not None
    assert current.grad.item() == 0.0


def test_d20_infrastructure_failures_leave_quota_baseline_and_loss() -> None:
    lost = [Candidate(index=100 + i, reward=None) for i in range(16)]
    with_lost = select(a_group(12, 8) + lost, 16, PAPER, Random(5))
    assert with_lost.kept == select(a_group(12, 8), 16, PAPER, Random(5)).kept


def test_d21_truncated_rollouts_are_trained_and_empty_ones_are_not() -> None:
    for stop in (StopReason.LENGTH, StopReason.CONTEXT, StopReason.MAX_TURNS, StopReason.ANSWER):
        assert unusable(a_trajectory(stop=stop)) is None
    assert unusable(replace(a_trajectory(), mask=[False, False])) is Unusable.EMPTY


def test_d22_training_takes_full_softmax_samples_only() -> None:
    trajectory = replace(a_trajectory(), top_p=0.95)
    with pytest.raises(ValueError, match="top_p = 1 only"):
        row_of(trajectory, 1.0)
