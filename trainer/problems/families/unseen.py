"""Families of the family test ring: these questions and wordings do not occur in SFT, train or dev.

The first three resemble taught families (a known form, another quantity); the others do not.
"""

from __future__ import annotations

import math
from random import Random

from trainer.problems.family import UNSEEN_NOUN_WORDINGS, Family, Params


class TwoProducts(Family):
    """a * b + c * d."""

    name = "two_products"
    topic = "arithmetic"
    level = 1
    fields = ("a", "b", "c", "d")
    phrase = "{a} * {b} + {c} * {d}"
    wordings = UNSEEN_NOUN_WORDINGS
    exprs = ("{a} * {b} + {c} * {d}",)

    def draw(self, rng: Random) -> Params:
        first, second = sorted(((rng.randint(10, 99), rng.randint(3, 9)) for _ in range(2)), reverse=True)
        return *first, *second

    def answer(self, params: Params) -> int:
        a, b, c, d = params
        return a * b + c * d

    def check(self, params: Params) -> int:
        a, b, c, d = params
        return sum([a] * b + [c] * d)


class Gcd(Family):
    """Greatest common divisor."""

    name = "gcd"
    topic = "number theory"
    level = 1
    fields = ("a", "b")
    phrase = "the gcd of {a} and {b}"
    wordings = UNSEEN_NOUN_WORDINGS
    exprs = ("math.gcd({a}, {b})",)

    def draw(self, rng: Random) -> Params:
        g = rng.randint(12, 72)
        x, y = rng.sample(range(2, 20), 2)
        return g * max(x, y), g * min(x, y)

    def answer(self, params: Params) -> int:
        return math.gcd(*params)

    def check(self, params: Params) -> int:
        a, b = params
        return max(d for d in range(1, b + 1) if a % d == 0 and b % d == 0)


class MultipleSum(Family):
    """Sum of the multiples of k up to n."""

    name = "multiple_sum"
    topic = "algebra"
    level = 1
    fields = ("k", "n")
    phrase = "the sum of the multiples of {k} up to {n}"
    wordings = UNSEEN_NOUN_WORDINGS
    exprs = ("sum(range({k}, {n} + 1, {k}))",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(3, 29), rng.randint(60, 499)

    def answer(self, params: Params) -> int:
        k, n = params
        return sum(range(k, n + 1, k))

    def check(self, params: Params) -> int:
        k, n = params
        q = n // k
        return k * q * (q + 1) // 2


class Triangle(Family):
    """Twice the area of a lattice triangle."""

    name = "triangle"
    topic = "coordinates"
    level = 2
    fields = ("a", "b", "c", "d", "e", "f")
    wordings = ("A triangle has the corners ({a}, {b}), ({c}, {d}) and ({e}, {f}). Give twice its area.",)
    exprs = ("abs(({c} - {a}) * ({f} - {b}) - ({e} - {a}) * ({d} - {b}))",)

    def draw(self, rng: Random) -> Params:
        while True:
            points = sorted({(rng.randint(0, 14), rng.randint(0, 14)) for _ in range(3)})
            params = tuple(x for point in points for x in point)
            if len(points) == 3 and self.answer(params):
                return params

    def answer(self, params: Params) -> int:
        a, b, c, d, e, f = params
        return abs((c - a) * (f - b) - (e - a) * (d - b))

    def check(self, params: Params) -> int:
        # Pick's theorem: 2 A = 2 I + B - 2 with I lattice points inside and B on the border.
        a, b, c, d, e, f = params
        corners = [(a, b), (c, d), (e, f)]
        edges = list(zip(corners, corners[1:] + corners[:1], strict=True))
        border = sum(math.gcd(q[0] - p[0], q[1] - p[1]) for p, q in edges)
        sides = [
            [(q[0] - p[0]) * (y - p[1]) - (q[1] - p[1]) * (x - p[0]) for p, q in edges]
            for x in range(15)
            for y in range(15)
        ]
        inside = sum(all(s > 0 for s in three) or all(s < 0 for s in three) for three in sides)
        return 2 * inside + border - 2


class Journey(Family):
    """Distance covered at two speeds."""

    name = "journey"
    topic = "word problems"
    level = 1
    fields = ("a", "v", "b", "w")
    wordings = ("A train runs {a} hours at {v} km/h, then {b} hours at {w} km/h. How many km is that?",)
    exprs = ("{a} * {v} + {b} * {w}",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(2, 12), rng.randint(31, 160), rng.randint(2, 12), rng.randint(31, 160)

    def answer(self, params: Params) -> int:
        a, v, b, w = params
        return a * v + b * w

    def check(self, params: Params) -> int:
        a, v, b, w = params
        return sum([v] * a) + sum([w] * b)


class Handshakes(Family):
    """Handshakes between two groups and within one of them."""

    name = "handshakes"
    topic = "counting"
    level = 2
    fields = ("m", "n")
    wordings = (
        "{m} guests each shake hands once with each other, and once with each of {n} hosts. "
        "How many handshakes are there?",
    )
    exprs = ("{m} * ({m} - 1) // 2 + {m} * {n}",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(5, 60), rng.randint(3, 60)

    def answer(self, params: Params) -> int:
        m, n = params
        return m * (m - 1) // 2 + m * n

    def check(self, params: Params) -> int:
        m, n = params
        return sum(1 for i in range(m + n) for j in range(i) if j < m)


class Reversal(Family):
    """A number written backwards, plus another."""

    name = "reversal"
    topic = "arithmetic"
    level = 1
    fields = ("n", "m")
    wordings = ("Write {n} backwards and add {m}. Which number comes out?",)
    exprs = ("int(str({n})[::-1]) + {m}",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(101, 9999), rng.randint(11, 999)

    def answer(self, params: Params) -> int:
        n, m = params
        return int(str(n)[::-1]) + m

    def check(self, params: Params) -> int:
        rest, m = params
        backwards = 0
        while rest:
            backwards, rest = 10 * backwards + rest % 10, rest // 10
        return backwards + m


class Series(Family):
    """Sum of an arithmetic progression."""

    name = "series"
    topic = "recurrences"
    level = 1
    fields = ("a", "d", "n")
    wordings = ("An arithmetic progression begins with {a} and has difference {d}. Add its first {n} terms.",)
    exprs = ("sum({a} + {d} * i for i in range({n}))",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(2, 60), rng.randint(2, 30), rng.randint(5, 60)

    def answer(self, params: Params) -> int:
        a, d, n = params
        return sum(a + d * i for i in range(n))

    def check(self, params: Params) -> int:
        a, d, n = params
        return n * (2 * a + (n - 1) * d) // 2


class GridPaths(Family):
    """Shortest lattice paths through a given point."""

    name = "grid_paths"
    topic = "counting"
    level = 2
    fields = ("a", "b", "c", "d")
    wordings = ("How many shortest grid paths lead from (0, 0) through ({a}, {b}) to ({c}, {d})?",)
    exprs = ("math.comb({a} + {b}, {a}) * math.comb({c} - {a} + {d} - {b}, {c} - {a})",)

    def draw(self, rng: Random) -> Params:
        a, b = rng.randint(2, 6), rng.randint(2, 6)
        return a, b, a + rng.randint(2, 6), b + rng.randint(2, 6)

    def answer(self, params: Params) -> int:
        a, b, c, d = params
        return math.comb(a + b, a) * math.comb(c - a + d - b, c - a)

    def check(self, params: Params) -> int:
        a, b, c, d = params
        return _num_paths(a, b) * _num_paths(c - a, d - b)


class BaseDigits(Family):
    """A numeral read in another base."""

    name = "base_digits"
    topic = "number theory"
    level = 1
    fields = ("n", "b")
    wordings = ("The numeral {n} is written in base {b}. Write it in base ten.",)
    exprs = ("int(str({n}), {b})",)

    def draw(self, rng: Random) -> Params:
        b = rng.randint(4, 9)
        numeral = rng.randint(1, b - 1)
        for _ in range(rng.randint(3, 5)):
            numeral = 10 * numeral + rng.randrange(b)
        return numeral, b

    def answer(self, params: Params) -> int:
        numeral, b = params
        return int(str(numeral), b)

    def check(self, params: Params) -> int:
        rest, b = params
        value, weight = 0, 1
        while rest:
            rest, digit = divmod(rest, 10)
            value, weight = value + digit * weight, weight * b
        return value


class Savings(Family):
    """Money put aside every month, with a fee every third."""

    name = "savings"
    topic = "simulation"
    level = 2
    fields = ("a", "b", "c", "n")
    wordings = (
        "An account holds {a} coins. Every month {b} come in; at the end of every third month {c} are "
        "charged. What does it hold after {n} months?",
    )
    exprs = ("{a} + {b} * {n} - {c} * ({n} // 3)",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(50, 499), rng.randint(11, 60), rng.randint(5, 30), rng.randint(7, 40)

    def answer(self, params: Params) -> int:
        a, b, c, n = params
        return a + b * n - c * (n // 3)

    def check(self, params: Params) -> int:
        coins, b, c, n = params
        for month in range(1, n + 1):
            coins += b
            if month % 3 == 0:
                coins -= c
        return coins


def _num_paths(width: int, height: int) -> int:
    row = [1] * (width + 1)
    for _ in range(height):
        for x in range(1, width + 1):
            row[x] += row[x - 1]
    return row[width]


UNSEEN: tuple[Family, ...] = (
    TwoProducts(),
    Gcd(),
    MultipleSum(),
    Triangle(),
    Journey(),
    Handshakes(),
    Reversal(),
    Series(),
    GridPaths(),
    BaseDigits(),
    Savings(),
)
