"""Log-probs by Liger's fused cross-entropy kernel: the GPU twin of `trainer.update.logprobs.token_scores`.

Never run by the authors: it needs a GPU and the package liger-kernel. `tests/trainer/test_liger.py` compares it with
the chunked path, values and gradients, where both are at hand; until it has run somewhere, take the chunked path.

The kernel turns a chunk's logits into its gradient in place, in one launch. Chunks are computed again in the backward
pass, so no [S, V] tensor is kept. Entropy needs a second pass without gradient.

Suffixes: S target tokens, H hidden size, V vocabulary.
"""

from __future__ import annotations

from importlib.util import find_spec

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from records.errors import ConfigError
from trainer.update.logprobs import CHUNK_LOGITS, TokenScores, token_table

NO_TARGET = -100
"""Target that the kernel skips; none of ours has it."""


def check_liger(device: torch.device) -> None:
    """Raise ConfigError where the kernel cannot run."""
    if device.type != "cuda" or find_spec("liger_kernel") is None:
        raise ConfigError(
            "objective.head_kernel = liger needs runtime.device = cuda and the package liger-kernel; "
            "take objective.head_kernel = chunked"
        )


def liger_scores(
    hidden_SH: Tensor, head_VH: Tensor, target_S: Tensor, temperature: float = 1.0
) -> TokenScores:
    """Log-prob, with gradient, and entropy, without; arguments as `token_scores`."""
    chunk = max(CHUNK_LOGITS // head_VH.shape[0], 1)
    logprobs = [
        checkpoint(
            _chunk, hidden_SH[start : start + chunk], head_VH, target_S[start : start + chunk], temperature,
            use_reentrant=False,
        )
        for start in range(0, max(hidden_SH.shape[0], 1), chunk)
    ]  # fmt: skip
    table = token_table(hidden_SH.detach(), head_VH.detach(), target_S, temperature)
    return TokenScores(logprob_S=torch.cat(logprobs), entropy_S=table.entropy_S)


def _chunk(hidden_SH: Tensor, head_VH: Tensor, target_S: Tensor, temperature: float) -> Tensor:
    from liger_kernel.ops.cross_entropy import (  # pyright: ignore[reportMissingImports]  # optional
        LigerCrossEntropyFunction,
    )

    logits_SV = (hidden_SH @ head_VH.to(hidden_SH.dtype).T).float() / temperature
    loss_S = LigerCrossEntropyFunction.apply(logits_SV, target_S, None, NO_TARGET, 0.0, 0.0, "none")[0]
    return -loss_S
