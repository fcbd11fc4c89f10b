"""Data cross the border completely or not at all, and a fault of the sandbox never counts as a fault of the code."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

from typer.testing import CliRunner

from records.tool_call import Status, ToolCall, ToolResult
from sandbox import Sandbox
from sandbox.child.jail import MAX_FILE_BYTES
from sandbox.cli import app
from sandbox.wire import MAX_STDIN_BYTES, fault_of
from tests.sandbox.conftest import message_of, new_call

Run = Callable[..., ToolResult]
COUNT = "import sys\nlen(sys.stdin.buffer.read())"


def test_the_longest_input_arrives_complete(run: Run) -> None:
    assert MAX_STDIN_BYTES <= MAX_FILE_BYTES
    assert run(COUNT, stdin="x" * MAX_STDIN_BYTES).value == str(MAX_STDIN_BYTES)
    assert run(COUNT, stdin="x" * MAX_STDIN_BYTES, session="long input").value == str(MAX_STDIN_BYTES)


def test_a_longer_input_is_refused_and_not_cut(run: Run) -> None:
    for stdin in ("x" * (MAX_STDIN_BYTES + 1), "\U0001f600" * (MAX_STDIN_BYTES // 4 + 1)):
        result = run(COUNT, stdin=stdin)
        assert result.status is Status.REJECTED
        assert f"at most {MAX_STDIN_BYTES} are passed" in message_of(result)


def test_a_name_that_utf_8_cannot_hold_is_refused() -> None:
    assert "lone surrogates" in fault_of(ToolCall(id="\ud800", code="1"))
    assert "lone surrogates" in fault_of(ToolCall(id="a", session="\udfff", code="1"))
    assert fault_of(ToolCall(id="\u00e9", code="1")) == ""


def test_a_text_with_a_line_separator_is_one_case(tmp_path: Path) -> None:
    texts = ["a\u2028b", "a\u2029b", "a\x85b"]
    lines = [
        json.dumps({"id": str(n), "code": "print(len(input()))", "stdin": text}, ensure_ascii=False)
        for n, text in enumerate(texts)
    ]
    file = tmp_path / "cases.jsonl"
    file.write_text("\r\n".join(lines) + "\r\n", encoding="utf-8")
    result = CliRunner().invoke(app, ["cases", str(file), "--preload", "", "--workers", "1"])
    assert result.exit_code == 0, result.output
    assert [json.loads(line)["stdout"] for line in result.stdout.split("\n") if line] == ["3\n"] * 3


def test_a_failed_set_up_starts_the_call_again(tmp_path: Path) -> None:
    settings = {"workers": 1, "slots_per_worker": 1, "preload": (), "tmp_dir": str(tmp_path)}
    with Sandbox(**settings, disabled_layers=("bounded_tmp", "private_root")) as own:
        os.rmdir(next(Path(own.started["tmp_root"]).glob("stores/*/call")))
        assert own.run(new_call("1")).value == "1"


def test_code_cannot_imitate_a_failed_set_up(run: Run) -> None:
    forged = "import os\nos.write(2, b'sandbox: OSError')\nos._exit(70)"
    assert run(forged).status is Status.CRASH
    unmark = (
        "import fcntl, os\ntry:\n    fcntl.fcntl(3, fcntl.F_ADD_SEALS, 0)\nexcept OSError: pass\nos._exit(70)"
    )
    assert run(unmark).status is Status.CRASH


def test_an_address_is_hidden_also_at_the_cut_of_a_long_text(run: Run) -> None:
    for shift in range(0, 70, 3):
        code = f"import sys\nsys.stdout.write('.' * {shift} + ''.join(str(object()) for _ in range(3000)))"
        shown = run(code).stdout
        assert "dropped] ..." in shown
        assert "7f" not in shown, shown[8000:8400]
