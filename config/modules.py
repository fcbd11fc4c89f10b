"""`check_modules`: imports the user's reward and tool modules once before the first job.

Their code runs in a separate process, where it may print, hang or exit without effect on the command.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from functools import cache
from pathlib import Path

from config.model import PYTHON_TOOLS, Config
from records.errors import ConfigError

LIMIT_S = 120.0
"""Limit for importing the user's module on a loaded machine."""
SHIPPED = "trainer.selection.reward"
"""The module of the suite's own rewards, whose source is read instead of imported."""
_PROGRAM = """
import importlib, json, os, sys
out = os.fdopen(os.dup(1), "w")
os.dup2(2, 1)
kind, module, name = sys.argv[1:]
def fault():
    try:
        found = importlib.import_module(module)
        if kind == "reward":
            function = getattr(found, name)
            return None if callable(function) else f"is a {type(function).__name__}, not a function"
        title, parameters, run = found.NAME, found.PARAMETERS, found.run
        found.DESCRIPTION
    except (ImportError, AttributeError) as error:
        return str(error)
    except BaseException as error:
        return f"its import raised {type(error).__name__}: {error}"
    if not (isinstance(title, str) and isinstance(parameters, dict) and callable(run)):
        return "NAME must be a string, PARAMETERS a dict of JSON schemas, run a function"
    try:
        json.dumps(parameters)
    except (TypeError, ValueError) as error:
        return f"PARAMETERS is not JSON ({error})"
out.write(json.dumps(fault()))
out.flush()
os._exit(0)
"""


def check_modules(config: Config) -> None:
    """Raise ConfigError if `objective.reward` or `rollout.tool.name` names an unusable module."""
    reward, tool = config.objective.reward, config.rollout.tool.own
    if reward is not None:
        module, _, name = reward.partition(":")
        fault = _shipped_fault(name) if module == SHIPPED else _fault("reward", module, name)
        if fault:
            raise ConfigError(
                f"objective.reward = {reward!r}: {fault}; give package.module:function, importable from here"
            )
    if tool is not None:
        fault = _fault("tool", tool, "")
        if fault:
            raise ConfigError(
                f"rollout.tool.name = {tool!r}: {fault}; give {' or '.join(PYTHON_TOOLS)}, or a module with NAME, "
                "DESCRIPTION, PARAMETERS and run, importable from here"
            )


@cache
def _shipped_fault(name: str) -> str | None:
    path = Path(__file__).parents[1] / (SHIPPED.replace(".", "/") + ".py")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    known = [
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef) and len(node.args.args) == 2 and not node.name.startswith("_")
    ]
    return None if name in known else f"no function {name!r} there; it has {', '.join(known)}"


@cache
def _fault(kind: str, module: str, name: str) -> str | None:
    """Return the fault of a module, or None."""
    path = os.pathsep.join(part for part in (os.getcwd(), *sys.path) if part)
    process = subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, kind, module, name],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": path},
        start_new_session=True,
    )
    try:
        reply, _ = process.communicate(timeout=LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"its import did not end within {LIMIT_S:g} s"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    if not reply:
        return "its import ended the process"
    found = json.loads(reply)
    return None if found is None else " ".join(str(found).split())[:300]
