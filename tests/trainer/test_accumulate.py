"""Gradients of parallel micro-batches: bit-equal to sequential ones, and to autograd's own sum."""

from __future__ import annotations

import threading

import pytest
import torch

from tests.trainer.tiny_models import tiny_model
from trainer.sft.parallel_backward import accumulate
from trainer.update.micro_batches import pad
from trainer.update.scoring import score_batch
from trainer.update.training_rows import Row


def rows(count: int = 12) -> list[Row]:
    lengths = [4 + (7 * number) % 9 for number in range(count)]
    return [
        Row(
            ids=[(number * 13 + place * 5) % 60 + 1 for place in range(length)],
            mask=[place > 1 for place in range(length)],
            logprob=[0.0] * length,
            advantage=1.0,
            group=str(number),
        )
        for number, length in enumerate(lengths)
    ]


def gradients(num_threads: int) -> list[torch.Tensor]:
    model = tiny_model()
    batch = rows()
    parameters = list(model.parameters())
    tasks = [(i, i + 1, i + 2) for i in range(0, len(batch), 3)]
    extras = accumulate(
        parameters,
        tasks,
        lambda indices: (-score_batch(model, pad(batch, indices), 1.0).logprob_S.sum(), indices),
        num_threads,
    )
    assert extras == tasks
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


@pytest.mark.parametrize("num_threads", [2, 3])
def test_threads_change_no_bit(num_threads: int) -> None:
    alone = gradients(1)
    for _ in range(5):
        beside = gradients(num_threads)
        assert all(torch.equal(a, b) for a, b in zip(alone, beside, strict=True))


def test_the_sum_is_that_of_backward() -> None:
    model = tiny_model()
    batch = rows()
    for i in range(0, len(batch), 3):
        (-score_batch(model, pad(batch, (i, i + 1, i + 2)), 1.0).logprob_S.sum()).backward()
    for expected, found in zip([p.grad for p in model.parameters()], gradients(2), strict=True):
        assert expected is not None
        assert torch.equal(expected, found)


def test_an_old_gradient_is_dropped() -> None:
    weight = torch.ones(1, requires_grad=True)
    weight.grad = torch.full((1,), 100.0)
    accumulate([weight], [2.0], lambda factor: ((factor * weight).sum(), None))
    assert weight.grad.item() == 2.0


def test_micro_batches_run_in_parallel() -> None:
    weight = torch.ones(1, requires_grad=True)
    meet = threading.Barrier(2, timeout=30)

    def compute(task: float) -> tuple[torch.Tensor, None]:
        meet.wait()
        return (task * weight).sum(), None

    accumulate([weight], [1.0, 2.0], compute, num_threads=2)
    assert weight.grad is not None
    assert weight.grad.item() == 3.0


def test_a_failing_micro_batch_raises() -> None:
    weight = torch.ones(1, requires_grad=True)

    def compute(task: int) -> tuple[torch.Tensor, None]:
        if task == 1:
            raise ValueError("bad row")
        return weight.sum(), None

    with pytest.raises(ValueError, match="bad row"):
        accumulate([weight], [0, 1, 2], compute, num_threads=2)


def test_zero_threads_are_refused() -> None:
    with pytest.raises(ValueError, match="num_threads is 0"):
        accumulate([torch.ones(1, requires_grad=True)], [1], lambda _: (torch.ones(1), None), 0)
