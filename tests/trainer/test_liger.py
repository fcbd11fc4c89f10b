"""Liger's kernel against the chunked path; runs only where there are a GPU and the package."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from config.resolve import resolve
from records.errors import ConfigError
from tests.trainer.tiny_models import tiny_model
from trainer.update.grpo import GrpoTrainer
from trainer.update.liger import liger_scores
from trainer.update.logprobs import token_scores


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_the_fused_kernel_gives_the_log_probs_and_gradients_of_the_chunked_path(temperature: float) -> None:
    if not (torch.cuda.is_available() and find_spec("liger_kernel")):
        pytest.skip("needs a GPU and liger-kernel; never run by the authors")
    torch.manual_seed(0)
    found = []
    for scores_of in (token_scores, liger_scores):
        torch.manual_seed(0)
        hidden = torch.randn(300, 64, device="cuda", requires_grad=True)
        head = torch.randn(70_000, 64, device="cuda", requires_grad=True)
        target = torch.randint(70_000, (300,), device="cuda")
        scores = scores_of(hidden, head, target, temperature)
        (scores.logprob_S * torch.linspace(-1, 1, 300, device="cuda")).sum().backward()
        found.append((scores.logprob_S, scores.entropy_S, hidden.grad, head.grad))
    for ours, theirs in zip(*found, strict=True):
        assert ours is not None
        assert theirs is not None
        assert torch.allclose(ours, theirs, rtol=1e-3, atol=1e-4)


def test_the_kernel_is_refused_where_it_cannot_run(tmp_path: Path) -> None:
    tiny_model().save_pretrained(tmp_path)
    objective = resolve([], ["objective.head_kernel=liger", "runtime.device=cuda"]).objective
    with pytest.raises(ConfigError, match=r"objective\.head_kernel = liger needs runtime\.device = cuda"):
        GrpoTrainer(tmp_path, objective, torch.device("cpu"))
