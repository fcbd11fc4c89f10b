"""Every command that reads a file reports a bad one in one line, with status 2."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from config.__main__ import app as config_app
from evaluation.cli import app as evaluation_app
from sandbox.cli import app as sandbox_app
from tests.trainer.tiny_checkpoint import make_checkpoint
from trainer.cli import app as trainer_app
from verifier.__main__ import app as verifier_app

APPS: dict[str, typer.Typer] = {
    "config": config_app,
    "trainer": trainer_app,
    "verifier": verifier_app,
    "evaluation": evaluation_app,
    "sandbox": sandbox_app,
}

# BAD is the bad input, GOOD a whole checkpoint, OUT a new path, FILE a small JSONL file that no command accepts.
FILES = [
    "config show --config BAD",
    "trainer rl --stage rl1 --runtime BAD",
    "trainer score --checkpoint GOOD --samples BAD --out OUT",
    "trainer inspect BAD",
    "trainer inspect BAD --checkpoint GOOD",
    "verifier grade --cases BAD",
    "evaluation decontaminate --benchmark aime24 --train BAD",
    "evaluation import --harness lm_eval --benchmark aime24 --out OUT BAD",
    "evaluation import --harness lighteval --benchmark aime24 --out OUT BAD",
    "evaluation import --harness verl --benchmark aime24 --out OUT BAD",
    "evaluation regrade BAD",
    "evaluation regrade FILE --golds BAD",
    "sandbox cases BAD",
]
READ_ALIKE = [
    "trainer prepare --config BAD",
    "trainer corpus --runtime BAD",
    "trainer base --runtime BAD",
    "trainer sft --runtime BAD",
    "trainer filter-hard --runtime BAD",
    "evaluation origin --name sft_seed_1 --config BAD",
    "evaluation arm --name grpo_g --config BAD",
    "evaluation arm-of-main --runtime BAD",
    "trainer chat --question x --checkpoint GOOD --config BAD",
    "trainer prepare --runtime BAD",
    "evaluation run --checkpoint GOOD --out OUT --config BAD",
    "evaluation run --checkpoint GOOD --out OUT --benchmark aime24 --runtime BAD",
]
"""Read by the same code as the first of FILES, or as `trainer rl --runtime`."""
FOLDERS = [
    "trainer score --checkpoint BAD --samples FILE --out OUT",
    "trainer chat --question x --checkpoint BAD",
    "trainer export --checkpoint BAD --out OUT",
    "trainer inspect DOCUMENTS --checkpoint BAD",
    "evaluation run --checkpoint BAD --out OUT --benchmark procedural-numbers",
    "evaluation controls --data BAD --benchmark aime24",
    "evaluation controls --data BAD",
]
NO_FOLDERS = [
    "evaluation run --checkpoint GOOD --out OUT --benchmark aime24 --data BAD",
    "evaluation run --checkpoint GOOD --out OUT --benchmark procedural-numbers --rings BAD",
    "evaluation benchmarks --data BAD",
    "evaluation decontaminate --benchmark aime24 --train FILE --data BAD",
    "evaluation regrade FILE --data BAD",
]
"""An empty folder is valid for these."""


def missing(path: Path) -> None:
    """Nothing at the path."""


def empty(path: Path) -> None:
    path.write_bytes(b"")


def blank(path: Path) -> None:
    path.write_bytes(b"\n \n")


def binary(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 20)


def not_utf8(path: Path) -> None:
    path.write_bytes('{"id": "caf\u00e9"}\n'.encode("latin-1"))


def folder(path: Path) -> None:
    path.mkdir()


def forbidden(path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read everything")
    path.write_bytes(b"{}\n")
    path.chmod(0)


def broken(path: Path) -> None:
    path.write_bytes(b'{"id": \n')


def a_number(path: Path) -> None:
    path.write_bytes(b"3\n")


def deep(path: Path) -> None:
    path.write_bytes(b"[" * 100_000 + b"\n")


Bad = Callable[[Path], None]
BAD_FILES: list[Bad] = [missing, empty, blank, binary, not_utf8, folder, forbidden, broken, a_number, deep]
BAD_FOLDERS: list[Bad] = [missing, empty, binary, folder, forbidden]


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("good"))


def refusal_of(words: str, bad: Bad, good: Path, tmp_path: Path, suffix: str = "") -> str:
    """The one line with which a command refuses a bad input; it leaves nothing behind."""
    path = tmp_path / f"bad{suffix}"
    bad(path)
    (tmp_path / "file.jsonl").write_text('{"id": "a", "answer": "1"}\n')
    documents = '{"id": "d", "question": "q", "turns": [{"text": "t", "response": null}]}\n'
    (tmp_path / "documents.jsonl").write_text(documents)
    places = {
        "BAD": path, "GOOD": good, "OUT": tmp_path / "out", "FILE": tmp_path / "file.jsonl",
        "DOCUMENTS": tmp_path / "documents.jsonl",
    }  # fmt: skip
    package, *arguments = [str(places.get(word, word)) for word in words.split()]
    done = CliRunner().invoke(APPS[package], arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), repr(done.exception)
    assert done.exit_code == 2, done.output
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    assert not (tmp_path / "out").exists()
    return lines[0]


@pytest.mark.parametrize("bad", [missing, broken], ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("words", READ_ALIKE)
def test_a_bad_file_of_a_similar_command_is_refused(words: str, bad: Bad, good: Path, tmp_path: Path) -> None:
    assert "bad" in refusal_of(words, bad, good, tmp_path)


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("words", FILES)
def test_a_bad_file_is_one_line_and_status_2(words: str, bad: Bad, good: Path, tmp_path: Path) -> None:
    line = refusal_of(words, bad, good, tmp_path)
    assert "bad" in line, line


@pytest.mark.parametrize("bad", BAD_FILES, ids=lambda bad: bad.__name__)
@pytest.mark.parametrize(
    "words",
    [
        "trainer inspect BAD --checkpoint GOOD",
        "trainer score --checkpoint GOOD --samples BAD --out OUT",
        "evaluation regrade BAD",
        "evaluation import --harness lighteval --benchmark aime24 --out OUT BAD",
    ],
)
def test_a_bad_parquet_file_is_one_line_and_status_2(
    words: str, bad: Bad, good: Path, tmp_path: Path
) -> None:
    assert "bad.parquet" in refusal_of(words, bad, good, tmp_path, ".parquet")


@pytest.mark.parametrize("bad", [missing, empty], ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("words", NO_FOLDERS)
def test_a_path_that_is_not_a_folder_is_one_line_and_status_2(
    words: str, bad: Bad, good: Path, tmp_path: Path
) -> None:
    assert "bad is not a folder" in refusal_of(words, bad, good, tmp_path)


@pytest.mark.parametrize("bad", BAD_FOLDERS, ids=lambda bad: bad.__name__)
@pytest.mark.parametrize("words", FOLDERS)
def test_a_bad_folder_is_one_line_and_status_2(words: str, bad: Bad, good: Path, tmp_path: Path) -> None:
    assert "bad" in refusal_of(words, bad, good, tmp_path)


# --- `inspect` on a file of problems ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "line"),
    [
        (b'{"id": "a", "prompt": "p", "answer": 4}', "line 1: answer = 4 is no string; put it in quotes"),
        (b'\n{"id": "a", "prompt": "p"}', "line 2: has no answer"),
        (b'{"id": "a", "prompt": " ", "answer": "4"}', "line 1: has no prompt"),
        (b"[1]", "line 1: has no id, for it is no JSON object"),
        (b'{"id": "a", "prompt": "p", "answer": "4"}\n{', "line 2: not JSON"),
        (b"\xff\xfe", "is not UTF-8 text at byte 0"),
        (b"", "is empty; give a file of conversations, documents, problems or trajectories"),
    ],
)
def test_inspect_names_the_fault_of_a_problem_file(
    content: bytes, line: str, good: Path, tmp_path: Path
) -> None:
    def write(path: Path) -> None:
        path.write_bytes(content)

    assert line in refusal_of("trainer inspect BAD", write, good, tmp_path)


@pytest.mark.parametrize("mark", [b"\xef\xbb\xbf", b""])
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b""])
def test_a_byte_order_mark_and_windows_line_ends_are_accepted(
    mark: bytes, end: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "problems.jsonl"
    path.write_bytes(mark + b'{"id": "a", "prompt": "p", "answer": "4"}' + end)
    done = CliRunner().invoke(trainer_app, ["inspect", str(path)])
    assert (done.exit_code, "= 4" in done.stdout) == (0, True), done.output


def test_a_missing_checkpoint_folder_is_reported_as_missing(good: Path, tmp_path: Path) -> None:
    assert "bad: does not exist; give a checkpoint folder" in refusal_of(
        "trainer inspect DOCUMENTS --checkpoint BAD", missing, good, tmp_path
    )
    other = tmp_path / "other"
    other.mkdir()
    assert "bad: is not a folder" in refusal_of(
        "trainer inspect DOCUMENTS --checkpoint BAD", empty, good, other
    )
