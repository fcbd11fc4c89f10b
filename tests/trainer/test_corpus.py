"""SFT documents: their training rows, and refused files."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from config.resolve import resolve
from records.errors import ConfigError
from records.problem import Problem
from records.tool_call import Limits, Status, ToolCall, ToolResult
from tests.trainer.fakes import (
    ANSWER,
    TOOL,
    CharCodec,
    ScriptedEngine,
    ScriptedTool,
    a_loop,
    call_text,
    script,
)
from trainer.engines.requests import Completion, GenerateRequest
from trainer.problems.splits import generate_splits
from trainer.rollout.chat import TURN_END, ChatFormat
from trainer.rollout.task import Task
from trainer.sft.corpus import Document, DocumentTurn, document_of, read_documents, row_of_document, texts
from trainer.sft.teacher import write_transcripts

CHAT = ChatFormat(system="brief", tool_name=TOOL)
DOCUMENT = Document(
    id="d",
    question="what is 2 + 2?",
    turns=(
        DocumentTurn(text=call_text().removesuffix(TURN_END), response="4"),
        DocumentTurn(text=ANSWER.removesuffix(TURN_END)),
    ),
)


def write(path: Path, *lines: str) -> Path:
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def test_a_document_gives_the_ids_and_mask_of_its_rollout() -> None:

    class Plain(ScriptedEngine):
        """Samples the ids of the encoder."""

        def _complete(self, request: GenerateRequest) -> Completion:
            completion = super()._complete(request)
            return replace(completion, ids=CharCodec().encode(CharCodec().decode(completion.ids)))

    loop = a_loop(Plain(script(call_text(), ANSWER)), ScriptedTool(stdout="4\n"))
    problem = Problem(id="p", prompt=DOCUMENT.question, answer="4")
    ((trajectory, _),) = loop.run([Task(problem=problem, sample=0)])
    row = row_of_document(DOCUMENT, CHAT, CharCodec())
    assert row.ids == trajectory.ids
    assert row.mask == trajectory.mask
    pieces = list(texts(DOCUMENT, CHAT))
    assert pieces[0] + call_text() + pieces[2] + ANSWER == CharCodec().decode(row.ids)


def test_the_teachers_calls_and_results_become_turns() -> None:
    """A fake sandbox answers 7 to every call; the document holds the tool response as the model would read it."""
    splits = generate_splits(
        seed=1, num_sft=12, num_train=4, num_dev=4, num_test=4, families=None, min_ring=1
    )

    def run_many(calls: list[ToolCall]) -> list[ToolResult]:
        return [ToolResult(id=call.id, status=Status.OK, stdout="7\n") for call in calls]

    rows = write_transcripts(
        splits.sft, noise=resolve().sft.noise, run_many=run_many, seed=1, tool_name=TOOL, limits=Limits(),
    )  # fmt: skip
    documents = [document_of(row, CHAT) for row in rows]
    assert len(documents) == 12
    called = [turn for document in documents for turn in document.turns if turn.response is not None]
    assert called
    assert {turn.response for turn in called} == {"7"}
    assert all(document.turns[-1].response is None for document in documents)


def test_documents_survive_blank_lines_and_odd_separators(tmp_path: Path) -> None:
    odd = Document(id="o", question="a\u2028b\u0085c", turns=(DocumentTurn(text="\u2029"),), correct=False)
    lines = [json.dumps(asdict(d), ensure_ascii=False) for d in (DOCUMENT, odd)]
    assert read_documents(write(tmp_path / "d.jsonl", lines[0], "", lines[1], "")) == [DOCUMENT, odd]


@pytest.mark.parametrize(
    "line",
    ["{", "[]", '{"id": "a"}', '{"id": "a", "question": "q", "turns": [{"txt": "x"}]}',
     '{"id": "a", "question": "q", "turns": [], "colour": 1}'],
)  # fmt: skip
def test_an_invalid_document_is_reported_with_its_line(line: str, tmp_path: Path) -> None:
    good = json.dumps(asdict(DOCUMENT))
    with pytest.raises(ConfigError, match=r"d\.jsonl, line 2: is not an SFT document"):
        read_documents(write(tmp_path / "d.jsonl", good, line))


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        read_documents(tmp_path / "absent.jsonl")
