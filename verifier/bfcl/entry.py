"""`entry_of`: the entry of BFCL that a problem holds."""

from __future__ import annotations

from records.problem import Problem
from records.problem_params import FunctionEntry


def entry_of(problem: Problem) -> FunctionEntry:
    """Return the entry. Raises ValueError if the problem holds none."""
    if not isinstance(problem.params, FunctionEntry):
        raise ValueError(f"{problem.id} is no question of BFCL")
    return problem.params
