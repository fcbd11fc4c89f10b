"""Recurrences and a simulated counter."""

from __future__ import annotations

from random import Random

from trainer.problems.family import Family, Params


class Recurrence(Family):
    """x -> p x + q, n times."""

    name = "recurrence"
    topic = "recurrences"
    level = 2
    fields = ("a", "p", "q", "n")
    wordings = (
        "Start at x = {a}. Map x to {p}x + {q} for {n} steps. Find x.",
        "Start at x = {a}. Map x to {p}x + {q} for {n} steps. What is x?",
    )
    unseen_wordings = (
        "A sequence begins with {a}; each next one is {p} times the last plus {q}. What comes {n} later?",
    )
    programs = ("x = {a}\nfor i in range({n}): x = {p} * x + {q}\nprint(x)",)
    wrong_programs = (
        "x = {a}\nfor i in range({n} - 1): x = {p} * x + {q}\nprint(x)",
        "x = {a}\nfor i in range({n}): x = {p} * (x + {q})\nprint(x)",
    )
    faulty_programs = ("for i in range({n}): x = {p} * x + {q}\nprint(x)",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(2, 29), rng.randint(2, 4), rng.randint(3, 29), rng.randint(3, 6)

    def answer(self, params: Params) -> int:
        x, p, q, n = params
        for _ in range(n):
            x = p * x + q
        return x

    def check(self, params: Params) -> int:
        a, p, q, n = params
        return a * p**n + q * (p**n - 1) // (p - 1)


class Counter(Family):
    """A counter that is halved whenever it passes a limit."""

    name = "counter"
    topic = "simulation"
    level = 2
    fields = ("a", "b", "m", "n")
    wordings = (
        "Start at x = {a}. For {n} steps add {b}, then halve x (round down) if above {m}. Find x.",
        "Start at x = {a}. For {n} steps add {b}, then halve x (round down) if above {m}. What is x?",
    )
    unseen_wordings = (
        "A pot holds {a} beans. Every day {b} more go in; if there are then more than {m}, half go out "
        "(rounded up). How many beans are there after {n} days?",
    )
    programs = ("x = {a}\nfor i in range({n}):\n    x += {b}\n    if x > {m}: x //= 2\nprint(x)",)
    wrong_programs = (
        "x = {a}\nfor i in range({n}):\n    x += {b}\nprint(x // 2)",
        "x = {a}\nfor i in range({n}):\n    if x > {m}: x //= 2\nprint(x)",
    )
    faulty_programs = ("for i in range({n}):\n    x += {b}\n    if x > {m}: x //= 2\nprint(x)",)

    def draw(self, rng: Random) -> Params:
        return rng.randint(10, 99), rng.randint(11, 49), rng.randint(100, 199), rng.randint(8, 29)

    def answer(self, params: Params) -> int:
        x, b, m, n = params
        for _ in range(n):
            x += b
            if x > m:
                x //= 2
        return x

    def check(self, params: Params) -> int:
        x, b, m, n = params
        if n == 0:
            return x
        grown = x + b
        return self.check((grown >> 1 if grown > m else grown, b, m, n - 1))
