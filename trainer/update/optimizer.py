"""`adamw`, `muon_and_adamw`, `lr_factor`: optimizers, learning-rate schedules, and their state as plain tensors."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Literal

import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.optim import AdamW, Optimizer

from trainer.update.muon import Muon


def adamw(model: nn.Module, *, lr: float, betas: list[float], weight_decay: float) -> AdamW:
    """AdamW over all parameters; refuses master weights that are not float32 (public fault B20)."""
    wrong = [name for name, parameter in model.named_parameters() if parameter.dtype != torch.float32]
    if wrong:
        raise ValueError(
            f"{wrong[0]} is not float32: small updates would round to nothing; load masters in float32"
        )
    return AdamW(model.parameters(), lr=lr, betas=(betas[0], betas[1]), weight_decay=weight_decay)


def muon_and_adamw(model: nn.Module, *, lr: float, betas: list[float]) -> list[Optimizer]:
    """Muon on hidden matrices, AdamW on embeddings, head and norms, both at `lr` (Muon scaled to AdamW's RMS).

    Neither decays weights.
    """
    matrices, rest = [], []
    for name, parameter in model.named_parameters():
        is_matrix = parameter.ndim == 2 and "embed" not in name and "lm_head" not in name
        (matrices if is_matrix else rest).append(parameter)
    muon = Muon(matrices, lr=lr)
    return [muon, AdamW(rest, lr=lr, betas=(betas[0], betas[1]), weight_decay=0.0)]


def set_lr(optimizers: list[Optimizer], lr: float) -> None:
    """Set the learning rate of every parameter group."""
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            group["lr"] = lr


def lr_factor(
    update: int, total: int, warmup: int, schedule: Literal["constant", "cosine", "trapezoid"]
) -> float:
    """Share of the peak rate at `update` (from 1). Warm-up is linear and reaches 1 at update `warmup`.

    cosine ends at 0; trapezoid is constant for 60% of the updates, then falls linearly to 2%.

    >>> [round(lr_factor(u, 10, 2, "constant"), 2) for u in (1, 2, 3)]
    [0.5, 1.0, 1.0]
    >>> round(lr_factor(10, 10, 2, "trapezoid"), 2)
    0.02
    """
    if update <= warmup:
        return update / warmup
    match schedule:
        case "constant":
            return 1.0
        case "cosine":
            return 0.5 * (1 + math.cos(math.pi * (update - warmup) / max(total - warmup, 1)))
        case "trapezoid":
            return max(0.02, min(1.0, 0.02 + 0.98 * (total - update) / max(0.4 * total, 1)))


def save_optimizers(optimizers: list[Optimizer], path: Path) -> None:
    """Write all state tensors to one safetensors file; names are optimizer, parameter index and state key."""
    tensors = {}
    for number, optimizer in enumerate(optimizers):
        for index, state in optimizer.state_dict()["state"].items():
            for key, value in state.items():
                tensors[f"{number}.{index}.{key}"] = torch.as_tensor(value).detach().cpu().contiguous()
    save_file(tensors, path)


def load_optimizers(optimizers: list[Optimizer], path: Path) -> None:
    """Restore the output of `save_optimizers` into optimizers of the same shape."""
    tensors = load_file(path)
    for number, optimizer in enumerate(optimizers):
        current = optimizer.state_dict()
        state: dict[int, dict[str, torch.Tensor]] = {}
        for name, tensor in tensors.items():
            owner, index, key = name.split(".", 2)
            if int(owner) == number:
                state.setdefault(int(index), {})[key] = tensor
        optimizer.load_state_dict({"state": state, "param_groups": current["param_groups"]})
