"""`check_run` and `require_lineage`: check that the files of a run folder belong together.

A file that names no run (a bench, an arm, a journal of seconds) is checked by the digests that the commands write into
run.json next to their outputs: the report refuses outputs of other inputs.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from analysis.inputs.evaluation import CheckedEvaluation, check_published, read_evaluation
from analysis.inputs.runs import Run
from records.errors import ConfigError
from records.files import read_json, require_digest, sha256_of, write_json
from records.manifest import MANIFEST, RUN, Manifest
from records.run_folder import SAMPLES, SUMMARY


def check_run(run: Run) -> None:
    """Check every evaluation, and its relation to the run's name, checkpoint and data.

    Raises:
        ConfigError: A file is damaged, or belongs to another run.
    """
    for folder in run.evaluations():
        found = read_evaluation(folder)
        check_published(found)
        require_own(run, found)
    _check_data(run)


def require_own(run: Run, found: CheckedEvaluation) -> None:
    """Check that an evaluation is of this run and of its current checkpoint.

    Raises:
        ConfigError: It is of another run or checkpoint.
    """
    path = found.folder / SUMMARY
    checkpoint, name = (str(found.samples[column].iloc[0]) for column in ("checkpoint", "run"))
    if run.facts.get("run", name) != name:
        raise ConfigError(
            f"{found.folder / SAMPLES}: samples of run {name}, but {run.folder.facts} is of run "
            f"{run.facts['run']}; put the right file back"
        )
    manifest = run.manifest(checkpoint)
    if manifest is not None and found.summary.checkpoint_digest != manifest.digest:
        raise ConfigError(
            f"{path}: evaluated another checkpoint than {run.folder.checkpoint(checkpoint)}; evaluate {checkpoint} "
            "again"
        )


def _check_data(run: Run) -> None:
    """Check the problem files against their manifest; an absent file was not read."""
    folder = run.folder.data
    if not (folder / MANIFEST).exists():
        return
    for name, expected in Manifest.load(folder).files.items():
        if (folder / name).exists():
            require_digest(folder / name, expected, folder / MANIFEST, "prepare the data again")


def inputs_of(run: Run, command: str) -> dict[str, str]:
    """Return the digest of every stored result that a command of the analysis reads, and so waits for.

    Later results of other jobs do not change its output.
    """
    folder = run.folder
    paths = folder.found(folder.score("*") / MANIFEST)
    if command != "entropy":
        others = (
            folder.summary("*"),
            folder.metrics("*"),
            folder.bench("*") / MANIFEST,
            folder.data / MANIFEST,
        )
        paths += [path for pattern in others for path in folder.found(pattern)] + run.arm_files()
    return {str(path.relative_to(run.root)): sha256_of(path) for path in sorted(paths)}


def write_lineage(run: Run, out: Path, command: str, outputs: list[str]) -> None:
    """Write the inputs of a command's outputs, and the digests of the outputs, to out/run.json."""
    record = {
        "run": run.name,
        "inputs": inputs_of(run, command),
        "outputs": {name: sha256_of(out / name) for name in outputs},
    }
    write_json(out / RUN, record)


def require_lineage(run: Run, output: Path, command: str) -> None:
    """Check that `output` is unchanged, and made from the current files of the run folder.

    Raises:
        ConfigError: It is not, or its run.json is missing.
    """
    path = output.with_name(RUN)
    remedy = f"run python -m analysis {command} again"
    if not output.exists():
        raise ConfigError(f"{output}: missing; {remedy}")
    if not path.exists():
        raise ConfigError(f"{path}: missing, so the inputs of {output.name} are unknown; {remedy}")
    record = read_json(path)
    outputs, held = record.get("outputs"), record.get("inputs")
    if not isinstance(outputs, dict) or not isinstance(held, dict):
        raise ConfigError(f"{path}: names no inputs and outputs; {remedy}")
    require_digest(output, outputs.get(output.name), path, remedy)
    now: dict[str, Any] = inputs_of(run, command)
    other = sorted(name for name in {*held, *now} if held.get(name) != now.get(name))
    if other:
        raise ConfigError(f"{output}: was made from another {other[0]} than {run.root / other[0]}; {remedy}")
