"""Algebra: a linear equation, a conditional power sum."""

from __future__ import annotations

from random import Random

from trainer.problems.family import Family, Params


class Linear(Family):
    """Solve a x + b = c in integers."""

    name = "linear"
    topic = "algebra"
    level = 1
    fields = ("a", "b", "c")
    wordings = ("Solve {a}x + {b} = {c}.", "Find x with {a}x + {b} = {c}.", "What is x if {a}x + {b} = {c}?")
    unseen_wordings = ("Multiplying a number by {a} and adding {b} gives {c}. Which number is it?",)
    exprs = ("({c} - {b}) // {a}",)
    programs = ("for x in range(1000):\n    if {a} * x + {b} == {c}: print(x)",)
    wrong_exprs = ("({c} + {b}) // {a}", "{c} - {b} // {a}")
    faulty_programs = ("print(solve({a}, {b}, {c}))",)

    def draw(self, rng: Random) -> Params:
        a, b, x = rng.randint(3, 29), rng.randint(30, 99), rng.randint(11, 99)
        return a, b, a * x + b

    def answer(self, params: Params) -> int:
        a, b, c = params
        return (c - b) // a

    def check(self, params: Params) -> int:
        a, b, c = params
        (x,) = (x for x in range(c + 1) if a * x + b == c)
        return x


class SquareSum(Family):
    """Sum of the squares of the multiples of k up to n."""

    name = "square_sum"
    topic = "algebra"
    level = 2
    fields = ("k", "n")
    phrase = "the sum of the squares of the multiples of {k} up to {n}"
    unseen_wordings = ("Square every positive multiple of {k} that is not above {n}, and add the squares.",)
    exprs = ("sum(x * x for x in range({k}, {n} + 1, {k}))",)
    programs = ("print(sum(x * x for x in range({n} + 1) if x % {k} == 0))",)
    wrong_exprs = ("sum(x for x in range({k}, {n} + 1, {k}))", "sum(x * x for x in range({k}, {n} + 1))")
    faulty_programs = ("print(sum(x * x for x in range({n} + 1) if x % k == 0))",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(3, 29), rng.randint(60, 499)

    def answer(self, params: Params) -> int:
        k, n = params
        return sum(x * x for x in range(k, n + 1, k))

    def check(self, params: Params) -> int:
        k, n = params
        q = n // k
        return k * k * q * (q + 1) * (2 * q + 1) // 6
