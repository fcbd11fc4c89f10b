"""Kill -9 at a chosen call. Loaded by every interpreter whose PYTHONPATH begins with this folder.

KILL_MOMENT = word in the command line | module | function, dotted | number of the call | before or after.
The command line is asked at the call: a job server imports the function before it forks the job.
The whole session dies, the Snakemake call included, as when a machine is lost.
"""

from __future__ import annotations

import functools
import importlib.abc
import importlib.machinery
import importlib.util
import os
import signal
import sys


def _arm(module, path, word, number, when) -> None:
    owner = module
    *parents, name = path.split(".")
    for parent in parents:
        owner = getattr(owner, parent)
    original = getattr(owner, name)
    count = 0

    @functools.wraps(original)
    def deadly(*args, **kwargs):
        nonlocal count
        count += word in " ".join(sys.argv)
        if count == number and when == "before":
            _end_all()
        result = original(*args, **kwargs)
        if count == number:
            _end_all()
        return result

    setattr(owner, name, deadly)


def _end_all() -> None:
    """Kill the group of Snakemake, which leads the session, and this process, which may be in another."""
    os.killpg(os.getsid(0), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)


class _Finder(importlib.abc.MetaPathFinder):
    def __init__(self, target, arm) -> None:
        self.target, self.arm = target, arm

    def find_spec(self, name, path=None, target=None):
        if name != self.target:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.loader is not None
        load = spec.loader.exec_module

        def exec_module(module) -> None:
            load(module)
            self.arm(module)

        spec.loader.exec_module = exec_module
        return spec


_moment = os.environ.get("KILL_MOMENT")
if _moment:
    _word, _module, _path, _number, _when = _moment.split("|")
    sys.meta_path.insert(0, _Finder(_module, lambda m: _arm(m, _path, _word, int(_number), _when)))
