"""The clipped objective: clip table, denominators, gradient equality over splits, NaN outside the mask."""

from __future__ import annotations

import math
from random import Random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from config.objective import Normalisation
from trainer.update.loss import (
    TokenSums,
    clipped_loss,
    entropy_bonus,
    kl_penalty,
    mismatch_sums,
    row_weights,
)

GLOBAL, PER_GROUP, RELEASE = Normalisation
CLIP = (0.2, 0.28)


def ones(count: int) -> Tensor:
    return torch.ones(count, dtype=torch.float64)


def one_token(ratio: float, advantage: float, clip: tuple[float, float]) -> tuple[float, float, TokenSums]:
    """Loss, gradient by the log-prob, and sums of a single token of weight 1."""
    current = torch.tensor([math.log(ratio)], dtype=torch.float64, requires_grad=True)
    loss, sums = clipped_loss(
        current, torch.zeros_like(current), advantage * ones(1), ones(1), torch.tensor([True]), clip
    )
    loss.backward()
    assert current.grad is not None
    return loss.item(), current.grad.item(), sums


@pytest.mark.parametrize(
    ("ratio", "advantage", "used", "has_gradient", "low", "high"),
    [
        (0.5, 1.0, 0.5, True, 0, 0),
        (1.0, 1.0, 1.0, True, 0, 0),
        (1.27, 1.0, 1.27, True, 0, 0),
        (1.29, 1.0, 1.28, False, 0, 1),
        (9.0, 1.0, 1.28, False, 0, 1),
        (9.0, -1.0, 9.0, True, 0, 0),
        (1.0, -1.0, 1.0, True, 0, 0),
        (0.81, -1.0, 0.81, True, 0, 0),
        (0.79, -1.0, 0.8, False, 1, 0),
        (0.1, -2.0, 0.8, False, 1, 0),
        (9.0, 0.0, 9.0, False, 0, 0),
        (0.1, 0.0, 0.1, False, 0, 0),
    ],
)
def test_clip_table_of_ratio_and_sign(
    ratio: float, advantage: float, used: float, has_gradient: bool, low: int, high: int
) -> None:
    """B15: only the binding side clips, is counted, and loses its gradient."""
    loss, gradient, sums = one_token(ratio, advantage, CLIP)
    assert loss == pytest.approx(-used * advantage, abs=1e-12)
    assert gradient == pytest.approx(-ratio * advantage if has_gradient else 0.0, abs=1e-12)
    assert (sums.num_clipped_low, sums.num_clipped_high) == (low, high)
    assert sums.num_tokens == 1


@pytest.mark.parametrize(("ratio", "advantage"), [(2.0, 1.0), (0.5, -1.0)])
def test_a_ratio_exactly_at_its_bound_has_a_gradient(ratio: float, advantage: float) -> None:
    _, gradient, sums = one_token(ratio, advantage, (0.5, 1.0))
    assert gradient == -ratio * advantage
    assert (sums.num_clipped_low, sums.num_clipped_high) == (0, 0)


def slow_loss(
    current: list[float], old: list[float], advantage: list[float], weight: list[float], mask: list[bool]
) -> float:
    """Eq. 6 in plain Python floats, in the other form (with min and clip)."""
    total = 0.0
    for c, o, a, w, on in zip(current, old, advantage, weight, mask, strict=True):
        if on:
            ratio = math.exp(c - o)
            total -= w * min(ratio * a, min(max(ratio, 1 - 0.2), 1 + 0.28) * a)
    return total


tokens = st.lists(
    st.tuples(
        st.floats(-3, 0),
        st.floats(-3, 0),
        st.sampled_from([-1.5, -0.3, 0.0, 0.5, 2.0]),
        st.floats(0, 1),
        st.booleans(),
    ),
    max_size=30,
)


@given(tokens)
def test_equals_a_slow_loop(rows: list[tuple[float, float, float, float, bool]]) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)] or [[], [], [], [], []]
    current, old, advantage, weight = (torch.tensor(column, dtype=torch.float64) for column in columns[:4])
    loss, sums = clipped_loss(
        current, old, advantage, weight, torch.tensor(columns[4], dtype=torch.bool), CLIP
    )
    assert loss.item() == pytest.approx(slow_loss(*columns), rel=1e-12, abs=1e-12)
    assert sums.num_tokens == sum(columns[4])
    differences = [row[0] - row[1] for row in rows if row[4]]
    assert sums.sum_abs_dlogp == pytest.approx(sum(map(abs, differences)), abs=1e-9)
    assert sums.max_abs_dlogp == pytest.approx(max(map(abs, differences), default=0.0), abs=1e-12)
    assert sums.sum_ratio == pytest.approx(sum(map(math.exp, differences)), rel=1e-12)


def test_values_outside_the_mask_may_be_anything() -> None:
    """B8: NaN * 0 is NaN; selection comes before arithmetic, forward and backward."""
    bad = [math.nan, math.inf, -math.inf]
    current = torch.tensor([-1.0, *bad], dtype=torch.float64, requires_grad=True)
    other = torch.tensor([-1.5, *bad], dtype=torch.float64)
    mask = torch.tensor([True, False, False, False])
    loss, sums = clipped_loss(current, other, other, other, mask, CLIP)
    (loss + kl_penalty(current, other, other, mask) + entropy_bonus(current, other, mask)).backward()
    assert torch.isfinite(loss)
    assert current.grad is not None
    assert torch.isfinite(current.grad).all()
    assert current.grad[1:].tolist() == [0.0, 0.0, 0.0]
    assert sums.num_tokens == 1
    assert mismatch_sums(current, other, mask).max_abs_dlogp == 0.5


@pytest.mark.parametrize("count", [0, 3])
def test_nothing_selected_gives_zero_loss_with_a_graph(count: int) -> None:
    """B8: no 0/0; the backward pass still runs, so collectives do too."""
    current = torch.full((count,), -1.0, requires_grad=True)
    off = torch.zeros(count, dtype=torch.bool)
    loss, sums = clipped_loss(current, current.detach(), current.detach(), current.detach(), off, CLIP)
    loss.backward()
    assert loss.item() == 0.0
    assert current.grad is not None
    assert not current.grad.any()
    assert sums == TokenSums()


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1])
def test_a_selected_log_prob_that_is_not_finite_is_refused(bad: float, place: int) -> None:
    values = torch.full((2, 2), -1.0)
    values[place, 1] = bad
    with pytest.raises(ValueError, match="not finite"):
        clipped_loss(values[0], values[1], torch.ones(2), torch.ones(2), torch.tensor([True, True]), CLIP)


def test_a_huge_ratio_neither_overflows_nor_poisons_the_gradient() -> None:
    loss, gradient, _ = one_token(1e300, 1.0, CLIP)
    assert (loss, gradient) == (-1.28, 0.0)
    current = torch.tensor([0.0], requires_grad=True)
    on = torch.tensor([True])
    loss, _ = clipped_loss(current, torch.tensor([-1e4]), torch.tensor([-1.0]), torch.ones(1), on, CLIP)
    loss.backward()
    assert torch.isfinite(loss)
    assert current.grad is not None
    assert torch.isfinite(current.grad).all()


def test_shapes_that_differ_are_refused() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        clipped_loss(ones(2), ones(1), ones(2), ones(2), torch.tensor([True, True]), CLIP)


# --- denominators ----------------------------------------------------------------------------------------

LENGTHS = [3, 5, 2, 9, 4, 1, 7, 6]
GROUPS = ["a", "a", "b", "b", "b", "c", "c", "a"]


def test_global_weights_give_each_token_of_the_batch_the_same_share() -> None:
    """B6, B7: the denominator is sampled tokens, not cells, not a constant width."""
    weights = row_weights(GLOBAL, LENGTHS, GROUPS)
    assert weights == [1 / 37] * 8
    assert sum(w * n for w, n in zip(weights, LENGTHS, strict=True)) == pytest.approx(1.0)


def test_per_group_weights_give_each_group_the_same_share() -> None:
    weights = row_weights(PER_GROUP, LENGTHS, GROUPS)
    for group in "abc":
        share = sum(w * n for w, n, g in zip(weights, LENGTHS, GROUPS, strict=True) if g == group)
        assert share == pytest.approx(1 / 3)


def test_release_weights_are_a_row_weighted_mean_of_micro_batch_means() -> None:
    weights = row_weights(RELEASE, LENGTHS, GROUPS, [[0, 1], [2, 3, 4, 5, 6, 7]], mini_batch_rows=16)
    assert weights == pytest.approx([2 / 16 / 8] * 2 + [6 / 16 / 29] * 6)
    assert row_weights(RELEASE, [2, 2], ["a", "a"], [[0, 1]]) == [0.25, 0.25]


@pytest.mark.parametrize("micro_batches", [[], [[0]], [[0, 1], [1]], [[0, 2]]])
def test_release_weights_require_a_partition(micro_batches: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="each of the 2 rows once"):
        row_weights(RELEASE, [1, 1], ["a", "a"], micro_batches)


@pytest.mark.parametrize("normalisation", Normalisation)
def test_rows_without_sampled_tokens_divide_nothing_by_zero(normalisation: Normalisation) -> None:
    assert row_weights(normalisation, [0, 0], ["a", "b"], [[0], [1]]) == [0.0, 0.0]
    assert row_weights(normalisation, [], [], []) == []
    assert row_weights(normalisation, [0, 4], ["a", "b"], [[0], [1]], 1)[1] == 0.25


def test_lists_of_different_length_are_refused() -> None:
    with pytest.raises(ValueError, match="2 token counts but 1 group ids"):
        row_weights(GLOBAL, [1, 1], ["a"])


# --- gradient equality -----------------------------------------------------------------------------------

SPLITS = {
    "1": [[0, 1, 2, 3, 4, 5, 6, 7]],
    "2": [[0, 1, 2, 3], [4, 5, 6, 7]],
    "4": [[0, 7], [1, 6], [2, 5], [3, 4]],
    "8": [[i] for i in range(8)],
    "uneven": [[3], [0, 1, 2, 4, 5], [], [6, 7]],
}


def gradient_of_split(
    micro_batches: list[list[int]], normalisation: Normalisation, dtype: torch.dtype
) -> Tensor:
    """Gradient of a small policy over ragged rows, accumulated micro-batch by micro-batch."""
    torch.manual_seed(0)
    num_tokens = sum(LENGTHS)
    features, head = torch.randn(num_tokens, 6, dtype=dtype), torch.randn(11, 6, dtype=dtype) / 2
    targets, noise = torch.randint(11, (num_tokens,)), torch.randn(num_tokens, dtype=dtype) / 3
    row_T = torch.repeat_interleave(torch.arange(8), torch.tensor(LENGTHS))
    rng = Random(1)
    advantage_N = torch.tensor([rng.choice([-1.2, -0.4, 0.7, 1.9]) for _ in LENGTHS], dtype=dtype)
    weight_N = torch.tensor(
        row_weights(normalisation, LENGTHS, GROUPS, [m for m in micro_batches if m]), dtype=dtype
    )
    with torch.no_grad():
        old = torch.log_softmax(features @ head.T, 1).gather(1, targets[:, None])[:, 0] + noise
    head.requires_grad_()
    for rows in micro_batches:
        chosen = torch.isin(row_T, torch.tensor(rows, dtype=torch.long))
        logits = features[chosen] @ head.T
        current = torch.log_softmax(logits, 1).gather(1, targets[chosen][:, None])[:, 0]
        row = row_T[chosen]
        loss, _ = clipped_loss(
            current,
            old[chosen],
            advantage_N[row],
            weight_N[row],
            torch.ones_like(row, dtype=torch.bool),
            CLIP,
        )
        loss.backward()
    assert head.grad is not None
    return head.grad


@pytest.mark.parametrize("normalisation", [GLOBAL, PER_GROUP])
@pytest.mark.parametrize("split", [name for name in SPLITS if name != "1"])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-10), (torch.float32, 1e-4)])
def test_the_gradient_does_not_depend_on_the_split(
    normalisation: Normalisation, split: str, dtype: torch.dtype, tolerance: float
) -> None:
    """B5: one denominator for the whole optimizer batch."""
    whole = gradient_of_split(SPLITS["1"], normalisation, dtype)
    parts = gradient_of_split(SPLITS[split], normalisation, dtype)
    assert (parts - whole).norm() <= tolerance * whole.norm()


def test_the_release_gradient_does_depend_on_the_split() -> None:
    """The deliberate copy of fault B5; without it the arm would test nothing."""
    whole = gradient_of_split(SPLITS["1"], RELEASE, torch.float64)
    parts = gradient_of_split(SPLITS["uneven"], RELEASE, torch.float64)
    assert (parts - whole).norm() > 0.01 * whole.norm()


def test_one_update_per_step_has_ratio_one_and_the_plain_policy_gradient() -> None:
    """B16 at the level of the objective: with old = detached current nothing clips."""
    current = torch.tensor([-0.3, -2.0, -5.0], requires_grad=True)
    advantage, weight = torch.tensor([1.0, -2.0, 3.0]), torch.tensor([0.5, 0.25, 0.25])
    on = torch.tensor([True] * 3)
    loss, sums = clipped_loss(current, current.detach(), advantage, weight, on, CLIP)
    loss.backward()
    assert current.grad is not None
    assert current.grad.tolist() == (-weight * advantage).tolist()
    assert (sums.sum_ratio, sums.max_abs_dlogp) == (3.0, 0.0)
    assert (sums.num_clipped_low, sums.num_clipped_high) == (0, 0)


# --- sums, corrections, extra terms ----------------------------------------------------------------------


def test_sums_add_over_micro_batches_as_if_they_were_one() -> None:
    torch.manual_seed(1)
    current, old, advantage = torch.randn(3, 20, dtype=torch.float64)
    on = torch.rand(20) < 0.7
    whole = clipped_loss(current, old, advantage, ones(20), on, CLIP)[1]
    first, second = slice(0, 13), slice(13, 20)
    parts = [
        clipped_loss(current[s], old[s], advantage[s], ones(20)[s], on[s], CLIP)[1] for s in (first, second)
    ]
    total = parts[0] + parts[1]
    assert total.num_tokens == whole.num_tokens == int(on.sum())
    assert total.num_clipped_low == whole.num_clipped_low > 0
    assert total.num_clipped_high == whole.num_clipped_high > 0
    assert total.sum_ratio == pytest.approx(whole.sum_ratio)
    assert total.max_abs_dlogp == whole.max_abs_dlogp
    assert total.per_token(total.sum_abs_dlogp) == pytest.approx(whole.sum_abs_dlogp / int(on.sum()))


def test_the_kl_term_is_never_negative_and_pulls_towards_the_reference() -> None:
    current = torch.tensor([-1.0, -2.0, -3.0], dtype=torch.float64, requires_grad=True)
    reference = torch.tensor([-2.0, -2.0, -1.0], dtype=torch.float64)
    on = torch.tensor([True] * 3)
    penalty = kl_penalty(current, reference, ones(3), on)
    penalty.backward()
    assert penalty.item() == pytest.approx(math.exp(-1) + math.exp(2) - 3)
    assert current.grad is not None
    assert [math.copysign(1, g) if g else 0 for g in current.grad.tolist()] == [1, 0, -1]


def test_the_entropy_term_is_the_weighted_sum_over_the_mask() -> None:
    entropy, weight = torch.tensor([1.0, 2.0, 4.0]), torch.tensor([0.5, 0.25, 0.25])
    assert entropy_bonus(entropy, weight, torch.tensor([True, False, True])).item() == 1.5
