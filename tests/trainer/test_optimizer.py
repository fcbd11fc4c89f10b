"""Optimizers: learning-rate schedules, Muon's update rule, state that survives a restart bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from trainer.update.muon import Muon, orthogonalise
from trainer.update.optimizer import (
    adamw,
    load_optimizers,
    lr_factor,
    muon_and_adamw,
    save_optimizers,
    set_lr,
)


class Net(nn.Module):
    """Two matrices of one shape, one of another, a vector, an embedding and a head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed_tokens = nn.Embedding(7, 4)
        self.a, self.b = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
        self.c = nn.Linear(4, 6, bias=True)
        self.lm_head = nn.Linear(6, 7, bias=False)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.lm_head(self.c(torch.tanh(self.b(torch.tanh(self.a(self.embed_tokens(ids)))))))


def optimizers(net: Net, kind: str) -> list[Any]:
    settings = {"lr": 0.01, "betas": [0.9, 0.95]}
    return muon_and_adamw(net, **settings) if kind == "muon" else [adamw(net, **settings, weight_decay=0.1)]


def train(net: Net, using: list[Any], steps: range) -> None:
    for step in steps:
        for optimizer in using:
            optimizer.zero_grad()
        net(torch.tensor([[step % 7, (step * 3) % 7]])).square().mean().backward()
        set_lr(using, 0.01 / (1 + step))
        for optimizer in using:
            optimizer.step()


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_a_restart_continues_bit_for_bit(kind: str, tmp_path: Path) -> None:
    straight = Net()
    train(straight, optimizers(straight, kind), range(6))
    first = Net()
    using = optimizers(first, kind)
    train(first, using, range(3))
    save_optimizers(using, tmp_path / "o.safetensors")
    second = Net()
    second.load_state_dict(first.state_dict())
    again = optimizers(second, kind)
    load_optimizers(again, tmp_path / "o.safetensors")
    train(second, again, range(3, 6))
    for name, tensor in straight.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name


def test_muon_takes_hidden_matrices_and_adamw_every_other_parameter_once() -> None:
    net = Net()
    muon, rest = muon_and_adamw(net, lr=0.01, betas=[0.9, 0.95])
    taken = [{id(p) for group in o.param_groups for p in group["params"]} for o in (muon, rest)]
    names = {id(p): name for name, p in net.named_parameters()}
    assert {names[i] for i in taken[0]} == {"a.weight", "b.weight", "c.weight"}
    assert {names[i] for i in taken[1]} == {"embed_tokens.weight", "lm_head.weight", "c.bias"}


@pytest.mark.parametrize("shape", [(3, 8, 4), (3, 4, 8), (1, 5, 5)])
def test_orthogonalising_keeps_directions_and_flattens_singular_values(shape: tuple[int, int, int]) -> None:
    matrices = torch.randn(*shape, generator=torch.Generator().manual_seed(0))
    flat = orthogonalise(matrices)
    values = torch.linalg.svdvals(flat)
    assert values.min() > 0.5
    assert values.max() < 1.3
    u, _, vh = torch.linalg.svd(matrices, full_matrices=False)
    turned = u.mT @ flat @ vh.mT
    off = turned - torch.diag_embed(turned.diagonal(dim1=-2, dim2=-1))
    assert off.abs().max() < 1e-4
    assert torch.allclose(orthogonalise(1000 * matrices), flat, atol=1e-4)


def test_muon_is_the_published_rule() -> None:
    """Nesterov momentum, orthogonalised, scaled to AdamW's size: computed for one matrix."""
    generator = torch.Generator().manual_seed(1)
    weight = torch.randn(6, 4, generator=generator)
    gradients = [torch.randn(6, 4, generator=generator) for _ in range(3)]
    parameter = nn.Parameter(weight.clone())
    optimizer = Muon([parameter], lr=0.1, momentum=0.9)
    momentum = torch.zeros(6, 4)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
        momentum = 0.9 * momentum + 0.1 * gradient
        update = 0.1 * gradient + 0.9 * momentum
        weight = weight - 0.1 * 0.2 * 6**0.5 * orthogonalise(update[None])[0]
    assert torch.allclose(parameter, weight, atol=1e-5)


def test_matrices_of_one_shape_do_not_mix() -> None:
    generator = torch.Generator().manual_seed(2)
    start = [torch.randn(4, 4, generator=generator) for _ in range(2)]
    gradients = [torch.randn(4, 4, generator=generator) for _ in range(2)]
    together = [nn.Parameter(tensor.clone()) for tensor in start]
    optimizer = Muon(together, lr=0.1)
    alone = [nn.Parameter(tensor.clone()) for tensor in start]
    for one, other, gradient in zip(together, alone, gradients, strict=True):
        one.grad, other.grad = gradient.clone(), gradient.clone()
        Muon([other], lr=0.1).step()
    optimizer.step()
    for one, other in zip(together, alone, strict=True):
        assert torch.allclose(one, other, atol=1e-6)


def test_a_parameter_without_gradient_stays_as_it_is() -> None:
    still = nn.Parameter(torch.ones(2, 2))
    Muon([still], lr=0.1).step()
    assert torch.equal(still, torch.ones(2, 2))


def test_warm_up_is_linear_and_reaches_the_peak_at_its_last_update() -> None:
    factors = [lr_factor(update, 100, 4, "constant") for update in range(1, 8)]
    assert factors == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0]
    assert lr_factor(1, 100, 0, "constant") == 1.0


def test_cosine_ends_at_zero_and_the_trapezoid_at_two_percent() -> None:
    cosine = [lr_factor(update, 50, 2, "cosine") for update in range(2, 51)]
    assert cosine[0] == 1.0
    assert cosine[24] == pytest.approx(0.5)
    assert cosine[-1] == pytest.approx(0.0)
    assert cosine == sorted(cosine, reverse=True)
    trapezoid = [lr_factor(update, 50, 2, "trapezoid") for update in range(2, 51)]
    assert set(trapezoid[:28]) == {1.0}
    assert trapezoid[-1] == pytest.approx(0.02)
    assert trapezoid == sorted(trapezoid, reverse=True)
    assert all(
        0.02 <= lr_factor(update, total, 0, "trapezoid") <= 1
        for total in (1, 2, 3)
        for update in range(1, total + 1)
    )
