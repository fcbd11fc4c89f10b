"""User's reward functions, good and bad; a separate process imports them."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from records.problem import Problem
from records.trajectory import Rollout
from records.verdict import Verdict, VerdictKind

NOT_CALLABLE = 3


def by_answer(problem: Problem, rollout: Rollout) -> Verdict:
    print("a line on standard output is no answer")
    kind = VerdictKind.CORRECT if problem.answer in rollout.turns[-1].text else VerdictKind.WRONG
    return Verdict(id=problem.id, verdict=kind)


def a_number(problem: Problem, rollout: Rollout) -> float:
    return 1.0


def not_a_number(problem: Problem, rollout: Rollout) -> float:
    return float("nan")


def a_broken_verdict(problem: Problem, rollout: Rollout) -> Verdict:
    return Verdict(id=problem.id, verdict="splendid")  # pyright: ignore[reportArgumentType]  # on purpose


def raising(problem: Problem, rollout: Rollout) -> Verdict:
    raise ConnectionError("no judge " * 100)


def failing_on_odd_samples(problem: Problem, rollout: Rollout) -> Verdict:
    if rollout.sample % 2:
        raise RuntimeError("no connection")
    kind = VerdictKind.CORRECT if rollout.sample % 4 else VerdictKind.WRONG
    return Verdict(id=problem.id, verdict=kind)


def dying(problem: Problem, rollout: Rollout) -> Verdict:
    os._exit(7)


def hanging_on_sample_3(problem: Problem, rollout: Rollout) -> Verdict:
    """A busy loop, which no thread can stop, with a child that survives a plain kill."""
    if rollout.sample == 3:
        child = subprocess.Popen(["sleep", "600"])
        Path(problem.prompt).write_text(str(child.pid))
        while True:
            time.monotonic()
    return Verdict(id=problem.id, verdict=VerdictKind.CORRECT if rollout.sample % 2 else VerdictKind.WRONG)


def always_hanging(problem: Problem, rollout: Rollout) -> Verdict:
    time.sleep(600)
    raise AssertionError
