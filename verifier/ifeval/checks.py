"""`check_response` and `four_numbers`: IFEval's checks of instructions, repeatable, with two impossible keys corrected.

The package if-verifiable holds the reference checks. This module adds seeded language detection (unseeded, the
reference gives one text different languages), the offline place of the sentence tokenizer's data, the loop over
instructions, and checks that the reference cannot do.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import logging
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from records.problem_params import Instruction, Instructions
from records.verdict import Verdict, VerdictKind
from verifier.answers.extract import without_end_marks
from verifier.declaration import DataUnavailable
from verifier.graders.policy import MAX_RESPONSE_CHARS
from verifier.graders.workers import ENGINE_DIED, INSTRUCTIONS, Reply, shared_pool
from verifier.turn import without_reasoning

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout

INSTALL = "pip install if-verifiable==0.1.2"
TOKENIZER_DATA = (
    "the sentence tokenizer's data (punkt_tab) is missing: python -m nltk.downloader punkt_tab, or, without a network "
    "beyond the package index, pip install --no-deps llama-index-core==0.14.25, which carries it"
)
QUICK_CHARS = 2_000
"""A response up to this length costs the reference checks at most tenths of a second; a longer one goes to a worker."""
_NEEDS_TOKENIZER = frozenset({"length_constraints:number_sentences", "change_case:capital_word_frequency"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Following:
    """Instructions that one response followed, in the order of the prompt."""

    strict: tuple[bool, ...]
    loose: tuple[bool, ...]
    """Also accepts the response without its first line, its last line, both, and without asterisks."""


def check_response(prompt: str, instructions: Sequence[Instruction], response: str) -> Following:
    """Check a response without its reasoning; an empty response follows no instruction.

    Raises:
        DataUnavailable: the checks or their language data are not installed.
    """
    text = _visible(response)
    strict: list[bool] = []
    loose: list[bool] = []
    for instruction in instructions:
        strict.append(_follows(instruction, prompt, text))
        others = (variant for variant in dict.fromkeys(loose_variants(text)) if variant != text)
        loose.append(strict[-1] or any(_follows(instruction, prompt, variant) for variant in others))
    return Following(strict=tuple(strict), loose=tuple(loose))


def flags_of(followed: Sequence[bool]) -> str:
    """Return one digit per instruction.

    >>> flags_of((True, False))
    '10'
    """
    return "".join(str(int(flag)) for flag in followed)


def _visible(response: str) -> str:
    return without_end_marks(without_reasoning(response)).strip()


def loose_variants(text: str) -> list[str]:
    r"""Return the seven rewrites of the loose rule.

    >>> loose_variants("a\n*b*\nc")[:3]
    ['*b*\nc', 'a\n*b*', '*b*']
    """
    lines = text.split("\n")
    cuts = ["\n".join(part).strip() for part in (lines[1:], lines[:-1], lines[1:-1])]
    return [*cuts, text.replace("*", ""), *(cut.replace("*", "") for cut in cuts)]


def grade_instructions(problem: Problem, rollout: Rollout) -> dict[str, Verdict]:
    """Return the verdicts `strict` and `loose`: correct when the response follows every instruction.

    `extracted` holds one digit per instruction, from which the instruction-level numbers follow. A response that
    exceeds the limit of the reference checks is a timeout; one that is nested too deep for them is unparsed.
    """
    if not rollout.stop.is_models:
        return _both(problem.id, VerdictKind.INFRA_FAILED, "aborted")
    if not isinstance(problem.params, Instructions):
        raise ValueError(f"{problem.id} is no prompt of IFEval")
    text = rollout.turns[-1].text if rollout.turns else ""
    return grade_response(problem.prompt, problem.params.items, text, id=problem.id)


def grade_response(
    prompt: str, instructions: Sequence[Instruction], response: str, *, id: str = ""
) -> dict[str, Verdict]:
    """Return the verdicts of one response within the time of one answer; see `grade_instructions`.

    Raises:
        DataUnavailable: the checks or their language data are not installed.
        ValueError: no instructions, or an unknown one: the data are wrong, not the response.
    """
    if not instructions:
        raise ValueError(f"{id}: the prompt has no instructions")
    _require_for(instructions)
    none = "0" * len(instructions)
    if len(response) > MAX_RESPONSE_CHARS:
        rule = f"response longer than {MAX_RESPONSE_CHARS} characters"
        return _both(id, VerdictKind.UNPARSED, rule, none)
    text = _visible(response)
    reply = _checked_here(prompt, instructions, text)
    if reply is None:
        asked = {"prompt": prompt, "instructions": [asdict(instruction) for instruction in instructions]}
        reply = shared_pool(INSTRUCTIONS).ask("follow", json.dumps(asked), text)
    if reply.timed_out or reply.error.startswith(("TimeoutError", ENGINE_DIED)):
        return _both(id, VerdictKind.TIMEOUT, "the reference checks passed their limit", none)
    if reply.error.startswith("RecursionError"):
        return _both(id, VerdictKind.UNPARSED, "nested too deep for the reference checks", none)
    if not isinstance(reply.value, str):  # a fault of the checks themselves is visible and does not score
        return _both(id, VerdictKind.INFRA_FAILED, f"reference checks: {reply.failed or reply.error}"[:200])
    return {
        name: Verdict(
            id=id,
            verdict=VerdictKind.CORRECT if set(flags) == {"1"} else VerdictKind.WRONG,
            extracted=flags,
            rule="instructions",
            grader=name,
        )
        for name, flags in zip(("strict", "loose"), reply.value.split("/"), strict=True)
    }


def _checked_here(prompt: str, instructions: Sequence[Instruction], text: str) -> Reply | None:
    """Check a short text in this process, which always takes little time; None for a longer one."""
    if len(text) > QUICK_CHARS:
        return None
    try:
        found = check_response(prompt, instructions, text)
    except Exception as error:  # reported as a worker reports it
        return Reply(error=f"{type(error).__name__}: {error}"[:200])
    return Reply(value=f"{flags_of(found.strict)}/{flags_of(found.loose)}")


def _both(id: str, kind: VerdictKind, rule: str, extracted: str | None = None) -> dict[str, Verdict]:
    return {
        name: Verdict(id=id, verdict=kind, rule=rule, extracted=extracted, grader=name)
        for name in ("strict", "loose")
    }


def followed(verdicts: Iterable[Verdict]) -> list[bool]:
    """Return for each instruction of graded responses whether it was followed; lost responses are left out.

    >>> followed([Verdict(id="a", verdict=VerdictKind.WRONG, extracted="10")])
    [True, False]
    """
    judged = (one for one in verdicts if one.verdict is not VerdictKind.INFRA_FAILED)
    return [digit == "1" for one in judged for digit in one.extracted or ""]


def four_numbers(verdicts: Sequence[Mapping[str, Verdict]]) -> dict[str, float | None]:
    """Return prompt and instruction accuracy, strict and loose; None where no sample could be graded.

    Lost samples are left out.

    >>> v = Verdict(id="a", verdict=VerdictKind.WRONG, extracted="10")
    >>> four_numbers([{"strict": v, "loose": v}])["instruction_strict"]
    0.5
    """
    numbers: dict[str, float | None] = {}
    for name in ("strict", "loose"):
        graded = [row[name] for row in verdicts if row[name].verdict is not VerdictKind.INFRA_FAILED]
        flags = followed(graded)
        right = sum(verdict.verdict is VerdictKind.CORRECT for verdict in graded)
        numbers[f"prompt_{name}"] = right / len(graded) if graded else None
        numbers[f"instruction_{name}"] = sum(flags) / len(flags) if flags else None
    return numbers


def _follows(instruction: Instruction, prompt: str, text: str) -> bool:
    if not text.strip():
        return False
    symbol = str(instruction.kwargs.get("letter") or "")
    if instruction.id == "keywords:letter_frequency" and symbol and not symbol.isalpha():
        return _symbol_frequency(symbol, instruction.kwargs, text)
    _require_for([instruction])
    kinds = _checks()
    random.seed(0)  # the reference draws parameters that a row leaves open
    check = kinds[instruction.id](instruction.id)
    check.build_description(
        **{name: value for name, value in instruction.kwargs.items() if value is not None}
    )
    args = check.get_instruction_args()
    if args and "prompt" in args:
        check.build_description(prompt=prompt)
    return bool(check.check_following(text))


def _symbol_frequency(symbol: str, kwargs: Mapping[str, Any], text: str) -> bool:
    """Count the symbol itself: the reference counts letters only, and draws a random letter for a symbol."""
    count, required = text.count(symbol), int(kwargs["let_frequency"])
    return count < required if kwargs["let_relation"] == "less than" else count >= required


def _require_for(instructions: Sequence[Instruction]) -> None:
    """Raise DataUnavailable if a requirement of the checks is missing, ValueError for an unknown instruction."""
    for instruction in instructions:
        if instruction.id not in _checks():
            raise ValueError(f"unknown instruction {instruction.id!r}")
        if instruction.id in _NEEDS_TOKENIZER:
            _require_tokenizer()


def require_checks() -> None:
    """Raise DataUnavailable unless the checks and their language data are installed."""
    _checks()
    _require_tokenizer()


@functools.cache
def _checks() -> dict[str, Any]:
    if importlib.util.find_spec("if_verifiable") is None:
        raise DataUnavailable(f"ifeval: not evaluated: the reference checks are missing: {INSTALL}")
    import langdetect
    from if_verifiable.ifeval.instructions_registry import INSTRUCTION_DICT

    langdetect.DetectorFactory.seed = 0
    logging.getLogger().addFilter(_hides_responses)
    return dict(INSTRUCTION_DICT)


def _hides_responses(record: logging.LogRecord) -> bool:
    """Filter a log record of the reference that holds a whole response, whose language it could not detect."""
    return not str(record.msg).startswith("Unable to detect language")


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
