"""Does a run folder belong together, and were figures, claims and entropy made from what lies there now?

A file that names no run of its own (a bench, an arm, a journal of seconds) is held by the digests that the commands
leave in run.json beside their outputs: the report refuses outputs of other inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.inputs.evaluation import Evaluation, check_published, read_evaluation
from analysis.inputs.files import BadRun, object_of, require_digest, sha256_of, write_json
from analysis.inputs.runs import Run
from records.digest import digest

LINEAGE = "run.json"
"""Beside the outputs; it holds what depends on the clock, such as digests of measured seconds."""


def check_run(run: Run) -> None:
    """Every evaluation, and what ties it to the run's name, checkpoint and data.

    Raises:
        BadRun: A file is damaged, or belongs to another run.
    """
    for path in run.summaries():
        found = read_evaluation(path.parent)
        check_published(found)
        require_own(run, found)
    _check_data(run)
    run.unavailable()


def require_own(run: Run, found: Evaluation) -> None:
    """Is an evaluation of this run, and of its checkpoint as it lies there?

    Raises:
        BadRun: It is of another one.
    """
    path = found.folder / "summary.json"
    checkpoint, name = (str(found.samples[column].iloc[0]) for column in ("checkpoint", "run"))
    if run.facts.get("run", name) != name:
        raise BadRun(
            f"{found.folder / 'samples.parquet'}: samples of run {name}, but {run.root / 'run.json'} is of run "
            f"{run.facts['run']}; put the right file back"
        )
    manifest = run.root / "checkpoints" / checkpoint / "manifest.json"
    if manifest.exists() and found.summary.get("checkpoint_digest") != _identity(manifest):
        raise BadRun(
            f"{path}: evaluated another checkpoint than that of {manifest}; evaluate {checkpoint} again"
        )


def _identity(manifest: Path) -> str:
    """A checkpoint's digest, as the trainer takes it: of the table of its files."""
    files = object_of(manifest).get("files")
    if not isinstance(files, dict):
        raise BadRun(f"{manifest}: has no table of files; train the stage again")
    return digest(files)


def _check_data(run: Run) -> None:
    """The problems that lie there are those of their manifest; absent ones were not read."""
    manifest = run.root / "data" / "manifest.json"
    if not manifest.exists():
        return
    files = object_of(manifest).get("files")
    if not isinstance(files, dict):
        raise BadRun(f"{manifest}: has no table of files; prepare the data again")
    for name, wanted in files.items():
        if (manifest.parent / name).exists():
            require_digest(manifest.parent / name, wanted, manifest, "prepare the data again")


STORED = (
    "eval/*/summary.json",
    "metrics/*.jsonl",
    "score/*/manifest.json",
    "bench/*.json",
    "data/manifest.json",
)
READ_BY = {"entropy": ("score/*/manifest.json",), "claims": STORED, "figures": STORED}
"""What each command reads, and so waits for; later results of other jobs change nothing of its output."""


def inputs_of(run: Run, command: str) -> dict[str, str]:
    """Digest of every stored result that a command of the analysis reads."""
    paths = [path for pattern in READ_BY[command] for path in run.root.glob(pattern)]
    if READ_BY[command] is STORED:
        paths += run.arm_files()
    return {str(path.relative_to(run.root)): sha256_of(path) for path in sorted(paths)}


def write_lineage(run: Run, out: Path, command: str, outputs: list[str]) -> None:
    """Leave in out/run.json what the outputs of a command were made from, and their digests."""
    record = {
        "run": run.name,
        "inputs": inputs_of(run, command),
        "outputs": {name: sha256_of(out / name) for name in outputs},
    }
    write_json(out / LINEAGE, record)


def require_lineage(run: Run, output: Path, command: str) -> None:
    """Is `output` unchanged, and made from what the run folder holds now?

    Raises:
        BadRun: It is not, or its run.json is missing.
    """
    path = output.with_name(LINEAGE)
    remedy = f"run python -m analysis {command} again"
    if not output.exists():
        raise BadRun(f"{output}: missing; {remedy}")
    if not path.exists():
        raise BadRun(f"{path}: missing, so the inputs of {output.name} are unknown; {remedy}")
    record = object_of(path)
    outputs, held = record.get("outputs"), record.get("inputs")
    if not isinstance(outputs, dict) or not isinstance(held, dict):
        raise BadRun(f"{path}: names no inputs and outputs; {remedy}")
    require_digest(output, outputs.get(output.name), path, remedy)
    now: dict[str, Any] = inputs_of(run, command)
    other = sorted(name for name in {*held, *now} if held.get(name) != now.get(name))
    if other:
        raise BadRun(f"{output}: was made from another {other[0]} than {run.root / other[0]}; {remedy}")
