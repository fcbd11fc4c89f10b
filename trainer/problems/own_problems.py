"""Problems of a user's own: JSONL or Parquet with id, problem, answer, and optionally source and difficulty.

Every row is checked before the first is used. A problem's text is text: what spells a control token is encoded as
characters (`trainer.rollout.chat_text`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from records.errors import ConfigError
from records.problem import Problem
from trainer.problems.problem_files import read_lines

REQUIRED = ("id", "problem", "answer")
OPTIONAL = ("source", "difficulty")
_NEEDS = "every problem needs id, problem and answer, each a string; source and difficulty are optional"


def read_own_problems(path: Path) -> list[Problem]:
    """The problems of a file, in order.

    Raises:
        ConfigError: in one line, naming file, row and key: unreadable, a missing, empty or unknown key, an id twice,
            one problem with two answers, or no problem at all.
    """
    problems: list[Problem] = []
    ids: dict[str, str] = {}
    texts: dict[str, tuple[str, str]] = {}
    for where, row in _rows(path):
        problem = _problem(where, row)
        if problem.id in ids:
            raise ConfigError(f"{where}: id {problem.id!r} is that of {ids[problem.id]}; give each its own")
        ids[problem.id] = where
        text = " ".join(problem.prompt.split())
        place, answer = texts.setdefault(text, (where, problem.answer))
        if answer != problem.answer:
            raise ConfigError(
                f"{where}: the problem of {place} with another answer, {problem.answer!r} and not {answer!r}; keep one"
            )
        problems.append(problem)
    if not problems:
        raise ConfigError(f"{path}: holds no problems; {_NEEDS}")
    return problems


def _rows(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Rows with the place of each."""
    if path.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            table = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(f"{path}: cannot be read ({str(error).splitlines()[0][:120]})") from None
        for number, row in enumerate(table.to_pylist(), 1):
            yield f"{path}, row {number}", {key: value for key, value in row.items() if value is not None}
        return
    for number, line in enumerate(read_lines(path, "problems"), 1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{where}: not JSON ({error}); repair or delete the line") from None
        if not isinstance(row, dict):
            raise ConfigError(f"{where}: is no JSON object; {_NEEDS}")
        yield where, row


def _problem(where: str, row: Mapping[str, Any]) -> Problem:
    for key in REQUIRED:
        value = row.get(key)
        if value is None or (isinstance(value, str) and not value.strip()):
            raise ConfigError(f"{where}: has no {key}; {_NEEDS}")
        if not isinstance(value, str):
            raise ConfigError(
                f"{where}: {key} = {json.dumps(value, default=str)[:80]} is no string; {_NEEDS}"
            )
    unknown = sorted(set(row) - {*REQUIRED, *OPTIONAL})
    if unknown:
        raise ConfigError(
            f"{where}: unknown key {unknown[0]!r}; allowed are {', '.join((*REQUIRED, *OPTIONAL))}"
        )
    difficulty = str(row.get("difficulty", "")).strip()
    return Problem(
        id=row["id"],
        prompt=row["problem"],
        answer=row["answer"],
        family=str(row.get("source", "")),
        level=int(difficulty) if difficulty.isascii() and difficulty.isdigit() else 0,
    )
