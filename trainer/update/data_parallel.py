"""`Ranks`: the data-parallel processes of one trainer. Only this file of the trainer uses torch.distributed.

Every rank holds all weights, receives the whole batch, computes the same plan and runs its own part; then the ranks sum
their gradients. Token weights are shares of the whole batch (`trainer.update.loss.row_weights`), so gradients are
summed, never averaged (public fault B5). All ranks make the same calls in the same order (B42).

Each rank starts from equal weights and adds equal gradients, so weights stay equal without communication.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, distributed


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranks:
    """This process among the ranks; with a single rank, every call returns its argument."""

    rank: int = 0
    size: int = 1

    @classmethod
    def joined(cls, device: torch.device) -> Ranks:
        """Join the processes that torchrun started (WORLD_SIZE above 1); otherwise use a single rank.

        gloo on CPUs, NCCL on GPUs.
        """
        if int(os.environ.get("WORLD_SIZE", "1")) == 1:
            return cls()
        if not distributed.is_initialized():
            distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
        return cls(rank=distributed.get_rank(), size=distributed.get_world_size())

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Sum the gradients of all ranks in place; a parameter that a rank did not reach counts as zero there."""
        if self.size == 1:
            return
        pending = []
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
            pending.append(distributed.all_reduce(parameter.grad, async_op=True))
        for work in pending:
            if work is not None:
                work.wait()

    def total(self, values: Sequence[float], device: torch.device) -> list[float]:
        """Return the sum of each value over all ranks.

        >>> Ranks().total([1.0, 2.0], torch.device("cpu"))
        [1.0, 2.0]
        """
        return self.sum(torch.tensor(values, dtype=torch.float64, device=device)).tolist()

    def sum(self, values: Tensor) -> Tensor:
        """Return the sum of a tensor over all ranks, in place."""
        if self.size > 1:
            distributed.all_reduce(values)
        return values

    def largest(self, value: float, device: torch.device) -> float:
        """Return the maximum of the ranks' values."""
        if self.size == 1:
            return value
        held = torch.tensor(value, dtype=torch.float64, device=device)
        distributed.all_reduce(held, op=distributed.ReduceOp.MAX)
        return held.item()
