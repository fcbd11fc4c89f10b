"""Gradients of several micro-batches, computed side by side and added in order: more cores, the same bits.

Two threads inside one matrix product of a small model wait for each other more than they work; two micro-batches at a
time do not. Each thread runs its own forward and backward over the shared weights, and the caller adds what comes
back in the order of the micro-batches, so the number of threads decides nothing but the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Task = TypeVar("Task")
Told = TypeVar("Told")


def accumulate(
    parameters: Sequence[Tensor],
    tasks: Sequence[Task],
    compute: Callable[[Task], tuple[Tensor, Told]],
    num_threads: int = 1,
) -> list[Told]:
    """Set `grad` of every parameter to the sum of the gradients of all losses.

    Args:
        parameters: leaves that every loss depends on; what they hold in `grad` before is dropped.
        tasks: one per micro-batch.
        compute: forward pass of one task: a scalar loss and whatever else the caller wants back. With more than one
            thread it must not change shared state.
        num_threads: micro-batches at a time, each on one thread per operation.

    Returns:
        What `compute` told of each task, in order.

    d(1 w)/dw + d(2 w)/dw = 3, whoever computes it.

    >>> w = torch.ones(1, requires_grad=True)
    >>> accumulate([w], [1.0, 2.0], lambda factor: ((factor * w).sum(), factor), num_threads=2), w.grad.item()
    ([1.0, 2.0], 3.0)
    """
    if num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}: give 1 or more")
    for parameter in parameters:
        parameter.grad = None
    if num_threads == 1:
        told = []
        for task in tasks:
            loss, what = compute(task)
            loss.backward()
            told.append(what)
        return told
    return _side_by_side(parameters, tasks, compute, num_threads)


def _side_by_side(
    parameters: Sequence[Tensor],
    tasks: Sequence[Task],
    compute: Callable[[Task], tuple[Tensor, Told]],
    num_threads: int,
) -> list[Told]:
    told: list[Told] = []

    def take(gradients: Sequence[Tensor], what: Told) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # The first is a copy: autograd may hand out one tensor for two parameters.
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        told.append(what)

    def work(task: Task) -> tuple[Sequence[Tensor], Told]:
        loss, what = compute(task)
        return torch.autograd.grad(loss, parameters), what

    waiting: deque[Future[tuple[Sequence[Tensor], Told]]] = deque()
    with ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for task in tasks:
            # One finished gradient may wait for an earlier one; no more, they are as large as the model.
            if len(waiting) > num_threads:
                take(*waiting.popleft().result())
            waiting.append(pool.submit(work, task))
        while waiting:
            take(*waiting.popleft().result())
    return told
