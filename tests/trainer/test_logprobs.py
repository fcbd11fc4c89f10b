"""Chunked log-probs and entropy: equal to a full log-softmax and its autograd gradient, in bounded memory."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import Tensor

from trainer.update.logprobs import TokenScores, token_scores, token_table

S, H, V = 23, 8, 37


def data(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(0)
    return torch.randn(S, H, dtype=dtype), torch.randn(V, H, dtype=dtype), torch.randint(V, (S,))


def full(hidden: Tensor, head: Tensor, target: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    logp = torch.log_softmax(hidden @ head.T / temperature, dim=1)
    return logp.gather(1, target[:, None])[:, 0], -(logp.exp() * logp).sum(1)


CHUNKED = partial(token_scores, keep_logits=0, chunk_logits=5 * V)
KEPT = partial(token_scores, keep_logits=S * V)
ONE_BY_ONE = partial(token_scores, keep_logits=0, chunk_logits=1)


@pytest.mark.parametrize("path", [CHUNKED, KEPT, ONE_BY_ONE], ids=["chunked", "kept", "one by one"])
@pytest.mark.parametrize("temperature", [1.0, 0.6, 2.0])
def test_values_and_gradients_equal_the_full_softmax(
    path: Callable[..., TokenScores], temperature: float
) -> None:
    hidden, head, target = data()
    weight, other = torch.randn(S, dtype=torch.float64), torch.randn(S, dtype=torch.float64)
    gradients = []
    for chunked in (True, False):
        leaves = (hidden.clone().requires_grad_(), head.clone().requires_grad_())
        if chunked:
            scores = path(*leaves, target, temperature, entropy_grad=True)
            logprob, entropy = scores.logprob_S, scores.entropy_S
        else:
            logprob, entropy = full(*leaves, target, temperature)
        ((logprob * weight).sum() + (entropy * other).sum()).backward()
        gradients.append([logprob.detach(), entropy.detach(), leaves[0].grad, leaves[1].grad])
    for chunked, plain in zip(*gradients, strict=True):
        assert (chunked - plain).abs().max() < 1e-12


def test_gradcheck_of_both_outputs() -> None:
    hidden, head, target = data()
    leaves = (hidden[:5].clone().requires_grad_(), head[:7].clone().requires_grad_())

    def outputs(hidden: Tensor, head: Tensor) -> tuple[Tensor, Tensor]:
        scores = CHUNKED(hidden, head, target[:5] % 7, 0.7, entropy_grad=True)
        return scores.logprob_S, scores.entropy_S

    assert torch.autograd.gradcheck(outputs, leaves)


def test_temperature_divides_logits_not_log_probs() -> None:
    """B13: both give a softmax at T = 1; only one still sums to 1 at T = 0.6."""
    hidden, head, _ = data()
    total = sum(token_scores(hidden, head, torch.full((S,), v), 0.6).logprob_S.exp() for v in range(V))
    assert isinstance(total, Tensor)
    assert total.tolist() == pytest.approx([1.0] * S, abs=1e-12)


def test_entropy_is_detached_by_default() -> None:
    hidden, head, target = data()
    hidden.requires_grad_()
    assert not token_scores(hidden, head, target).entropy_S.requires_grad
    assert token_scores(hidden, head, target, entropy_grad=True).entropy_S.requires_grad


@pytest.mark.parametrize("path", [CHUNKED, KEPT], ids=["chunked", "kept"])
def test_the_backward_pass_can_run_twice(path: Callable[..., TokenScores]) -> None:
    hidden, head, target = data()
    hidden.requires_grad_()
    total = path(hidden, head, target).logprob_S.sum()
    first = torch.autograd.grad(total, hidden, retain_graph=True)[0]
    assert torch.equal(first, torch.autograd.grad(total, hidden)[0])


def test_only_requested_gradients_are_computed() -> None:
    hidden, head, target = data()
    head.requires_grad_()
    CHUNKED(hidden, head, target).logprob_S.sum().backward()
    assert head.grad is not None
    assert hidden.grad is None


def test_float32_stays_close_and_half_precision_reduces_in_float32() -> None:
    hidden, head, target = data()
    exact = full(hidden, head, target, 1.0)[0]
    single = CHUNKED(hidden.float(), head.float(), target)
    assert single.logprob_S.dtype is torch.float32
    assert (single.logprob_S.double() - exact).abs().max() < 1e-5
    half = CHUNKED(hidden.bfloat16().requires_grad_(), head.bfloat16(), target)
    assert half.logprob_S.dtype is half.entropy_S.dtype is torch.float32
    rounded = full(hidden.bfloat16().double(), head.bfloat16().double(), target, 1.0)[0]
    assert (half.logprob_S.double() - rounded).abs().max() < 1e-5


def test_huge_logits_stay_finite() -> None:
    hidden = torch.tensor([[1.0], [-1.0]], requires_grad=True)
    scores = token_scores(hidden, torch.tensor([[1e4], [-1e4]]), torch.tensor([0, 0]), entropy_grad=True)
    (scores.logprob_S.sum() + scores.entropy_S.sum()).backward()
    assert scores.logprob_S.tolist() == [0.0, -2e4]
    assert scores.entropy_S.tolist() == pytest.approx([0.0, 0.0], abs=1e-3)
    assert hidden.grad is not None
    assert torch.isfinite(hidden.grad).all()


@pytest.mark.parametrize("path", [CHUNKED, KEPT], ids=["chunked", "kept"])
def test_no_target_gives_empty_scores_and_zero_gradients(path: Callable[..., TokenScores]) -> None:
    """B8, B42: the padding micro-batch of a light rank runs the same graph."""
    hidden, head = torch.zeros(0, H, requires_grad=True), torch.randn(V, H, requires_grad=True)
    scores = path(hidden, head, torch.zeros(0, dtype=torch.long))
    scores.logprob_S.sum().backward()
    assert scores.logprob_S.shape == scores.entropy_S.shape == (0,)
    assert head.grad is not None
    assert not head.grad.any()


def test_the_largest_tensor_of_a_chunked_pass_is_one_chunk() -> None:
    """B19: no tensor of size [S, V], forward or backward."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Largest(TorchDispatchMode):
        numel = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            result = func(*args, **(kwargs or {}))
            for tensor in result if isinstance(result, tuple | list) else [result]:
                if isinstance(tensor, Tensor):
                    self.numel = max(self.numel, tensor.numel())
            return result

    hidden, head, target = torch.randn(400, 4), torch.randn(300, 4), torch.randint(300, (400,))
    hidden.requires_grad_()
    head.requires_grad_()
    with Largest() as seen:
        token_scores(hidden, head, target, keep_logits=0, chunk_logits=3000).logprob_S.sum().backward()
        token_table(hidden, head, target, chunk_logits=3000)
    assert 3000 <= seen.numel < 400 * 300 / 10


def test_the_table_agrees_with_the_scores_and_ranks_by_logit() -> None:
    hidden, head, target = data()
    table = token_table(hidden, head, target, 0.6, chunk_logits=5 * V)
    scores = token_scores(hidden, head, target, 0.6)
    assert (table.logprob_S - scores.logprob_S).abs().max() < 1e-12
    assert (table.entropy_S - scores.entropy_S).abs().max() < 1e-12
    order = (hidden @ head.T).argsort(1, descending=True)
    assert all(order[s, table.rank_S[s]] == target[s] for s in range(S))


@pytest.mark.parametrize("temperature", [0.0, -1.0, math.nan])
def test_a_temperature_without_log_probs_is_refused(temperature: float) -> None:
    with pytest.raises(ValueError, match="temperature"):
        token_scores(*data(), temperature)


def test_shapes_that_do_not_fit_are_refused() -> None:
    hidden, head, target = data()
    with pytest.raises(ValueError, match="do not fit"):
        token_scores(hidden, head[:, :3], target)
    with pytest.raises(ValueError, match="23 hidden states but targets"):
        token_scores(hidden, head, target[:3])
