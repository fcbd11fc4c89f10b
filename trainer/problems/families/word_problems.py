"""Word problems: bags of nuts, tickets."""

from __future__ import annotations

from random import Random

from trainer.problems.family import Family, Params


class Bags(Family):
    """a bags of b, minus c."""

    name = "bags"
    topic = "word problems"
    level = 1
    fields = ("a", "b", "c")
    wordings = (
        "Ann has {a} bags of {b} nuts and eats {c}. How many are left?",
        "Ben has {a} bags of {b} nuts and sells {c}. How many are left?",
        "Eve has {a} bags of {b} nuts and loses {c}. How many are left?",
    )
    unseen_wordings = (
        "{c} of the pens in {a} boxes are broken; a box holds {b} pens. How many pens still write?",
    )
    exprs = ("{a} * {b} - {c}",)
    programs = ("n = {a} * {b}\nprint(n - {c})",)
    wrong_exprs = ("{a} * {b} + {c}", "{a} + {b} - {c}")
    faulty_programs = ("print(bags * {b} - {c})",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(5, 49), rng.randint(11, 59), rng.randint(11, 49)

    def answer(self, params: Params) -> int:
        a, b, c = params
        return a * b - c

    def check(self, params: Params) -> int:
        a, b, c = params
        nuts = [(bag, nut) for bag in range(a) for nut in range(b)]
        return len(nuts[c:])


class Tickets(Family):
    """Number of adults among n tickets with two prices."""

    name = "tickets"
    topic = "word problems"
    level = 2
    fields = ("n", "t", "a", "b")
    wordings = (
        "{n} tickets cost {t}. Adults pay {a}, children {b}. How many adults?",
        "{n} tickets cost {t}. Adults pay {a}, children {b}. Find the number of adults.",
    )
    unseen_wordings = (
        "Some coins weigh {a} grams, others {b} grams. {n} coins weigh {t} grams. How many are heavy?",
    )
    exprs = ("({t} - {b} * {n}) // ({a} - {b})",)
    programs = ("for x in range({n} + 1):\n    if {a} * x + {b} * ({n} - x) == {t}: print(x)",)
    wrong_exprs = ("{t} // ({a} + {b})", "({a} * {n} - {t}) // ({a} - {b})")
    faulty_programs = ("print(({t} - {b} * {n}) // ({a} - {a}))",)

    def draw(self, rng: Random) -> Params:
        n, b = rng.randint(20, 60), rng.randint(3, 9)
        a = b + rng.randint(2, 9)
        x = rng.randint(3, n - 3)
        return n, a * x + b * (n - x), a, b

    def answer(self, params: Params) -> int:
        n, t, a, b = params
        return (t - b * n) // (a - b)

    def check(self, params: Params) -> int:
        n, t, a, b = params
        (x,) = (x for x in range(n + 1) if a * x + b * (n - x) == t)
        return x
