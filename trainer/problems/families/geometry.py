"""Coordinates: a squared distance."""

from __future__ import annotations

from random import Random

from trainer.problems.family import Family, Params


class Distance(Family):
    """Squared distance of two lattice points."""

    name = "distance"
    topic = "coordinates"
    level = 1
    fields = ("a", "b", "c", "d")
    phrase = "the squared distance from ({a}, {b}) to ({c}, {d})"
    unseen_wordings = ("A square has the side from ({a}, {b}) to ({c}, {d}). How large is its area?",)
    exprs = ("({a} - {c}) ** 2 + ({b} - {d}) ** 2",)
    programs = ("x = {a} - {c}\ny = {b} - {d}\nprint(x * x + y * y)",)
    wrong_exprs = ("abs({a} - {c}) + abs({b} - {d})", "({a} + {c}) ** 2 + ({b} + {d}) ** 2")
    faulty_programs = ("print(dist({a}, {b}, {c}, {d}))",)

    def draw(self, rng: Random) -> Params:
        c, a = sorted(rng.sample(range(1, 60), 2))
        b, d = rng.sample(range(1, 60), 2)
        return a, b, c, d

    def answer(self, params: Params) -> int:
        a, b, c, d = params
        return (a - c) ** 2 + (b - d) ** 2

    def check(self, params: Params) -> int:
        a, b, c, d = params
        return round(abs(complex(a, b) - complex(c, d)) ** 2)
