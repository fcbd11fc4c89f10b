"""A run folder with one damaged file: every command reports it in one line, or gives the right result.

Each file of the folder is cut, emptied, doubled, filled with bytes, or exchanged with that of another run. A command
may then end with status 2 and one line; or with status 0 and the output of the undamaged folder, because it does not
read the file; or with the content of the file, if nothing ties it to a run (UNTIED) and it is valid by itself.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from analysis.cli import app
from analysis.drawing.plot import write
from analysis.figures import PLOTS
from analysis.inputs.lineage import write_lineage
from analysis.inputs.runs import Run
from records.manifest import list_folder
from tests.analysis.conftest import REFERENCE
from tests.analysis.fake_run import FakeRun
from tests.analysis.settings import SETTINGS

pytestmark = pytest.mark.slow
SCALE = int(os.environ.get("RSTAR2_FUZZ", "1"))

DRAWS = ["--set", "analysis.bootstrap_draws=100", "--set", "analysis.num_trajectories=12"]
FIGURES = [arg for name in ("differences", "cost_axes", "scheduler") for arg in ("--only", name)]
COMMANDS: dict[str, list[str]] = {
    "compare": ["compare", "RUN", "CLEAN", "--out", "OUT"],
    "entropy": ["entropy", "--run", "RUN", "--out", "OUT"],
    "figures": ["figures", "--run", "RUN", "--out", "OUT", *FIGURES],
    "tables": ["tables", "--run", "RUN", "--out", "OUT"],
    "claims": ["claims", "--run", "RUN", "--out", "OUT"],
    "report": ["report", "--run", "RUN", "--out", "OUT"],
}
VOLATILE = ("run.json",)
CLOCK = re.compile(r'"wall_s": [0-9.]+|[0-9.,]+ s from the start')
UNTIED = ("/run.json",)
"""Files that name no run. Only the report refuses them, by the digests beside its content."""
ALIKE = ("/base/", "/rl1/", "/rl2/", "metrics/rl2", "metrics/rl3", "grpo_g-main-1", "roc_paper-main")
"""Files of which another of the same kind is damaged."""


@dataclass(frozen=True)
class Folders:
    """A finished run, another one, and what each command makes of the first."""

    clean: Path
    other: Path
    outputs: dict[str, str]


def run_command(name: str, run: Path, clean: Path, out: Path) -> tuple[int, str, str, BaseException | None]:
    places = {"RUN": str(run), "CLEAN": str(clean), "OUT": str(out)}
    result = CliRunner().invoke(app, [places.get(arg, arg) for arg in COMMANDS[name]] + DRAWS)
    failure = None if isinstance(result.exception, SystemExit) else result.exception
    return result.exit_code, result.stderr, digest_of(out, run, clean), failure


def digest_of(out: Path, *runs: Path) -> str:
    """Digest of what was written, save what depends on the clock and on where the run lies."""
    found = hashlib.sha256()
    for path in sorted(out.rglob("*.*")):
        if path.is_file() and path.name not in VOLATILE and path.suffix not in (".pdf", ".png"):
            text = path.read_text(encoding="utf-8")
            for run in runs:
                text = text.replace(str(run), "RUN")
            found.update(CLOCK.sub("", f"{path.name}\n{text}").encode())
    return found.hexdigest()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Folders:
    root = tmp_path_factory.mktemp("damage")
    made = [
        FakeRun(questions=4, k=2, seed=seed).write(root / name) for name, seed in (("one", 1), ("two", 2))
    ]
    reference = yaml.safe_load((REFERENCE / "paper.yaml").read_text(encoding="utf-8"))
    for folder in made:
        for name in ("claims", "entropy"):
            places = ["--run", str(folder), "--out", str(folder / name)]
            assert CliRunner().invoke(app, [name, *places, *DRAWS]).exit_code == 0
        run, out = Run.open(folder), folder / "figures"
        rows = [
            write(plot, run, SETTINGS, reference, out)
            if plot.name in ("differences", "scheduler")
            else {"name": plot.name, "drawn": False}
            for plot in PLOTS
        ]
        list_folder(out, {"stage": "figures", "parent": None, "data": None, "facts": {"plots": rows}})
        write_lineage(run, out, "figures", ["manifest.json"])
    outputs = {}
    for name in COMMANDS:
        code, stderr, outputs[name], failure = run_command(name, made[0], made[0], root / "out" / name)
        assert (code, failure) == (0, None), stderr
    return Folders(made[0], made[1], outputs)


def cut(data: bytes, draw: random.Random, other: bytes) -> bytes:
    return data[: draw.randrange(1, max(2, len(data) - 1))]


def emptied(data: bytes, draw: random.Random, other: bytes) -> bytes:
    return b""


def doubled(data: bytes, draw: random.Random, other: bytes) -> bytes:
    return data + data


def binary(data: bytes, draw: random.Random, other: bytes) -> bytes:
    return draw.randbytes(200)


def swapped(data: bytes, draw: random.Random, other: bytes) -> bytes:
    return other


DAMAGES: tuple[Callable[[bytes, random.Random, bytes], bytes], ...] = (cut, emptied, doubled, binary, swapped)


def files_of(run: Path) -> list[str]:
    """Every file of the run that a command reads, one of several alike."""
    names = [str(path.relative_to(run)) for path in sorted(run.rglob("*")) if path.is_file()]
    made = ("claims/claims.json", "entropy/entropy.json", "figures/manifest.json", "figures/scheduler.svg")
    outputs = ("claims/", "entropy/", "figures/")
    return [
        name
        for name in names
        if not any(part in f"/{name}" for part in ALIKE)
        and (not name.startswith(outputs) or name in made or name.endswith("/run.json"))
    ]


def damages(folders: Folders, seed: int) -> Iterator[tuple[str, str, bytes]]:
    for name in files_of(folders.clean):
        data, other = (folder / name for folder in (folders.clean, folders.other))
        for damage in DAMAGES:
            draw = random.Random(f"{seed}:{name}:{damage.__name__}")
            yield name, damage.__name__, damage(data.read_bytes(), draw, other.read_bytes())


def outcome(folders: Folders, name: str, damage: str, data: bytes, command: str, place: Path) -> str:
    """refused, right, or (for a whole file that nothing ties to a run) as given; anything else is a failed test."""
    path = place / "run" / name
    original = (folders.clean / name).read_bytes()
    path.write_bytes(data)
    out = place / "out"
    shutil.rmtree(out, ignore_errors=True)
    try:
        code, stderr, written, failure = run_command(command, place / "run", folders.clean, out)
    finally:
        path.write_bytes(original)
    about = f"{command} with {name} {damage}: "
    assert failure is None, about + repr(failure)
    if code == 2:
        assert len(stderr.strip().splitlines()) == 1, about + stderr
        assert stderr.startswith("error: "), about + stderr
        assert not any(out.rglob("*.part")), about + "left a part of a file"
        return "refused"
    assert code == 0, about + f"status {code}: {stderr}"
    if written == folders.outputs[command]:
        return "right"
    assert damage in ("swapped", "doubled"), about + "another result, and not a word"
    assert any(part in f"/{name}" for part in UNTIED), about + "a silent number"
    assert command != "report" or name.endswith("run.json"), about + "a page of two runs"
    return "as given"


def fuzzed(
    folders: Folders, cases: list[tuple[str, str, bytes]], commands: list[str], place: Path
) -> Counter[str]:
    shutil.copytree(folders.clean, place / "run")
    found: Counter[str] = Counter()
    for name, damage, data in cases:
        for command in commands:
            found[outcome(folders, name, damage, data, command, place)] += 1
    return found


@pytest.mark.parametrize("command", COMMANDS)
def test_a_damaged_file_is_refused_or_changes_nothing(folders: Folders, tmp_path: Path, command: str) -> None:
    """Three cases a command, drawn by seed; `RSTAR2_FUZZ=10` runs all of them below."""
    cases = random.Random(f"7:{command}").sample(list(damages(folders, 0)), 3)
    assert fuzzed(folders, cases, [command], tmp_path).total() == 3


@pytest.mark.timeout(3600)
@pytest.mark.skipif(SCALE < 10, reason="hundreds of cases take half an hour: set RSTAR2_FUZZ=10")
def test_every_file_damaged_in_every_way_under_every_command(folders: Folders, tmp_path: Path) -> None:
    found = fuzzed(folders, list(damages(folders, 0)), list(COMMANDS), tmp_path)
    print(json.dumps(found, sort_keys=True))
    assert min(found["refused"], found["right"]) > 0
