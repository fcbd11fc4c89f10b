"""All problem families; `find_family` and `family_and_params` find the family of a key or a problem."""

from __future__ import annotations

from functools import cache

from records.problem import Problem
from records.problem_params import Generated
from trainer.problems.composition import HELD_OUT_PAIRS, TRAINED_PAIRS
from trainer.problems.families.algebra import Linear, SquareSum
from trainer.problems.families.arithmetic import Bracket, DigitSum, SquareList
from trainer.problems.families.counting import BinomialMod, MultipleCount
from trainer.problems.families.geometry import Distance
from trainer.problems.families.number_theory import DivisorSum, GcdDivisors, Lcm, PowerMod, PrimeSum
from trainer.problems.families.sequences import Counter, Recurrence
from trainer.problems.families.unseen import UNSEEN
from trainer.problems.families.word_problems import Bags, Tickets
from trainer.problems.family import Family, Params, ProblemError

LEVEL_1: tuple[Family, ...] = (
    Bracket(),
    DigitSum(),
    PowerMod(),
    Lcm(),
    DivisorSum(),
    MultipleCount(),
    BinomialMod(),
    Linear(),
    Distance(),
    Bags(),
)
LEVEL_2: tuple[Family, ...] = (GcdDivisors(), PrimeSum(), SquareSum(), Recurrence(), Counter(), Tickets())
LEVEL_3: tuple[Family, ...] = TRAINED_PAIRS
LONG: tuple[Family, ...] = (SquareList(),)

IN_DISTRIBUTION: tuple[Family, ...] = (*LEVEL_1, *LEVEL_2, *LEVEL_3, *LONG)
"""Families of SFT, train, dev and the numbers ring."""

REWORDED: tuple[Family, ...] = tuple(f for f in IN_DISTRIBUTION if f.unseen_wordings)
"""Known families that also have a wording reserved for the family ring."""

ALL_FAMILIES: tuple[Family, ...] = (*IN_DISTRIBUTION, *HELD_OUT_PAIRS, *UNSEEN)


def find_family(key: str) -> Family:
    """Return the family of a key.

    Raises:
        ProblemError: no family has this key; the message lists the keys.
    """
    for family in ALL_FAMILIES:
        if family.key == key:
            return family
    known = ", ".join(sorted({f.name for f in ALL_FAMILIES}))
    raise ProblemError(f"unknown problem family {key!r}; use one of: {known}")


_find_cached = cache(find_family)


def family_and_params(problem: Problem) -> tuple[Family, Params]:
    """Return the generator of a procedural problem and its numbers.

    Raises:
        ProblemError: the problem did not come from this package.
    """
    if not isinstance(problem.params, Generated):
        raise ProblemError(
            f"problem {problem.id!r} is not procedural; only problems from generate_splits can be taught"
        )
    return _find_cached(problem.params.family), problem.params.values
