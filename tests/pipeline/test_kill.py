"""kill -9 anywhere, --unlock, run again: the same weights, metrics and trajectories, bit for bit.

Moments are spread by seed over stages and over rollout, update, save, rename and publication. Every killed run
starts from the same data, corpus and base checkpoint, and every other one is finished with another --cores.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest

from records.stages import RL_STAGES
from tests.pipeline.conftest import MicroRun

pytestmark = pytest.mark.kill

SEED = 20
STAGES = {"sft": " sft ", **{stage: f"--stage {stage}" for stage in RL_STAGES}}
"""Stage -> words of its command line."""
RL_CALLS = (
    ("rollout", "trainer.rollout.loop", "RolloutLoop._end_turn", 40),
    ("grade", "trainer.selection.grading", "Grading.grade", 2),
    ("update", "trainer.update.grpo", "GrpoTrainer._micro_batch", 3),
    ("optimizer step", "trainer.update.grpo", "GrpoTrainer._step", 2),
    ("journal", "trainer.jobs.work_folder", "WorkDir.append", 4),
    ("save", "trainer.update.grpo", "save_optimizers", 2),
    ("rename", "trainer.jobs.work_folder", "sync_folder", 2),
    ("publish", "records.manifest", "sync_folder", 1),
)
SFT_CALLS = (
    ("update", "trainer.sft.sft", "Sft.update", 6),
    ("save", "trainer.sft.sft", "save_optimizers", 3),
    ("rename", "trainer.jobs.work_folder", "sync_folder", 3),
    ("publish", "records.manifest", "sync_folder", 1),
)
"""What is happening, module, function, how often a micro stage calls it at least."""


def moments(count: int) -> list[tuple[str, str]]:
    """(name, KILL_MOMENT) of the first `count` of a seeded order in which kinds of moment alternate."""
    grid = [(stage, *call) for stage in STAGES for call in (SFT_CALLS if stage == "sft" else RL_CALLS)]
    rng = random.Random(SEED)
    rng.shuffle(grid)
    chosen = []
    for stage, what, module, function, calls in grid[:count]:
        number, when = rng.randint(1, calls), rng.choice(("before", "after"))
        chosen.append(
            (f"{stage} {what} {number} {when}", f"{STAGES[stage]}|{module}|{function}|{number}|{when}")
        )
    return chosen


def test_killed_runs_end_bit_equal(micro_run: MicroRun, num_kills: int) -> None:
    """Rewards of micro come from a rule that gives both values, so the weights really change."""
    differing = []
    for number, (name, moment) in enumerate(moments(num_kills)):
        killed = _start_from_base(micro_run, f"killed{number}")
        config = micro_run.checkout.configure(killed.name)
        target = f"results/{killed.name}/checkpoints/rl3/manifest.json"
        first = micro_run.checkout.snakemake(config, target, cores=1 + number % 2, moment=moment)
        assert first.returncode == -9, f"{name}: the kill never came: {first.stdout[-2000:]}"
        assert micro_run.checkout.snakemake(config, target, "--unlock").returncode == 0
        second = micro_run.checkout.snakemake(config, target, cores=2 - number % 2)
        assert second.returncode == 0, f"{name}: {second.stdout[-4000:]}"
        differing += [f"{name}: {what}" for what in _differences(micro_run.folder, killed)]
        shutil.rmtree(killed)
    assert not differing
    print(f"{num_kills} of {num_kills} killed runs ended bit-equal")


def _start_from_base(run: MicroRun, name: str) -> Path:
    """A run folder that holds what lies before SFT."""
    folder = run.checkout.results(name)
    for part in ("data", "corpus", "build", "checkpoints/base"):
        shutil.copytree(run.folder / part, folder / part)
    return folder


def _differences(straight: Path, killed: Path) -> list[str]:
    """Files that decide a run and are not equal."""
    names = [f"checkpoints/{stage}/manifest.json" for stage in STAGES]
    names += [f"metrics/{stage}.jsonl" for stage in STAGES]
    names += ["hard/manifest.json"]
    different = [name for name in names if (straight / name).read_bytes() != (killed / name).read_bytes()]
    return different + [
        f"trajectories/{stage}.parquet"
        for stage in RL_STAGES
        if _without_run(straight, stage) != _without_run(killed, stage)
    ]


def _without_run(folder: Path, stage: str) -> list[dict]:
    """Trajectories without the name of the run."""
    import pyarrow.parquet as pq

    return pq.read_table(folder / "trajectories" / f"{stage}.parquet").drop(["run"]).to_pylist()
