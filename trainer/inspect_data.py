"""`show`: prints problems, SFT documents or trajectories, with the tokens that the loss sees."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from config.model import RolloutSection
from records.errors import ConfigError
from records.trajectory import Trajectory
from records.trajectory_files import read_parquet
from trainer.problems.problem_files import read_problems
from trainer.rollout.chat import chat_format
from trainer.rollout.tokenizer import FolderCodec
from trainer.sft.corpus import Document, read_documents, row_of_document

T = TypeVar("T")


def show(data: Path, checkpoint: Path | None, count: int, rollout: RolloutSection) -> None:
    """Print the first rows of a file of documents, problems or trajectories; trained tokens are bold green."""
    console = Console(highlight=False)
    if data.suffix == ".parquet":
        trajectories = _some(data, read_parquet(data), "trajectories")
        codec = _codec(checkpoint)
        for trajectory in trajectories[:count]:
            _trajectory(console, trajectory, codec)
    elif _holds_documents(data):
        documents = _some(data, read_documents(data), "SFT documents")
        codec = _codec(checkpoint)
        for document in documents[:count]:
            _document(console, document, codec, rollout)
    else:
        for problem in _some(data, read_problems(data), "problems")[:count]:
            console.print(
                f"[bold]{escape(problem.id)}[/bold] level {problem.level} {escape(problem.family)} = "
                f"{escape(problem.answer)}"
            )
            console.print(Text(problem.prompt))


def _some(path: Path, rows: list[T], what: str) -> list[T]:
    if not rows:
        raise ConfigError(f"{path}: is empty; give a file of {what}")
    return rows


def _codec(checkpoint: Path | None) -> FolderCodec:
    if checkpoint is None:
        raise ConfigError("--checkpoint: name the folder whose tokenizer made, or will make, these ids")
    return FolderCodec.load(checkpoint)


def _holds_documents(path: Path) -> bool:
    """Whether the first line that is not blank is an SFT document; the readers report faults of the file."""
    try:
        with path.open("rb") as file:
            first = next((line for line in file if line.strip()), b"")
    except OSError as error:
        raise ConfigError(
            f"{path}: cannot be read ({error.strerror}); give a JSONL or Parquet file"
        ) from None
    return b'"turns"' in first


def _document(console: Console, document: Document, codec: FolderCodec, rollout: RolloutSection) -> None:
    row = row_of_document(document, chat_format(rollout), codec)
    flags = f"correct {document.correct}, computed {document.computed}"
    console.print(
        f"[bold]{escape(document.id)}[/bold] {len(row.ids)} tokens, {sum(row.mask)} trained, {flags}"
    )
    console.print(_masked(row.ids, row.mask, codec))


def _trajectory(console: Console, trajectory: Trajectory, codec: FolderCodec) -> None:
    console.print(
        f"[bold]{escape(trajectory.problem)}[/bold] sample {trajectory.sample}, step {trajectory.step}, stop "
        f"{trajectory.stop.value}, reward {trajectory.reward}, p_err {trajectory.p_err:.2f}, p_format "
        f"{trajectory.p_format:.2f}, kept {trajectory.kept} ({escape(trajectory.reason)})"
    )
    console.print(_masked(trajectory.ids, trajectory.mask, codec))


def _masked(ids: Sequence[int], mask: Sequence[bool], codec: FolderCodec) -> Text:
    """Decode runs of equal mask together; guillemets mark what the loss sees."""
    text = Text()
    start = 0
    for end in range(1, len(ids) + 1):
        if end == len(ids) or mask[end] != mask[start]:
            piece = codec.decode(ids[start:end])
            text.append(
                f"\u00ab{piece}\u00bb" if mask[start] else piece, style="bold green" if mask[start] else "dim"
            )
            start = end
    return text
