"""`Composition`: the product of two quantities of one-step families, plus a constant.

Six of the 36 ordered pairs never occur in SFT, train or dev: they form the composition test ring. Each quantity is
held out once as A and once as B, so training shows every quantity in both places.
"""

from __future__ import annotations

from itertools import product
from random import Random

from trainer.problems.families.arithmetic import DigitSum
from trainer.problems.families.counting import BinomialMod, MultipleCount
from trainer.problems.families.number_theory import DivisorSum, Lcm, PowerMod
from trainer.problems.family import Family, Params, break_program, program

QUANTITIES: tuple[Family, ...] = (PowerMod(), DigitSum(), Lcm(), MultipleCount(), BinomialMod(), DivisorSum())


class Composition(Family):
    """A * B + c, where A and B are quantities of two families."""

    name = "composition"
    topic = "composition"
    level = 3

    def __init__(self, left: Family, right: Family) -> None:
        self.left = left
        self.right = right

    @property
    def key(self) -> str:
        return f"composition:{self.left.name}*{self.right.name}"

    def parts(self, params: Params) -> tuple[Params, Params, int]:
        """The numbers of A, those of B, and c."""
        cut = len(self.left.fields)
        return params[:cut], params[cut:-1], params[-1]

    def draw(self, rng: Random) -> Params:
        return (*self.left.draw(rng), *self.right.draw(rng), rng.randint(2, 99))

    def answer(self, params: Params) -> int:
        a, b, c = self.parts(params)
        return self.left.answer(a) * self.right.answer(b) + c

    def check(self, params: Params) -> int:
        a, b, c = self.parts(params)
        return c + self.right.check(b) * self.left.check(a)

    def text(self, params: Params, wording: int, *, unseen: bool = False) -> str:
        a, b, c = self.parts(params)
        left, right = self.left.render(self.left.phrase, a), self.right.render(self.right.phrase, b)
        return f"Let A be {left}. Let B be {right}. Find A * B + {c}."

    def right_programs(self, params: Params) -> list[str]:
        return [self._program(params, self.left.exprs[0], self.right.exprs[0], "A * B")]

    def wrong_formula_programs(self, params: Params) -> list[str]:
        good_a, good_b = self.left.exprs[0], self.right.exprs[0]
        return [
            self._program(params, self.left.wrong_exprs[0], good_b, "A * B"),
            self._program(params, good_a, self.right.wrong_exprs[0], "A * B"),
            self._program(params, good_a, good_b, "A + B"),
        ]

    def bug_programs(self, code: str, params: Params) -> list[str]:
        broken = break_program(code)
        # A lost definition is a typical error in a program with names.
        return [*broken, "\n".join(line for line in code.split("\n") if not line.startswith("B = "))]

    def first_program(self, params: Params, *, wrong: bool) -> str:
        """First call of the solution in two calls: print A."""
        a, _, _ = self.parts(params)
        expr = (self.left.wrong_exprs if wrong else self.left.exprs)[0]
        return program(f"print({self.left.render(expr, a)})")

    def second_program(self, params: Params, value: str, *, wrong: bool) -> str:
        """Second call of the solution in two calls: compute B, and the result from the printed A."""
        _, b, c = self.parts(params)
        expr = (self.right.wrong_exprs if wrong else self.right.exprs)[0]
        return program(f"B = {self.right.render(expr, b)}\nprint({value} * B + {c})")

    def _program(self, params: Params, left: str, right: str, join: str) -> str:
        a, b, c = self.parts(params)
        return program(
            f"A = {self.left.render(left, a)}\nB = {self.right.render(right, b)}\nprint({join} + {c})"
        )


def _is_held_out(left: int, right: int) -> bool:
    return (left + 1) % len(QUANTITIES) == right


_PAIRS = [(i, j) for i, j in product(range(len(QUANTITIES)), repeat=2)]
TRAINED_PAIRS = tuple(Composition(QUANTITIES[i], QUANTITIES[j]) for i, j in _PAIRS if not _is_held_out(i, j))
HELD_OUT_PAIRS = tuple(Composition(QUANTITIES[i], QUANTITIES[j]) for i, j in _PAIRS if _is_held_out(i, j))
