"""IFEval's checks of instruction following: four numbers, repeatable, with the two impossible keys mended.

The checks themselves are the reference ones, from the package if-verifiable. Here: seeded language detection (unseeded,
the reference gives one text different languages), the offline place of the sentence tokenizer's data, the loop over
instructions, and what the reference cannot do.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifier.benchmarks.declaration import DataUnavailable
from verifier.extract import without_end_marks, without_thinking
from verifier.verdict import Verdict, VerdictKind

if TYPE_CHECKING:
    from trainer.types import Problem, Trajectory

INSTALL = "pip install if-verifiable==0.1.2"
TOKENIZER_DATA = (
    "the sentence tokenizer's data (punkt_tab) is missing: python -m nltk.downloader punkt_tab, or, without a network "
    "beyond the package index, pip install --no-deps llama-index-core==0.14.25, which carries it"
)
_NEEDS_TOKENIZER = frozenset({"length_constraints:number_sentences", "change_case:capital_word_frequency"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    """One checkable demand of a prompt."""

    id: str
    """Type, such as punctuation:no_comma."""
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Which instructions of one response were followed, in the order of the prompt."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    """Also tries the response without its first line, its last line, both, and without asterisks."""


def instructions_of(answer: str) -> list[Instruction]:
    """The instructions stored as a problem's answer."""
    return [Instruction(id=row["id"], kwargs=row["kwargs"]) for row in json.loads(answer)]


def check_response(prompt: str, instructions: Sequence[Instruction], response: str) -> Following:
    """Check a response; the thinking is cut off first, and an empty response follows nothing.

    Raises:
        DataUnavailable: the checks or their language data are not installed.
    """
    text = without_end_marks(without_thinking(response)).strip()
    variants = loose_variants(text)
    strict: list[bool] = []
    loose: list[bool] = []
    for instruction in instructions:
        passed = [_follows(instruction, prompt, variant) for variant in (text, *variants)]
        strict.append(passed[0])
        loose.append(any(passed))
    return Following(strict=tuple(strict), loose=tuple(loose))


def loose_variants(text: str) -> list[str]:
    r"""The seven rewrites of the loose rule.

    >>> loose_variants("a\n*b*\nc")[:3]
    ['*b*\nc', 'a\n*b*', '*b*']
    """
    lines = text.split("\n")
    cuts = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    return [*cuts, text.replace("*", ""), *(cut.replace("*", "") for cut in cuts)]


def grade_instructions(problem: Problem, trajectory: Trajectory) -> dict[str, Verdict]:
    """Verdicts `strict` and `loose`: correct when every instruction was followed.

    `extracted` holds one digit per instruction, so that the instruction-level numbers can be computed later.
    """
    from trainer.types import StopReason

    if trajectory.stop is StopReason.ABORTED:
        kind = VerdictKind.INFRA_FAILED
        return {
            name: Verdict(id=problem.id, verdict=kind, rule="aborted", grader=name)
            for name in ("strict", "loose")
        }
    text = trajectory.turns[-1].text if trajectory.turns else ""
    found = check_response(problem.prompt, instructions_of(problem.answer), text)
    return {
        name: Verdict(
            id=problem.id,
            verdict=VerdictKind.CORRECT if all(flags) else VerdictKind.WRONG,
            extracted="".join(str(int(flag)) for flag in flags),
            rule="instructions",
            grader=name,
        )
        for name, flags in (("strict", found.strict), ("loose", found.loose))
    }


def four_numbers(verdicts: Sequence[dict[str, Verdict]]) -> dict[str, float]:
    """Prompt and instruction accuracy, strict and loose; samples that our own failure ended are left out.

    >>> v = Verdict(id="a", verdict=VerdictKind.WRONG, extracted="10")
    >>> four_numbers([{"strict": v, "loose": v}])["instruction_strict"]
    0.5
    """
    numbers: dict[str, float] = {}
    for name in ("strict", "loose"):
        graded = [row[name] for row in verdicts if row[name].verdict is not VerdictKind.INFRA_FAILED]
        flags = "".join(verdict.extracted or "" for verdict in graded)
        right = sum(verdict.verdict is VerdictKind.CORRECT for verdict in graded)
        numbers[f"prompt_{name}"] = right / len(graded) if graded else 0.0
        numbers[f"instruction_{name}"] = flags.count("1") / len(flags) if flags else 0.0
    return numbers


def _follows(instruction: Instruction, prompt: str, text: str) -> bool:
    if not text.strip():
        return False
    symbol = str(instruction.kwargs.get("letter") or "")
    if instruction.id == "keywords:letter_frequency" and symbol and not symbol.isalpha():
        return _symbol_frequency(symbol, instruction.kwargs, text)
    kinds = _checks()
    if instruction.id not in kinds:
        raise ValueError(f"unknown instruction {instruction.id!r}")
    if instruction.id in _NEEDS_TOKENIZER:
        _require_tokenizer()
    random.seed(0)  # the reference draws at random what a row leaves open
    check = kinds[instruction.id](instruction.id)
    check.build_description(
        **{name: value for name, value in instruction.kwargs.items() if value is not None}
    )
    args = check.get_instruction_args()
    if args and "prompt" in args:
        check.build_description(prompt=prompt)
    return bool(check.check_following(text))


def _symbol_frequency(symbol: str, kwargs: dict[str, Any], text: str) -> bool:
    """The reference counts letters only and draws another letter at random for a symbol; here the symbol is counted."""
    count, wanted = text.count(symbol), int(kwargs["let_frequency"])
    return count < wanted if kwargs["let_relation"] == "less than" else count >= wanted


def require_checks() -> None:
    """Raises DataUnavailable unless the checks and their language data are here."""
    _checks()
    _require_tokenizer()


@functools.cache
def _checks() -> dict[str, Any]:
    if importlib.util.find_spec("if_verifiable") is None:
        raise DataUnavailable(f"ifeval: not evaluated: the reference checks are missing: {INSTALL}")
    import langdetect
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

    langdetect.DetectorFactory.seed = 0
    return dict(INSTRUCTION_DICT)


@functools.cache
def _require_tokenizer() -> None:
    import nltk

    spec = importlib.util.find_spec("llama_index")
    for place in (spec.submodule_search_locations or []) if spec else []:
        carried = Path(place) / "core" / "_static" / "nltk_cache"
        if carried.is_dir() and str(carried) not in nltk.data.path:
            nltk.data.path.append(str(carried))
    try:
        nltk.data.find("tokenizers/punkt_tab/english/")
    except LookupError:
        raise DataUnavailable(f"ifeval: {TOKENIZER_DATA}") from None
