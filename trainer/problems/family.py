"""`Family`: one kind of question, drawn by number, with its answer by two methods.

The numbers of a problem are a flat tuple of ints (`Params`), so they hash, print and compare in one way.
Code and wording are templates over the names in `fields`; this module runs no code.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from random import Random
from typing import ClassVar

from records.errors import UserError
from records.problem import Problem
from records.problem_params import Generated

Params = tuple[int, ...]
"""The numbers of one problem, in the order of the family's `fields`."""

NOUN_WORDINGS = ("Find {phrase}.", "Compute {phrase}.", "What is {phrase}?")
"""Wordings of all families whose question is a noun phrase, so that families share vocabulary."""
UNSEEN_NOUN_WORDINGS = ("Tell me {phrase}.", "Determine {phrase}.")
"""The smallest change of wording; only the family test ring uses it."""


class ProblemError(UserError, ValueError):
    """A family, a split or its sizes are not possible as requested; the message gives the fix."""


class Family(ABC):
    """One kind of question.

    A subclass defines its templates and `draw`, `answer` and `check`. `check` computes the answer by a
    second method; a test compares the two.
    """

    name: ClassVar[str]
    topic: ClassVar[str]
    level: ClassVar[int]
    """1: one expression; 2: one more idea; 3: composition; 4: long."""
    fields: ClassVar[tuple[str, ...]]
    phrase: ClassVar[str] = ""
    """The quantity as a noun phrase, if the question is one; compositions use it."""
    wordings: ClassVar[tuple[str, ...]] = NOUN_WORDINGS
    unseen_wordings: ClassVar[tuple[str, ...]] = ()
    """Only the family test ring uses these."""
    exprs: ClassVar[tuple[str, ...]] = ()
    """Correct Python expressions, best first."""
    programs: ClassVar[tuple[str, ...]] = ()
    """More correct programs, for quantities that need statements or have several solutions."""
    wrong_exprs: ClassVar[tuple[str, ...]] = ()
    """Plausible expressions that run and are (nearly always) wrong."""
    wrong_programs: ClassVar[tuple[str, ...]] = ()
    faulty_programs: ClassVar[tuple[str, ...]] = ()
    """Programs that raise through an error typical of this family."""

    @property
    def key(self) -> str:
        """Identifies the generator; scores are grouped by `name`."""
        return self.name

    @abstractmethod
    def draw(self, rng: Random) -> Params:
        """Draw the numbers of one problem. Commuting arguments come in a fixed order, which excludes twins."""

    @abstractmethod
    def answer(self, params: Params) -> int:
        """The answer."""

    @abstractmethod
    def check(self, params: Params) -> int:
        """The answer by a second, independent method."""

    def render(self, template: str, params: Params) -> str:
        """Fill in one template of this family."""
        return template.format(**dict(zip(self.fields, params, strict=True)))

    def wording_templates(self, *, unseen: bool = False) -> tuple[str, ...]:
        """Templates of the question, with the phrase inserted."""
        wordings = self.wordings
        if unseen:
            mild = UNSEEN_NOUN_WORDINGS[:1] if self.phrase else ()
            wordings = (*self.unseen_wordings, *mild)
        return tuple(w.replace("{phrase}", self.phrase) for w in wordings)

    def text(self, params: Params, wording: int, *, unseen: bool = False) -> str:
        """The question. `wording` is an index modulo the number of wordings."""
        templates = self.wording_templates(unseen=unseen)
        return self.render(templates[wording % len(templates)], params)

    def right_programs(self, params: Params) -> list[str]:
        """Programs that print the answer, best first."""
        return [program(self.render(f"print({e})", params)) for e in self.exprs] + [
            program(self.render(p, params)) for p in self.programs
        ]

    def wrong_formula_programs(self, params: Params) -> list[str]:
        """Programs that run and print something plausible that is nearly always wrong."""
        return [program(self.render(f"print({e})", params)) for e in self.wrong_exprs] + [
            program(self.render(p, params)) for p in self.wrong_programs
        ]

    def bug_programs(self, code: str, params: Params) -> list[str]:
        """Variants of `code` that raise, then this family's own faulty programs."""
        return break_program(code) + [self.render(p, params) for p in self.faulty_programs]


def program(body: str) -> str:
    r"""Add the import that a body needs.

    >>> program("print(math.gcd(8, 12))")
    'import math\nprint(math.gcd(8, 12))'
    """
    return f"import math\n{body}" if "math." in body else body


def break_program(code: str) -> list[str]:
    """Variants of a program that raise: forgotten import, misspelt name, lost bracket.

    >>> break_program("print(2 + 3)")
    ['prin(2 + 3)', 'print(2 + 3']
    """
    head, _, tail = code.rpartition("print(")
    broken = [f"{head}prin({tail}", code[:-1]]
    if code.startswith("import math\n"):
        broken.insert(0, code.removeprefix("import math\n"))
    return broken


def digest(text: str) -> int:
    """64 bits of a stable hash; equal in every process, unlike `hash`.

    >>> digest("a") == digest("a") != digest("b")
    True
    """
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")


def canonical(family: Family, params: Params) -> str:
    """Canonical text of a generator and its numbers; the key of splits."""
    return Generated(family=family.key, values=params).text


def make_problem(family: Family, params: Params, *, split: str, unseen_wording: bool = False) -> Problem:
    """Build the question of these numbers. Its wording depends on the numbers, not on the order of drawing."""
    record = Generated(family=family.key, values=params)
    number = digest(record.text)
    wording = digest("wording" + record.text)
    return Problem(
        id=f"{family.name}-{number:016x}",
        prompt=family.text(params, wording, unseen=unseen_wording),
        answer=str(family.answer(params)),
        family=family.name,
        level=family.level,
        split=split,
        params=record,
    )
