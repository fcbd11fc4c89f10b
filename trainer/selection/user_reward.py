"""`UserReward`: runs a user's reward function in a separate process that can be killed.

A function that raises, returns no Verdict or never returns gives no score (public faults B36, B38): the rollout leaves
baseline and loss and is counted. A thread cannot stop a busy loop, so at the limit the caller kills the process and its
children (B37, B39); the next rollout starts a new process. A function that hangs repeatedly ends the job with one line;
the job can resume.

`python -m trainer.selection.user_reward MODULE:FUNCTION` is that process: one JSON line in, one out.
"""

from __future__ import annotations

import atexit
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from records.errors import ConfigError
from records.problem import Problem
from records.trajectory import Rollout
from records.trajectory_row import from_row, to_row
from records.verdict import Verdict, VerdictKind
from verifier.graders.workers import read_line

START_LIMIT_S = 120.0
"""Limit for the imports of the user's module on a loaded machine; it is not charged to a rollout."""
MOST_HANGS_IN_A_ROW = 5
MAX_RULE = 200
"""Characters of an error message kept in a verdict."""


class UserReward:
    """Callable that runs `package.module:function` for one rollout at a time."""

    def __init__(self, name: str, limit_s: float) -> None:
        """Start the process. Raises ConfigError when the function is not found or its module does not load."""
        self._name, self._limit_s = name, limit_s
        self._process: subprocess.Popen[bytes] | None = None
        self._hangs = 0
        atexit.register(self.close)
        self._started()

    def __call__(self, problem: Problem, rollout: Rollout) -> Verdict:
        """Return the function's verdict, or `infra_failed` with the fault. Raises ConfigError on repeated hangs."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        asked = json.dumps({"problem": problem.to_json(), "rollout": to_row(rollout)})
        began = time.monotonic()
        try:
            process.stdin.write(asked.encode() + b"\n")
            line = read_line(process.stdout.fileno(), self._limit_s, process.pid)
        except OSError:
            line = b""
        if line is None:
            self.close()
            self._hangs += 1
            if self._hangs >= MOST_HANGS_IN_A_ROW:
                raise ConfigError(
                    f"objective.reward = {self._name!r}: gave no answer within {self._limit_s:g} s for {self._hangs} "
                    "rollouts in a row; fix it, or raise objective.reward_limit_s"
                )
            return self._failed(problem, f"gave no answer within {self._limit_s:g} s")
        self._hangs = 0
        if not line:
            self.close()
            return self._failed(problem, "ended the process")
        answer = json.loads(line)
        if "verdict" not in answer:
            return self._failed(problem, answer["error"])
        return Verdict.from_json({**answer["verdict"], "seconds": time.monotonic() - began})

    def close(self) -> None:
        """End the process and all its children."""
        process, self._process = self._process, None
        if process is None:
            return
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()

    def _failed(self, problem: Problem, what: str) -> Verdict:
        rule = f"{self._name} {what}"[:MAX_RULE]
        return Verdict(id=problem.id, verdict=VerdictKind.INFRA_FAILED, rule=rule, grader=self._name)

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self.close()
        path = os.pathsep.join(part for part in (os.getcwd(), *sys.path) if part)
        process = self._process = subprocess.Popen(
            [sys.executable, "-m", "trainer.selection.user_reward", self._name],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}, bufsize=0,
            start_new_session=True,
        )  # fmt: skip
        assert process.stdout is not None
        line = read_line(process.stdout.fileno(), START_LIMIT_S, process.pid)
        if not line or json.loads(line) != {"ready": True}:
            self.close()
            what = (
                json.loads(line)["error"] if line else "its module did not load in time, or ended the process"
            )
            raise ConfigError(f"objective.reward = {self._name!r}: {what}")
        return process


# --- inside the process ----------------------------------------------------------------------------------


def find(name: str) -> Callable[[Problem, Rollout], Any]:
    """Return the function. Raises ValueError with the reason when it is not found."""
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"{error}; give package.module:function, importable from here") from None
    if not callable(function):
        raise ValueError(f"is a {type(function).__name__}, not a function")
    return function


def answer(function: Callable[[Problem, Rollout], Any], line: str) -> dict[str, Any]:
    """Make one call and report its verdict or its exception."""
    asked = json.loads(line)
    try:
        verdict = function(Problem.from_json(asked["problem"]), from_row(asked["rollout"]))
    except Exception as error:
        return {"error": f"raised {type(error).__name__}: {error}"[:MAX_RULE]}
    if not isinstance(verdict, Verdict):
        return {"error": f"returned {type(verdict).__name__}, a Verdict is needed"}
    try:
        return {"verdict": Verdict.from_json(verdict.to_json()).to_json()}
    except (TypeError, ValueError) as error:
        return {"error": f"returned a broken Verdict: {error}"[:MAX_RULE]}


def main(name: str) -> None:
    """Serve calls until the pipe closes. Output of the function goes to standard error."""
    replies = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def send(record: dict[str, Any]) -> None:
        replies.write(json.dumps(record) + "\n")
        replies.flush()

    try:
        function = find(name)
    except Exception as error:
        what = str(error) if isinstance(error, ValueError) else f"{type(error).__name__}: {error}"
        send({"error": what[:MAX_RULE]})
        return
    send({"ready": True})
    for line in sys.stdin:
        send(answer(function, line))


if __name__ == "__main__":
    main(sys.argv[1])
