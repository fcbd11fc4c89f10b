"""`build_corpus`: writes SFT documents, which hold questions, the teacher's turns and real tool results as text.

One JSON object per line: id, question, turns [{text, response}], flags. `response` is the tool response as the model
reads it, null after the last turn. Users can supply documents in the same format.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from config.commands import CorpusView
from config.model import RuntimeSection
from records.errors import ConfigError
from records.files import write_text
from records.manifest import Manifest, verify, write_folder
from trainer.problems.family import ProblemError
from trainer.problems.problem_files import load_split, read_lines
from trainer.rollout.chat import TURN_END, ChatFormat, Codec, chat_format, parse_turn, response_text
from trainer.rollout.chat_text import turn_text
from trainer.rollout.tool import limits_of, open_tool
from trainer.sft.teacher import TeacherRow, write_transcripts
from trainer.update.training_rows import Row

DOCUMENTS = "documents.jsonl"


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentTurn:
    text: str
    """Continues the pre-filled `<reason>`; without the end-of-turn token."""
    response: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    id: str
    question: str
    turns: tuple[DocumentTurn, ...]
    correct: bool = True
    """True if the shown answer is the gold answer."""
    computed: bool = True
    """True if the document's own tool call printed the shown answer; False: it is a guess."""

    @classmethod
    def from_json(cls, record: dict[str, Any]) -> Document:
        return cls(**{**record, "turns": tuple(DocumentTurn(**turn) for turn in record["turns"])})


def build_corpus(view: CorpusView, runtime: RuntimeSection) -> Manifest:
    """Run the teacher on the sft split with the real sandbox and publish the documents."""
    began = time.monotonic()
    problems = load_split(runtime, "sft")
    chat = chat_format(view.rollout)
    try:
        with open_tool(view.sandbox, runtime) as tool:
            rows = write_transcripts(
                problems,
                noise=view.noise,
                run_many=tool.run_many,
                seed=view.data.seed,
                tool_name=chat.tool_name,
                limits=limits_of(view.sandbox),
            )
    except ProblemError as error:
        raise ConfigError(f"sft.noise: {error}") from None
    documents = [document_of(row, chat) for row in rows]
    return _publish(documents, rows, view, runtime, began)


def document_of(row: TeacherRow, chat: ChatFormat) -> Document:
    """Convert a transcript to text, with each result as the model would read it."""
    turns = []
    for turn in row.turns:
        response = None
        if turn.call is not None:
            response = response_text(parse_turn(turn.text, chat.tool_name), turn.result, chat.response_chars)
        turns.append(DocumentTurn(text=turn.text, response=response))
    return Document(
        id=row.problem.id,
        question=row.problem.prompt,
        turns=tuple(turns),
        correct=row.correct,
        computed=row.computed,
    )


def _publish(
    documents: Sequence[Document],
    rows: Sequence[TeacherRow],
    view: CorpusView,
    runtime: RuntimeSection,
    began: float,
) -> Manifest:
    folder = runtime.folder.corpus
    made = folder.with_name(".corpus.tmp")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    lines = (json.dumps(asdict(document), sort_keys=True, ensure_ascii=False) for document in documents)
    write_text(made / DOCUMENTS, "".join(f"{line}\n" for line in lines))
    count = len(rows)
    facts = {
        "num_documents": count,
        "num_calls": sum(row.num_calls for row in rows),
        "num_failed_calls": sum(row.num_errors for row in rows),
        "correct_frac": sum(row.correct for row in rows) / count,
        "no_tool_frac": sum(row.num_calls == 0 for row in rows) / count,
        "several_answers_frac": sum(row.num_answers > 1 for row in rows) / count,
        "num_leaks": sum(row.leaks_answer for row in rows),
    }
    return write_folder(
        folder,
        made,
        {
            "stage": "corpus",
            "parent": None,
            "data": verify(runtime.folder.data).digest,
            "sections": view.record,
            "facts": facts,
        },
        {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
    )


def read_documents(path: Path) -> list[Document]:
    """Read documents. Raises ConfigError naming file and line."""
    lines = read_lines(path, "SFT documents")
    documents = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            documents.append(Document.from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ConfigError(
                f"{path}, line {number}: is not an SFT document ({error}); see trainer.sft.corpus"
            ) from None
    return documents


def texts(document: Document, chat: ChatFormat) -> Iterator[str]:
    """The pieces of a document that train the tokenizer, in order."""
    yield chat.prompt(document.question)
    for turn in document.turns:
        yield turn.text
        if turn.response is not None:
            yield chat.tool_response(turn.response)


def row_of_document(document: Document, chat: ChatFormat, codec: Codec) -> Row:
    """Ids with a mask that is true on assistant tokens. Each piece is encoded separately, as in a rollout."""
    ids = codec.encode(chat.prompt(document.question))
    mask = [False] * len(ids)
    for turn in document.turns:
        sampled = codec.encode(turn_text(turn.text) + TURN_END)
        ids, mask = ids + sampled, mask + [True] * len(sampled)
        if turn.response is not None:
            shown = codec.encode(chat.tool_response(turn.response))
            ids, mask = ids + shown, mask + [False] * len(shown)
    return Row(ids=ids, mask=mask, logprob=[0.0] * len(ids), advantage=1.0, group=document.id)
