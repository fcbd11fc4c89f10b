"""`record`: the short runs whose numbers the goldens keep."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import yaml

from tests.golden.recording import Recording
from tests.pipeline.checkout import Checkout

ROOT = Path(__file__).parents[2]
EVEN_IDS = yaml.safe_load((ROOT / "config" / "micro.yaml").read_text(encoding="utf-8"))["objective"]["reward"]
"""A reward that needs no skill: after so little SFT no answer is correct, and without a reward nothing is updated."""
TINY_STEP: Mapping[str, object] = {
    "data__num_sft": 3200,
    "sft__epochs": 1.0,
    "objective__reward": EVEN_IDS,
    "rl__rl1__steps": 1,
    "objective__optimizer__warmup_steps": 1,
}
"""Tiny's model, rollouts and objective after fifty updates of SFT."""
RUNS: Mapping[str, tuple[str, Mapping[str, object], str]] = {
    "micro": ("micro", {}, "checkpoints/rl3/manifest.json"),
    "tiny_step": ("tiny", TINY_STEP, "checkpoints/rl1/manifest.json"),
}
"""Name -> preset, changes, and the file whose making ends the run."""


def record(name: str, folder: Path) -> Recording:
    """Run a golden's preset in a copy of the checkout. Raises RuntimeError with the end of the output if it fails."""
    preset, changes, target = RUNS[name]
    checkout = Checkout.copy(ROOT, folder)
    config = checkout.configure(name, **changes)
    done = checkout.snakemake(config, f"results/{name}/{target}", cores=2, preset=preset)
    if done.returncode:
        raise RuntimeError(done.stdout[-4000:])
    return Recording.of(checkout.results(name), name)
