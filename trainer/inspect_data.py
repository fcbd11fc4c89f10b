"""Rows as a person reads them: what is asked, what is sampled, what the loss sees; and the lengths of all rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from config.model import RolloutSection
from records.errors import ConfigError
from records.problem import Problem
from records.trajectory_files import read_parquet
from trainer.problems.own_problems import read_own_problems
from trainer.problems.problem_files import read_problems
from trainer.rollout.chat import chat_format
from trainer.rollout.tokenizer import FolderCodec
from trainer.sft.conversations import read_conversations, row_of_conversation
from trainer.sft.corpus import read_documents, row_of_document
from trainer.update.training_rows import Row

BINS = 20
"""Of the length histogram."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A run of tokens with one mask."""

    text: str
    is_trained: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One row."""

    title: str
    segments: tuple[Segment, ...]
    num_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Inspection:
    """The first rows of a file, and the lengths of all of them."""

    name: str
    rows: list[Shown]
    lengths: list[int]
    """Of every row, in `unit`."""
    unit: str
    """tokens, or characters where no tokenizer is given."""
    budget: int | None
    """Length over which a row would be cut or left out."""

    @property
    def truncated_frac(self) -> float | None:
        """Share of rows over the budget; None without one."""
        if self.budget is None:
            return None
        return sum(length > self.budget for length in self.lengths) / len(self.lengths)

    def histogram(self) -> list[tuple[int, int, int]]:
        """Bins of equal width: first length, last length, rows."""
        least, most = min(self.lengths), max(self.lengths)
        width = max(1, -(-(most - least + 1) // BINS))
        edges = range(least, most + 1, width)
        return [
            (edge, edge + width - 1, sum(edge <= length < edge + width for length in self.lengths))
            for edge in edges
        ]


def inspect(
    data: Path, checkpoint: Path | None, count: int, rollout: RolloutSection, budget: int | None
) -> Inspection:
    """Read a file of conversations, SFT documents, problems or trajectories.

    Raises:
        ConfigError: the file is none of these, is empty, or needs a tokenizer that is not given.
    """
    match _kind(data):
        case "problems":
            return _problems(data, checkpoint, count, rollout, budget)
        case "trajectories":
            codec = _codec(checkpoint)
            trajectories = read_parquet(data)
            rows = [
                (
                    f"{t.problem} sample {t.sample}, step {t.step}, stop {t.stop.value}, reward {t.reward}, p_err "
                    f"{t.p_err:.2f}, p_format {t.p_format:.2f}, kept {t.kept} ({t.reason})",
                    t.ids,
                    t.mask,
                )
                for t in trajectories
            ]
        case kind:
            codec = _codec(checkpoint)
            rows = [(title, row.ids, row.mask) for title, row in _training_rows(kind, data, codec, rollout)]
    _require_rows(data, rows)
    shown = [_shown(title, ids, mask, codec) for title, ids, mask in rows[:count]]
    lengths = [len(ids) for _, ids, _ in rows]
    return Inspection(name=data.name, rows=shown, lengths=lengths, unit="tokens", budget=budget)


def _kind(data: Path) -> str:
    """What a file holds, by its columns or its first line; readers name what is wrong with the rest."""
    if data.suffix == ".parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            names = set(pq.read_schema(data).names)
        except (OSError, pa.ArrowException) as error:
            raise ConfigError(f"{data}: cannot be read ({str(error).splitlines()[0][:120]})") from None
        if "messages" in names:
            return "conversations"
        return "problems" if "problem" in names and "ids" not in names else "trajectories"
    try:
        with data.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
    except OSError as error:
        raise ConfigError(
            f"{data}: cannot be read ({error.strerror}); give a JSONL or Parquet file"
        ) from None
    return "documents" if b'"turns"' in first else "problems"


def _training_rows(
    kind: str, data: Path, codec: FolderCodec, rollout: RolloutSection
) -> Iterator[tuple[str, Row]]:
    chat = chat_format(rollout)
    if kind == "conversations":
        for conversation in read_conversations(data):
            row = row_of_conversation(conversation, chat, codec)
            yield f"{conversation.id} of {conversation.source}, {conversation.num_calls} calls", row
        return
    for document in read_documents(data):
        title = f"{document.id} correct {document.correct}, computed {document.computed}"
        yield title, row_of_document(document, chat, codec)


def _problems(
    data: Path, checkpoint: Path | None, count: int, rollout: RolloutSection, budget: int | None
) -> Inspection:
    """Problems as prompts where a tokenizer is given, else as they are."""
    problems = read_any_problems(data)
    _require_rows(data, problems)
    titles = [f"{p.id} level {p.level} {p.family} = {p.answer}" for p in problems]
    if checkpoint is None:
        texts = [p.prompt for p in problems]
        shown = [
            Shown(title=title, segments=(Segment(text, False),), num_tokens=len(text))
            for title, text in zip(titles[:count], texts, strict=False)
        ]
        return Inspection(
            name=data.name, rows=shown, lengths=[len(t) for t in texts], unit="characters", budget=budget
        )
    codec, chat = FolderCodec.load(checkpoint), chat_format(rollout)
    ids = [codec.encode(chat.prompt(p.prompt)) for p in problems]
    shown = [
        _shown(title, each, [False] * len(each), codec)
        for title, each in zip(titles[:count], ids, strict=False)
    ]
    return Inspection(
        name=data.name, rows=shown, lengths=[len(each) for each in ids], unit="tokens", budget=budget
    )


def read_any_problems(data: Path) -> list[Problem]:
    """Problems of a run's data (id, prompt, answer) or of a user's own file (id, problem, answer)."""
    if data.suffix == ".parquet":
        return read_own_problems(data)
    try:
        with data.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
    except OSError:
        first = b""
    return read_own_problems(data) if b'"problem"' in first else read_problems(data)


def _require_rows(path: Path, rows: Sequence[object]) -> None:
    if not rows:
        raise ConfigError(
            f"{path}: is empty; give a file of conversations, documents, problems or trajectories"
        )


def _codec(checkpoint: Path | None) -> FolderCodec:
    if checkpoint is None:
        raise ConfigError("--checkpoint: name the folder whose tokenizer made, or will make, these ids")
    return FolderCodec.load(checkpoint)


def _shown(title: str, ids: Sequence[int], mask: Sequence[bool], codec: FolderCodec) -> Shown:
    """Runs of equal mask, each decoded as a whole."""
    segments, start = [], 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or mask[end] != mask[start]:
            segments.append(Segment(codec.decode(ids[start:end]), mask[start]))
            start = end
    trained = sum(mask)
    counted = f"{title}, {len(ids)} tokens, {trained} trained"
    return Shown(title=counted, segments=tuple(segments), num_tokens=len(ids))
