"""A copy of the working tree, in which Snakemake runs without touching the real one."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import yaml

TIMEOUT_S = 1800


@dataclass(frozen=True, slots=True)
class Checkout:
    """Tracked and new files of the project, copied; runs go to `runs/` inside it."""

    root: Path

    @classmethod
    def copy(cls, project: Path, to: Path) -> Checkout:
        listed = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard", "-z"],
            cwd=project,
            check=True,
            capture_output=True,
        )
        for name in filter(None, listed.stdout.decode().split("\0")):
            source = project / name
            if source.is_file():
                target = to / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, target)
        return cls(to)

    def configure(self, run: str, **changes: object) -> Path:
        """A config file over micro.yaml that names the run; `changes` are dotted keys with __ for the dot."""
        nested: dict = {"runtime": {"run": run}}
        for key, value in changes.items():
            *parents, last = key.split("__")
            place = nested
            for parent in parents:
                place = place.setdefault(parent, {})
            place[last] = value
        path = self.root / f"{run}.yaml"
        path.write_text(yaml.safe_dump(nested), encoding="utf-8")
        return path

    def results(self, run: str) -> Path:
        return self.root / "results" / run

    def snakemake(
        self,
        config: Path,
        *arguments: str,
        cores: int = 2,
        moment: str | None = None,
        preset: str = "micro",
    ) -> subprocess.CompletedProcess[str]:
        """Run Snakemake with a preset and `config`; `moment` names where a job kills the whole call."""
        command = [sys.executable, "-m", "snakemake", *arguments, "--cores", str(cores)]
        command += ["--configfile", f"config/{preset}.yaml", str(config)]
        environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
        environment["PYTHONPATH"] = str(self.root)
        if moment is not None:
            environment["PYTHONPATH"] = f"{self.root / 'tests' / 'pipeline' / 'moments'}:{self.root}"
            environment["KILL_MOMENT"] = moment
        process = subprocess.Popen(
            command,
            cwd=self.root,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        return subprocess.CompletedProcess(command, process.returncode, output, "")


def scheduled(dry_run: str) -> dict[str, int]:
    """Rule -> number of jobs of a dry run; empty when there is nothing to do."""
    match = re.search(r"Job stats:\njob +count\n[- ]+\n(.*?)\ntotal", dry_run, re.DOTALL)
    if match is None:
        return {}
    return {name: int(count) for name, count in re.findall(r"^(\w+) +(\d+)$", match.group(1), re.MULTILINE)}
