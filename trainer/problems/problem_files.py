"""Files of problems: one JSON object per line, written in the given order and checked row by row when read."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path

from config.model import RuntimeSection
from records.digest import digest
from records.errors import ConfigError
from records.files import write_text
from records.manifest import verify
from records.problem import Problem


def write_problems(problems: Iterable[Problem], path: Path) -> None:
    """Write one JSON object per line, in the given order."""
    write_text(
        path, "".join(json.dumps(p.to_json(), ensure_ascii=False, sort_keys=True) + "\n" for p in problems)
    )


def read_problems(path: Path) -> list[Problem]:
    """Read problems, one JSON object per line. Raises ConfigError with file, line and fault."""
    lines = read_lines(path, "problems")
    problems = [_read_line(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]
    seen: set[str] = set()
    for problem in problems:
        if problem.id in seen:
            raise ConfigError(f"{path}: two problems are called {problem.id!r}; give each its own id")
        seen.add(problem.id)
    return problems


def read_lines(path: Path, what: str) -> list[str]:
    """Lines of a UTF-8 text file, without byte-order mark and carriage returns.

    Raises ConfigError, which states what the file should hold.
    """
    try:
        # Not splitlines: JSON strings may contain other line separators.
        return path.read_text(encoding="utf-8-sig").split("\n")
    except OSError as error:
        reason = error.strerror or "no reason given"
    except UnicodeDecodeError as error:
        reason = f"it is not UTF-8 text at byte {error.start}"
    raise ConfigError(f"{path}: cannot be read ({reason}); give a JSONL file of {what}")


def _read_line(path: Path, number: int, line: str) -> Problem:
    where = f"{path}, line {number}"
    try:
        record = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{where}: not JSON ({error}); repair or delete the line") from None
    needs = "every problem needs id, prompt and answer, each a string"
    if not isinstance(record, dict):
        raise ConfigError(f"{where}: has no id, for it is no JSON object; {needs}")
    for key in ("id", "prompt", "answer"):
        value = record.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ConfigError(f"{where}: has no {key}; {needs}")
        if not isinstance(value, str):
            raise ConfigError(
                f"{where}: {key} = {json.dumps(value)[:80]} is no string; put it in quotes: {needs}"
            )
    try:
        return Problem.from_json(record)
    except TypeError as error:
        raise ConfigError(f"{where}: {error}; allowed keys are those of records.problem.Problem") from None
    except ValueError as error:
        raise ConfigError(f"{where}: {error}; repair the line, or leave params empty") from None


def load_split(runtime: RuntimeSection, stem: str) -> list[Problem]:
    """Read one split of this run's data after a check of its digest."""
    folder = runtime.folder.data
    verify(folder)
    return read_problems(folder / f"{stem}.jsonl")


def pool_digest(problems: Iterable[Problem]) -> str:
    """Digest over canonical (id, prompt, answer) rows, sorted by id."""
    return digest(sorted([p.id, p.prompt, p.answer] for p in problems))
