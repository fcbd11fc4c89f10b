"""A job that the server forks does what the job would do by itself; it lives as long as its client and the server."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from records.job_client import VARIABLE

PACKAGE = {
    "__init__.py": "",
    "warm.py": "",
    "__main__.py": """
import os, signal, sys, time
from records.job_client import hand_over

def main():
    hand_over("job", commands=("show", "exit", "die", "wait"))
    print("forked" if "job.warm" in sys.modules else "alone", flush=True)
    command, *rest = sys.argv[1:]
    if command in ("show", "light"):
        print(rest, os.getcwd(), os.environ["NAME"], sys.stdin.read(), flush=True)
        print("noise", file=sys.stderr)
    if command == "exit":
        sys.exit(int(rest[0]))
    if command == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if command == "wait":
        received = []
        signal.signal(signal.SIGTERM, lambda number, frame: received.append(number))
        print(os.getpid(), os.getppid(), flush=True)
        while not received:
            time.sleep(0.01)
        time.sleep(0.2)
        print(received, flush=True)
        sys.exit(5)

main()
""",
}
PARENT = """
import sys, time
from records import job_server
job_server.start("job")
import os; print(os.environ["RSTAR2_JOB_SERVERS"], flush=True)
sys.stdin.read()
"""


class Jobs:
    """Starts jobs beside a server."""

    def __init__(self, folder: Path, root: Path) -> None:
        (folder / "job").mkdir()
        for name, text in PACKAGE.items():
            (folder / "job" / name).write_text(text, encoding="utf-8")
        self.folder = folder
        self.environment = {**os.environ, "PYTHONPATH": f"{folder}:{root}", "NAME": "a name"}
        self.parent = subprocess.Popen(
            [sys.executable, "-c", PARENT],
            env=self.environment,
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.parent.stdout is not None
        self.sockets = self.parent.stdout.readline().strip()

    def start(self, *arguments: str, alone: bool = False) -> subprocess.Popen[str]:
        environment = self.environment if alone else {**self.environment, VARIABLE: self.sockets}
        return subprocess.Popen(
            [sys.executable, "-m", "job", *arguments],
            env=environment,
            cwd=self.folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *arguments: str, alone: bool = False) -> tuple[int, str, str]:
        job = self.start(*arguments, alone=alone)
        out, err = job.communicate("given")
        return job.returncode, out, err

    def waiting(self) -> tuple[subprocess.Popen[str], int, int]:
        """A job that waits, its process and that of the server."""
        job = self.start("wait")
        assert job.stdout is not None
        assert job.stdout.readline() == "forked\n"
        process, server = map(int, job.stdout.readline().split())
        return job, process, server


@pytest.fixture
def jobs(tmp_path: Path, project_root: Path) -> Iterator[Jobs]:
    made = Jobs(tmp_path, project_root)
    yield made
    made.parent.kill()
    made.parent.communicate()


def gone(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def soon(holds: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 60
    while not holds() and time.monotonic() < deadline:
        time.sleep(0.02)
    return holds()


@pytest.mark.parametrize("arguments", [("show", "a", "b c"), ("exit", "0"), ("exit", "3"), ("die",)])
def test_a_forked_job_ends_like_one_that_imports_by_itself(jobs: Jobs, arguments: tuple[str, ...]) -> None:
    status, out, err = jobs.run(*arguments)
    assert out.startswith("forked\n")
    assert (status, out.replace("forked", "alone", 1), err) == jobs.run(*arguments, alone=True)


def test_a_command_with_other_imports_or_without_its_server_runs_alone(jobs: Jobs) -> None:
    assert jobs.run("light")[1].startswith("alone\n")
    jobs.parent.communicate()
    assert jobs.run("exit", "3")[:2] == (3, "alone\n")


def test_a_signal_reaches_the_job_once_and_its_status_the_client(jobs: Jobs) -> None:
    job, _, _ = jobs.waiting()
    job.terminate()
    out, _ = job.communicate()
    assert (job.returncode, out) == (5, f"[{int(signal.SIGTERM)}]\n")


def test_a_job_dies_with_its_client(jobs: Jobs) -> None:
    job, process, _ = jobs.waiting()
    job.kill()
    assert soon(lambda: gone(process))
    assert jobs.run("exit", "3")[0] == 3


def test_a_job_dies_with_the_server_and_the_client_reports_it(jobs: Jobs) -> None:
    job, process, server = jobs.waiting()
    os.kill(server, signal.SIGKILL)
    _, err = job.communicate()
    assert job.returncode == 2
    assert "job server" in err
    assert soon(lambda: gone(process))


def test_the_server_finishes_its_jobs_when_its_starter_is_killed_and_ends(jobs: Jobs) -> None:
    job, _, server = jobs.waiting()
    jobs.parent.kill()
    assert soon(lambda: jobs.run("exit", "0")[1] == "alone\n")
    job.terminate()
    job.communicate()
    assert job.returncode == 5
    assert soon(lambda: gone(server))
