"""Counting: multiples in an interval, binomial coefficients."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random

from trainer.problems.family import Family, Params


class MultipleCount(Family):
    """Multiples of k in [a, b]."""

    name = "multiple_count"
    topic = "counting"
    level = 1
    fields = ("k", "a", "b")
    phrase = "the number of multiples of {k} from {a} to {b}"
    unseen_wordings = ("How many integers that are at least {a} and at most {b} does {k} divide?",)
    exprs = ("{b} // {k} - ({a} - 1) // {k}", "sum(x % {k} == 0 for x in range({a}, {b} + 1))")
    wrong_exprs = ("{b} // {k} + {a} // {k}", "{b} // {k}")
    faulty_programs = ("print(count(x % {k} == 0 for x in range({a}, {b} + 1)))",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(3, 19), rng.randint(20, 99), rng.randint(200, 999)

    def answer(self, params: Params) -> int:
        k, a, b = params
        return b // k - (a - 1) // k

    def check(self, params: Params) -> int:
        k, a, b = params
        return len([x for x in range(a, b + 1) if x % k == 0])


class BinomialMod(Family):
    """C(n, k) mod m."""

    name = "binomial_mod"
    topic = "counting"
    level = 1
    fields = ("n", "k", "m")
    phrase = "C({n}, {k}) mod {m}"
    unseen_wordings = ("In how many ways can {k} of {n} people be chosen? Give the rest modulo {m}.",)
    exprs = ("math.comb({n}, {k}) % {m}",)
    wrong_exprs = ("math.perm({n}, {k}) % {m}", "{n} ** {k} % {m}")
    faulty_programs = ("print(comb({n}, {k}) % {m})",)

    def draw(self, rng: Random) -> Params:
        while True:
            n = rng.randint(10, 30)
            params = n, rng.randint(3, n // 2), rng.randint(31, 199)
            if self.answer(params) > 1:  # 0 is common, and would make a product trivial
                return params

    def answer(self, params: Params) -> int:
        n, k, m = params
        return math.comb(n, k) % m

    def check(self, params: Params) -> int:
        n, k, m = params
        row = [1]
        for _ in range(n):
            row = [1, *(x + y for x, y in pairwise(row)), 1]
        return row[k] % m
