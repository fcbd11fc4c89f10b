"""`accumulate`: gradients of several micro-batches, computed in parallel and added in order, with equal bits.

Two threads inside one matrix product of a small model mostly wait for each other; two parallel micro-batches do not.
Each thread runs a forward and a backward pass over the shared weights. The caller adds the results in the order of the
micro-batches, so the number of threads changes only the time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import torch
from torch import Tensor

Task = TypeVar("Task")
Extra = TypeVar("Extra")


def accumulate(
    parameters: Sequence[Tensor],
    tasks: Sequence[Task],
    compute: Callable[[Task], tuple[Tensor, Extra]],
    num_threads: int = 1,
) -> list[Extra]:
    """Set `grad` of every parameter to the sum of the gradients of all losses.

    Args:
        parameters: leaves that every loss depends on; earlier values of their `grad` are dropped.
        tasks: one per micro-batch.
        compute: forward pass of one task, which returns a scalar loss and any extra value for the caller. With more
            than one thread it must not change shared state.
        num_threads: parallel micro-batches, each on one thread per operation.

    Returns:
        The extra value of each task, in order.

    d(1 w)/dw + d(2 w)/dw = 3, for any number of threads:

    >>> w = torch.ones(1, requires_grad=True)
    >>> accumulate([w], [1.0, 2.0], lambda factor: ((factor * w).sum(), factor), num_threads=2), w.grad.item()
    ([1.0, 2.0], 3.0)
    """
    if num_threads < 1:
        raise ValueError(f"num_threads is {num_threads}: give 1 or more")
    for parameter in parameters:
        parameter.grad = None
    if num_threads == 1:
        extras = []
        for task in tasks:
            loss, what = compute(task)
            loss.backward()
            extras.append(what)
        return extras
    return _side_by_side(parameters, tasks, compute, num_threads)


def _side_by_side(
    parameters: Sequence[Tensor],
    tasks: Sequence[Task],
    compute: Callable[[Task], tuple[Tensor, Extra]],
    num_threads: int,
) -> list[Extra]:
    extras: list[Extra] = []

    def take(gradients: Sequence[Tensor], what: Extra) -> None:
        for parameter, gradient in zip(parameters, gradients, strict=True):
            # The first gradient is copied: autograd may return one tensor for two parameters.
            parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        extras.append(what)

    def work(task: Task) -> tuple[Sequence[Tensor], Extra]:
        loss, what = compute(task)
        return torch.autograd.grad(loss, parameters), what

    waiting: deque[Future[tuple[Sequence[Tensor], Extra]]] = deque()
    with ThreadPoolExecutor(num_threads, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        for task in tasks:
            # At most one finished gradient waits for an earlier one: each is as large as the model.
            if len(waiting) > num_threads:
                take(*waiting.popleft().result())
            waiting.append(pool.submit(work, task))
        while waiting:
            take(*waiting.popleft().result())
    return extras
