"""`bench`: speed of the training pass relative to the best matrix product of this machine, in equal shapes and types.

FLOPs of one forward and backward pass, without recomputation: 6 per weight of the layers' matrices and cell, 6 per
weight of the head and sampled token, and 12 * heads * head dimension per pair of tokens that attend (4 forward, 8
backward). The peak is the best of the model's products (each layer shape over the cells, the head over the sampled
tokens) in the same type. Rounds are interleaved; times are CPU seconds of this process with the same threads.

`python -m bench.training_pass --json`
"""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Annotated, Any

import torch
import typer
from torch import nn

from bench.trl_race import Suite, a_checkpoint, recorded, rows_of
from trainer.model import head_weight
from trainer.update.grpo import GrpoTrainer, UpdateBatch
from trainer.update.micro_batches import MicroBatch
from trainer.update.training_rows import Row


def pass_flops(trainer: GrpoTrainer, rows: list[Row]) -> float:
    """FLOPs of forward and backward for a batch, as defined in the module docstring."""
    config = trainer.model.config
    head_dim = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    per_pair = 12 * config.num_attention_heads * head_dim * config.num_hidden_layers
    matrices = sum(m.weight.numel() for m in trainer.model.base_model.modules() if isinstance(m, nn.Linear))
    layouts = [trainer._lay_out(rows, part) for part in trainer._schedule(rows).micro_batches]
    cells = sum(layout.num_used for layout in layouts)
    sampled = sum(len(layout.target_S) for layout in layouts)
    pairs = sum(num_pairs(layout) for layout in layouts)
    return 6 * matrices * cells + 6 * head_weight(trainer.model).numel() * sampled + per_pair * pairs


def num_pairs(layout: MicroBatch) -> int:
    """Pairs of tokens that attend to each other in a packed micro-batch.

    >>> from trainer.update.micro_batches import pack
    >>> row = Row(ids=[1, 2, 3], mask=[False, True, True], logprob=[0, -1, -1], advantage=1.0, group="a")
    >>> num_pairs(pack([row], [0])), num_pairs(pack([row, row], [0, 1], share=True))
    (6, 11)
    """
    total = 0
    for span in layout.spans:
        own = span.end - span.start
        total += own * (own + 1) // 2 + own * (span.before_end - span.before_start)
    return total


def product_rates(trainer: GrpoTrainer, cells: int, sampled: int, dtype: torch.dtype) -> dict[str, float]:
    """GFLOP/s of each distinct product of the model, measured once."""
    shapes = {
        tuple(m.weight.shape): cells for m in trainer.model.base_model.modules() if isinstance(m, nn.Linear)
    }
    shapes[tuple(head_weight(trainer.model).shape)] = sampled
    rates = {}
    for (out, inner), num in shapes.items():
        left, right = torch.randn(num, inner, dtype=dtype), torch.randn(out, inner, dtype=dtype)
        seconds = min(timed(lambda a=left, b=right: nn.functional.linear(a, b)) for _ in range(3))
        rates[f"{num}x{inner}x{out}"] = 2 * num * inner * out / seconds / 1e9
    return rates


def timed(run: Callable[[], Any]) -> float:
    """CPU seconds of one call."""
    began = time.process_time()
    run()
    return time.process_time() - began


def bench(checkpoint: Path, compute: str, num_rows: int, rounds: int) -> dict[str, Any]:
    """Rate of the pass and of the products, interleaved."""
    vocab = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))["vocab_size"]
    rows = rows_of(recorded(num_rows), vocab)
    trainer = Suite(checkpoint, rows, compute, micro_batch_tokens=1 << 20).trainer
    flops = pass_flops(trainer, rows)
    layout = trainer._lay_out(rows, range(len(rows)))
    dtype = torch.bfloat16 if compute == "bfloat16" else torch.float32
    passes, peaks = [], []
    trainer.backward(UpdateBatch(rows=rows, lr=0.0))
    for _ in range(rounds):
        peaks.append(product_rates(trainer, layout.num_used, len(layout.target_S), dtype))
        passes.append(flops / timed(lambda: trainer.backward(UpdateBatch(rows=rows, lr=0.0))) / 1e9)
    best = [max(peak.values()) for peak in peaks]
    # Other processes can only lower a rate.
    share_of_bests = max(passes) / max(best)
    return {
        "compute": compute,
        "cells": layout.num_used,
        "sampled_tokens": len(layout.target_S),
        "gflop": flops / 1e9,
        "pass_gflop_per_s": passes,
        "products_gflop_per_s": peaks,
        "best_share": share_of_bests,
        "median_share": median(rate / peak for rate, peak in zip(passes, best, strict=True)),
    }


def main(
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object.")] = False,
    checkpoint: Annotated[
        Path | None, typer.Option(help="Checkpoint folder; default: a random model of SmolLM2-135M's shape.")
    ] = None,
    num_rows: Annotated[int, typer.Option(help="Rows of the batch, from the recorded lengths.")] = 4,
    rounds: Annotated[int, typer.Option(help="Interleaved rounds.")] = 3,
    threads: Annotated[int, typer.Option(help="torch threads.")] = 1,
) -> None:
    """Measure the share of the best product that the training pass reaches, in float32 and bfloat16."""
    torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        model = checkpoint or a_checkpoint(Path(folder))
        found = [bench(model, compute, num_rows, rounds) for compute in ("float32", "bfloat16")]
    record = {"threads": threads, "load": os.getloadavg()[0], "torch": torch.__version__, "passes": found}
    typer.echo(json.dumps(record, indent=None if as_json else 1))


if __name__ == "__main__":
    typer.run(main)
