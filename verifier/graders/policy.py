"""`GradePolicy`: decisions of the graders where practice differs, printed with every score."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class GraderName(StrEnum):
    STRICT = "strict"
    """Exact comparison under the policies below."""
    RSTAR_COMPAT = "rstar_compat"
    """The leniency of the paper's released grader."""


class Require(StrEnum):
    ANY = "any"
    """Last box, else the content of `<answer>`, else an 'Answer:' line."""
    ANSWER_BOX = "answer_box"
    """A box inside a closed `<answer>` block (paper section 2.1)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GradePolicy:
    """How answers of one benchmark or stage are graded."""

    require: Require = Require.ANY
    integer_only: bool = False
    """Golds are integers and only an integer literal can equal one: the AIME rule, which cannot inflate."""
    choice: bool = False
    """The answer is one of the letters A to D, stated explicitly."""
    opened: bool = False
    """The prompt opened the reasoning: a turn that never closes it gives no answer. For trajectories only."""
    truncated_is_wrong: bool = False
    """A response cut at the token limit earns nothing, whatever its content (paper section 2.2.1; RL)."""
    graders: tuple[GraderName, ...] = (GraderName.STRICT,)

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "graders": [grader.value for grader in self.graders]}


RL_POLICY = GradePolicy(require=Require.ANSWER_BOX, integer_only=True, opened=True, truncated_is_wrong=True)
"""Rewards of the three RL stages: integer answers only (paper section 4.2)."""

EVAL_GRADERS = (GraderName.STRICT, GraderName.RSTAR_COMPAT)
"""For samples files, which hold both verdicts and the list of disagreements."""

MAX_RESPONSE_CHARS = 4_000_000
MAX_ANSWER_CHARS = 10_000
"""Longer answers are compared as text only."""
CASE_LIMIT_S = 1.5
"""Longest wait for the symbolic worker; with everything else a case stays under 2 s."""

RULES: dict[str, str] = {
    "extraction": "outside reasoning, calls and quoted tool responses: last \\boxed or \\fbox; else <answer>; else an "
    "'Answer:' line; no bare number",
    "reasoning": "a first tag that closes ends reasoning that began in the prompt; an opening without a closing one "
    "hides the rest; in RL a turn that never closes the reasoning of its prompt gives no answer",
    "calls": "outside the reasoning; JSON from the opening tag on, so tags inside its strings mean nothing; one that "
    "cannot be read is the model's mistake, or text where the turn gives an answer",
    "several boxes": "the last one counts; the verdict's rule gives their number",
    "unclosed box": "read when the model ended its turn itself; not read when the response was cut at the limit",
    "empty box": "no answer",
    "empty gold": "unparsed, never correct",
    "percent": "n% equals n and n/100; without a percent sign on either side there is no factor 100",
    "units": "known units, signs of money and counted things are dropped; where both sides name a unit it must be the "
    "same (no conversion: 50 cents are not $50, nor $0.50)",
    "words": "hundred, thousand, million, dozen, 'and a half', percent and negative change the number; a word that is "
    "not known to change nothing makes it equal to the same words only, otherwise unparsed",
    "degrees": "the sign is a unit: dropped beside a bare number; degrees never equal radians",
    "bases": "a missing base is accepted when the digits agree (37 is not 45_8); two bases compare by value",
    "thousands": "5,678 is a number; '5, 678' is a list unless the gold is such a number",
    "fractions": "need not be reduced; 5 3/4 is a mixed number",
    "decimals": "a decimal equals an exact value if it has at least 6 significant digits and every digit is right "
    "(rounded or cut); two decimals compare exactly",
    "integers": "exact at any size; 87.0 equals 87",
    "lists": "roots in any order; {..} and a bare list are alike; repeated members count",
    "tuples": "ordered; a column or row vector may be written as a tuple; a tuple is not a list",
    "intervals": "end points and their closedness count; relations, unions and complements are read as sets",
    "variables": "names count; expressions are equal where both are real",
    "plus-minus": "means both values",
    "equations": "a name, f(x), f(3), P(X=1) or 'sum =' on the left is dropped; equations are equal up to a constant "
    "factor",
    "chains": "x = 5+1 = 6 is 6 if every link holds; a chain with an untrue link equals nothing",
    "integer rule": "one integer literal, perhaps behind a name or at the end of a chain that holds; never the last "
    "of several values",
    "matrices": "a number times a matrix is worked out; a determinant is a number, never its matrix",
    "no solution": "'no solution', 'none' and the empty set are one answer",
    "modulus": "a missing (mod n) is accepted; two different moduli are wrong",
    "digits": "full-width and other decimal digits are read",
    "text": "words only: case and punctuation do not count, (C) equals C; beside digits or signs every bracket and "
    "sign counts; what could not be read as mathematics is unparsed and never compared as words",
    "letters": "multiple choice: last 'Answer: X', else the last box or <answer>, else a closing sentence such as "
    "'option C is correct'; formatting does not count; a list, hedge, molecule or article is no letter",
    "votes": "cons@k: answers vote together where the grader calls them equal; ties share the credit; what was not "
    "read has no vote",
    "too heavy": "one budget of steps and CPU time for all work on an answer; beyond it an answer is equal only to the "
    "same text, otherwise verdict timeout; numbers may have any number of digits up to the longest answer",
}
"""The policies that move numbers (shown by `python -m verifier policies` and in every summary)."""
