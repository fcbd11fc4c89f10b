"""Number theory: powers modulo m, least common multiple, divisors, primes."""

from __future__ import annotations

import math
from random import Random

from trainer.problems.family import Family, Params


class PowerMod(Family):
    """a^b mod m."""

    name = "power_mod"
    topic = "number theory"
    level = 1
    fields = ("a", "b", "m")
    phrase = "the remainder of {a}^{b} divided by {m}"
    unseen_wordings = ("Raise {a} to the power {b}. What is left over when {m} divides it?",)
    exprs = ("pow({a}, {b}, {m})", "{a} ** {b} % {m}")
    wrong_exprs = ("({a} ^ {b}) % {m}", "{a} * {b} % {m}")
    faulty_programs = ("print(powmod({a}, {b}, {m}))",)

    def draw(self, rng: Random) -> Params:
        while True:
            params = rng.randint(2, 30), rng.randint(5, 40), rng.randint(31, 199)
            if self.answer(params) > 1:  # 0 and 1 are common, and 0 would make a product trivial
                return params

    def answer(self, params: Params) -> int:
        return pow(*params)

    def check(self, params: Params) -> int:
        a, b, m = params
        x = 1
        for _ in range(b):
            x = x * a % m
        return x


class Lcm(Family):
    """Least common multiple of two numbers with a common factor, so their product is wrong."""

    name = "lcm"
    topic = "number theory"
    level = 1
    fields = ("a", "b")
    phrase = "the lcm of {a} and {b}"
    unseen_wordings = ("Which is the smallest positive integer that both {a} and {b} divide?",)
    exprs = ("math.lcm({a}, {b})", "{a} * {b} // math.gcd({a}, {b})")
    wrong_exprs = ("{a} * {b}", "math.gcd({a}, {b})")

    def draw(self, rng: Random) -> Params:
        g = rng.randint(2, 15)
        x, y = rng.sample(range(2, 40), 2)
        return g * max(x, y), g * min(x, y)

    def answer(self, params: Params) -> int:
        return math.lcm(*params)

    def check(self, params: Params) -> int:
        a, b = params
        multiple = a
        while multiple % b:
            multiple += a
        return multiple


class DivisorSum(Family):
    """Sum of all positive divisors."""

    name = "divisor_sum"
    topic = "number theory"
    level = 1
    fields = ("n",)
    phrase = "the sum of the divisors of {n}"
    unseen_wordings = ("Add up every positive integer that divides {n} without rest.",)
    exprs = ("sum(d for d in range(1, {n} + 1) if {n} % d == 0)",)
    wrong_exprs = (
        "sum(d for d in range(1, {n}) if {n} % d == 0)",
        "sum(1 for d in range(1, {n} + 1) if {n} % d == 0)",
    )
    faulty_programs = ("print(sum(d for d in range({n} + 1) if {n} % d == 0))",)

    def draw(self, rng: Random) -> Params:
        return (rng.randint(100, 9999),)

    def answer(self, params: Params) -> int:
        (rest,) = params
        total, p = 1, 2
        while p * p <= rest:
            term = 1
            while rest % p == 0:
                rest //= p
                term = term * p + 1
            total *= term
            p += 1
        return total * (rest + 1) if rest > 1 else total

    def check(self, params: Params) -> int:
        (n,) = params
        return sum(d for d in range(1, n + 1) if n % d == 0)


class GcdDivisors(Family):
    """Sum of the divisors of a greatest common divisor."""

    name = "gcd_divisors"
    topic = "number theory"
    level = 2
    fields = ("a", "b")
    phrase = "the sum of the divisors of gcd({a}, {b})"
    unseen_wordings = ("Add up all positive integers that divide both {a} and {b}.",)
    programs = ("g = math.gcd({a}, {b})\nprint(sum(d for d in range(1, g + 1) if g % d == 0))",)
    wrong_programs = (
        "g = math.gcd({a}, {b})\nprint(sum(d for d in range(1, g) if g % d == 0))",
        "print(math.gcd({a}, {b}))",
    )

    def draw(self, rng: Random) -> Params:
        g = rng.randint(12, 72)
        x, y = rng.sample(range(2, 20), 2)
        return g * max(x, y), g * min(x, y)

    def answer(self, params: Params) -> int:
        g = math.gcd(*params)
        return sum(d for d in range(1, g + 1) if g % d == 0)

    def check(self, params: Params) -> int:
        a, b = params
        return sum(d for d in range(1, min(a, b) + 1) if a % d == 0 and b % d == 0)


class PrimeSum(Family):
    """Sum of the primes of an interval."""

    name = "prime_sum"
    topic = "number theory"
    level = 2
    fields = ("a", "b")
    phrase = "the sum of the primes from {a} to {b}"
    unseen_wordings = ("Add up all prime numbers that are at least {a} and at most {b}.",)
    exprs = ("sum(p for p in range({a}, {b} + 1) if all(p % d for d in range(2, p)))",)
    wrong_exprs = (
        "sum(p for p in range({a}, {b} + 1) if p % 2)",
        "sum(1 for p in range({a}, {b} + 1) if all(p % d for d in range(2, p)))",
    )
    faulty_programs = ("print(sum(p for p in range({a}, {b} + 1) if isprime(p)))",)

    def draw(self, rng: Random) -> Params:
        a = rng.randint(10, 199)
        return a, a + rng.randint(20, 120)

    def answer(self, params: Params) -> int:
        a, b = params
        return sum(p for p in range(a, b + 1) if all(p % d for d in range(2, math.isqrt(p) + 1)))

    def check(self, params: Params) -> int:
        a, b = params
        composite = {multiple for d in range(2, b) for multiple in range(2 * d, b + 1, d)}
        return sum(set(range(a, b + 1)) - composite)
