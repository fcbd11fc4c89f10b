"""Arithmetic: a bracketed expression, a digit sum, and the long list of squares."""

from __future__ import annotations

from random import Random

from trainer.problems.family import Family, Params


class Bracket(Family):
    """(a + b) * c - d."""

    name = "bracket"
    topic = "arithmetic"
    level = 1
    fields = ("a", "b", "c", "d")
    phrase = "({a} + {b}) * {c} - {d}"
    unseen_wordings = ("Add {a} and {b}, multiply by {c}, then take away {d}. Which number do you get?",)
    exprs = ("({a} + {b}) * {c} - {d}",)
    programs = ("x = {a} + {b}\nprint(x * {c} - {d})",)
    wrong_exprs = ("{a} + {b} * {c} - {d}", "({a} + {b}) * ({c} - {d})")

    def draw(self, rng: Random) -> Params:
        b, a = sorted((rng.randint(10, 99), rng.randint(10, 99)))
        return a, b, rng.randint(3, 29), rng.randint(10, 99)

    def answer(self, params: Params) -> int:
        a, b, c, d = params
        return (a + b) * c - d

    def check(self, params: Params) -> int:
        a, b, c, d = params
        return sum(a + b for _ in range(c)) - d


class DigitSum(Family):
    """Sum of the digits of a power."""

    name = "digit_sum"
    topic = "arithmetic"
    level = 1
    fields = ("a", "b")
    phrase = "the digit sum of {a}^{b}"
    unseen_wordings = ("Raise {a} to the power {b} and add up the digits of what you get.",)
    exprs = ("sum(int(d) for d in str({a} ** {b}))", "sum(map(int, str({a} ** {b})))")
    wrong_exprs = ("len(str({a} ** {b}))", "sum(int(d) for d in str({a} * {b}))")
    faulty_programs = ("print(sum(int(d) for d in {a} ** {b}))",)

    def draw(self, rng: Random) -> Params:
        while True:
            params = rng.randint(12, 299), rng.randint(6, 20)
            if params[0] % 10:  # a power of ten times as much has the same digit sum
                return params

    def answer(self, params: Params) -> int:
        a, b = params
        return sum(int(d) for d in str(a**b))

    def check(self, params: Params) -> int:
        rest, total = params[0] ** params[1], 0
        while rest:
            rest, digit = divmod(rest, 10)
            total += digit
        return total


class SquareList(Family):
    """Sum of the squares of a long list of numbers: the long family.

    The taught program names every number twice, about six tokens each: 10 to 30 numbers need about 115 to 240
    tokens of response. Three quarters exceed the first stage's budget of 144, a quarter the second's of 208, and
    none the third's of 288 unless a call fails. The question takes half as many tokens.
    """

    name = "square_list"
    topic = "arithmetic"
    level = 4
    fields = ("numbers",)
    min_numbers = 10
    max_numbers = 30

    def draw(self, rng: Random) -> Params:
        num = rng.randint(self.min_numbers, self.max_numbers)
        return tuple(rng.randint(11, 99) for _ in range(num))

    def answer(self, params: Params) -> int:
        return sum(x * x for x in params)

    def check(self, params: Params) -> int:
        # A square is the sum of the first odd numbers.
        return sum(sum(range(1, 2 * x, 2)) for x in params)

    def text(self, params: Params, wording: int, *, unseen: bool = False) -> str:
        return f"Add the squares of {', '.join(map(str, params))}."

    def right_programs(self, params: Params) -> list[str]:
        return [f"print({' + '.join(f'{x}*{x}' for x in params)})"]

    def wrong_formula_programs(self, params: Params) -> list[str]:
        return [f"print({' + '.join(map(str, params))})"]
