"""`Benchmark`: the declaration of rows, prompt, sampling, grading and checks of one benchmark."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from verifier.graders.policy import EVAL_GRADERS, GradePolicy

if TYPE_CHECKING:
    from records.problem import Problem
    from records.trajectory import Rollout
    from records.verdict import Verdict

EVAL_POLICY = GradePolicy(graders=EVAL_GRADERS)
INTEGER_POLICY = GradePolicy(integer_only=True, graders=EVAL_GRADERS)


class DataUnavailable(RuntimeError):
    """The rows of a benchmark are not available; the message names the way to get them."""


class WrongData(ValueError):
    """The rows found are not the benchmark: a bad row, a duplicate id, or an unlisted digest."""


class PromptKind(StrEnum):
    AGENTIC = "agentic"
    """The paper's tool-use prompt; answer in a box inside `<answer>`."""
    CHOICE = "choice"
    """Agentic, with lettered options; the answer is a letter."""
    NATIVE = "native"
    """The model's own chat template, without the suite's tool."""
    FUNCTIONS = "functions"
    """The functions of the row are the tools."""
    LISTED = "listed"
    """A system prompt lists the functions of the row; calls are a Python list."""

    @property
    def is_agentic(self) -> bool:
        """Return whether the suite asks in its own conversation, with its tool."""
        return self in (PromptKind.AGENTIC, PromptKind.CHOICE)


class Scoring(StrEnum):
    ANSWER = "answer"
    """`verifier.graders.grade`."""
    INSTRUCTIONS = "instructions"
    """IFEval's checks."""
    FUNCTION_CALLS = "function_calls"
    """BFCL's checks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Settings of published evaluations (profile `paper`)."""

    num_samples: int
    temperature: float
    top_p: float = 1.0
    max_tokens: int
    max_turns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class HubSource:
    """Rows on the Hugging Face hub."""

    id: str
    revision: str
    """A commit identifies its rows; rows of a branch can change and require an accepted digest."""
    split: str
    configs: tuple[str | None, ...] = (None,)

    @property
    def is_commit(self) -> bool:
        """Return whether the revision is a commit, not a branch."""
        return re.fullmatch("[0-9a-f]{40}", self.revision) is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownIssue:
    """A published or measured defect of rows; scores are reported with and without them."""

    problems: tuple[str, ...]
    """Row ids; empty when the defect concerns the whole set."""
    what: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One benchmark. `load` returns its problems in a fixed order, or raises DataUnavailable or WrongData."""

    name: str
    title: str
    num_questions: int
    version: str
    """Edition of the data; numbers of two versions do not share a column."""
    file: str
    """Name in the data folder."""
    how_to_get: str
    read: Callable[[Mapping[str, Any], int], Problem]
    """Converts one raw row (file or hub) and its position into a problem."""
    hub: HubSource | None = None
    prompt: PromptKind = PromptKind.AGENTIC
    scoring: Scoring = Scoring.ANSWER
    policy: GradePolicy = EVAL_POLICY
    sampling: Sampling = field(
        default_factory=lambda: Sampling(num_samples=16, temperature=0.6, max_tokens=30_720, max_turns=30)
    )
    metric: str = "avg@16"
    digests: tuple[str, ...] = ()
    """Accepted digests of the canonical rows; empty accepts anything (the caller's own data)."""
    known_issues: tuple[KnownIssue, ...] = ()
    open_file: Callable[[Path], Iterable[Mapping[str, Any]]] | None = None
    """Reads the file if it is not JSONL."""

    grade_with: Callable[[Problem, Rollout], dict[str, Verdict]] | None = None
    """A special grader; None means `verifier.graders.grade` under `policy`. `strict` is the headline verdict."""

    def grade(self, problem: Problem, rollout: Rollout) -> dict[str, Verdict]:
        """Return the verdicts of one sample, by name of grader."""
        if self.grade_with is not None:
            return self.grade_with(problem, rollout)
        from verifier.graders.grade import grade

        return {str(name): verdict for name, verdict in grade(problem, rollout, self.policy).items()}

    def load(self, data: Path | None = None) -> list[Problem]:
        """Return the problems from the data folder, else from the hub.

        Raises:
            DataUnavailable: neither source is available, or a branch of the hub now has other rows.
            WrongData: a row cannot be read, ids repeat, or the digest is not an accepted one.
        """
        path = data / self.file if data is not None else None
        if path is not None and path.exists():
            rows, place = list((self.open_file or jsonl_rows)(path)), str(path)
        else:
            rows, place = list(_hub_rows(self)), f"hub {self.hub.id}" if self.hub else ""
        problems = []
        for index, row in enumerate(rows):
            try:
                problems.append(self.read(row, index))
            except (KeyError, TypeError, ValueError) as error:
                raise WrongData(
                    f"{self.name}: row {index + 1} of {place} cannot be read: {error!r}"
                ) from None
        if self.hub is None or (path is not None and path.exists()):
            check(self, problems, place)
            return problems
        try:
            check(self, problems, place, pinned=self.hub.is_commit)
        except WrongData as error:  # no user input is wrong: the hub's rows are not the declared ones
            raise DataUnavailable(f"{self.name}: not evaluated: {error}") from None
        return problems


def check(benchmark: Benchmark, problems: list[Problem], place: str, *, pinned: bool = False) -> None:
    """Refuse duplicate ids, empty golds and unknown data. A commit of the hub (`pinned`) identifies its rows."""
    if not problems:
        raise WrongData(f"{benchmark.name}: {place} holds no problems. {benchmark.how_to_get}")
    seen: set[str] = set()
    for problem in problems:
        if problem.id in seen:
            raise WrongData(f"{benchmark.name}: id {problem.id!r} occurs twice in {place}")
        seen.add(problem.id)
        if not problem.answer.strip() and benchmark.scoring is Scoring.ANSWER:
            raise WrongData(f"{benchmark.name}: problem {problem.id!r} in {place} has no answer")
    found = digest(problems)
    if not pinned and benchmark.digests and found not in benchmark.digests:
        raise WrongData(
            f"{benchmark.name}: {place} has digest {found[:16]} with {len(problems)} rows; accepted: "
            f"{', '.join(known[:16] for known in benchmark.digests)}. {benchmark.how_to_get}"
        )


def digest(problems: Iterable[Problem]) -> str:
    """Return the SHA-256 of the canonical (id, problem, answer) rows, in order of id, with white space folded.

    >>> from records.problem import Problem
    >>> digest([Problem(id="a", prompt="1  + 1", answer="2")]) == digest([Problem(id="a", prompt="1 + 1", answer="2")])
    True
    """
    total = hashlib.sha256()
    for problem in sorted(problems, key=lambda problem: problem.id):
        row = [problem.id, " ".join(problem.prompt.split()), problem.answer.strip()]
        total.update(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return total.hexdigest()


def jsonl_rows(path: Path) -> Iterable[Mapping[str, Any]]:
    """Yield the rows of a JSONL file; an error names the broken line."""
    try:
        # JSON strings may hold other line separators, at which splitlines would split.
        lines = path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        raise WrongData(f"{path}: cannot be read ({error.strerror}); give a JSONL file") from None
    except UnicodeDecodeError as error:
        raise WrongData(f"{path}: is not UTF-8 text at byte {error.start}; give a JSONL file") from None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise WrongData(f"{path}, line {number}: not JSON: {error}") from None
        if not isinstance(row, dict):
            raise WrongData(f"{path}, line {number}: not a JSON object")
        yield row


def _hub_rows(benchmark: Benchmark) -> Iterable[Mapping[str, Any]]:
    advice = f"{benchmark.name}: not evaluated: {benchmark.how_to_get}"
    if benchmark.hub is None:
        raise DataUnavailable(advice)
    source = benchmark.hub
    if not hub_answers():
        raise DataUnavailable(f"{advice} (hub {source.id}: no answer)")
    try:
        from datasets import load_dataset

        for config in source.configs:
            yield from load_dataset(source.id, config, split=source.split, revision=source.revision)  # pyright: ignore
    except Exception as error:  # the hub client raises many kinds; all mean that the hub is not available
        reason = str(error).splitlines()[0][:120] if str(error) else type(error).__name__
        raise DataUnavailable(f"{advice} (hub {source.id}: {reason})") from None


@functools.cache
def hub_answers() -> bool:
    """Query the hub once per process, briefly: the loading library asks six times, 23 seconds per benchmark."""
    from huggingface_hub import constants
    from huggingface_hub.utils import get_session

    if constants.HF_HUB_OFFLINE:
        return False
    try:
        get_session().head(constants.ENDPOINT, timeout=10, follow_redirects=True)
    except Exception:
        return False
    return True
