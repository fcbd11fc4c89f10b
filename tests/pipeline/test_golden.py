"""The numbers of short runs are those that were recorded; `python -m tests.golden` records them anew."""

from __future__ import annotations

from pathlib import Path

from tests.golden.recording import GOLDEN, Recording, moved, processor_kind
from tests.golden.runs import record
from tests.pipeline.conftest import MicroRun


def check(new: Recording) -> None:
    kind = processor_kind()
    old = Recording.load(new.preset, kind)
    kinds = [kind] if old is not None else sorted(p.stem for p in (GOLDEN / new.preset).glob("*.json"))
    assert kinds, f"no golden of {new.preset}"
    for other in kinds:
        golden = Recording.load(new.preset, other)
        assert golden is not None
        assert moved(golden, new, exact=other == kind) == []


def test_every_number_of_micro_equals_the_recorded_one(micro_run: MicroRun) -> None:
    check(Recording.of(micro_run.folder, "micro"))


def test_every_number_of_a_step_of_tiny_equals_the_recorded_one(tmp_path: Path) -> None:
    check(record("tiny_step", tmp_path))


def test_a_number_that_moves_is_named(micro_run: MicroRun) -> None:
    new = Recording.of(micro_run.folder, "micro")
    weights = {**new.weights, "rl2": "0" * 64}
    metrics = {**new.metrics, "rl1": [{**new.metrics["rl1"][0], "loss": 9.0}, *new.metrics["rl1"][1:]]}
    old = Recording(
        preset="micro", data=new.data, corpus="", weights=weights, metrics=metrics, trajectory=new.trajectory
    )
    lines = moved(old, new, exact=True)
    assert [line.split(":")[0] for line in lines] == ["corpus", "weights of rl2", "rl1 step 1"]
    assert [line.split(":")[0] for line in moved(old, new, exact=False)] == ["corpus"]
