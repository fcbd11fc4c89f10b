"""The trusted pool: our own code preloaded by name, the model's answer as data."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from records.tool_call import Limits, Status
from sandbox.client.client import Sandbox
from sandbox.client.connection import SandboxError
from sandbox.settings import SettingsError
from sandbox.trusted import call_of, open_pool
from tests.sandbox.conftest import new_call

LIMITS = Limits(cpu_s=10, wall_s=120)


def test_the_verifier_is_preloaded_by_name_and_judges_answers(project_root: Path) -> None:
    with open_pool(
        "verifier.answers.compare", folder=str(project_root), niceness=0, decayed_niceness=0
    ) as pool:
        calls = [
            call_of("verifier.answers.compare", "compare_integers", pair, call_id=str(k), limits=LIMITS)
            for k, pair in enumerate((["25", "025"], ["25", "26"]))
        ]
        values = [result.value or "" for result in pool.run_many(calls)]
        preloaded = pool.run(new_call("import sys\n'verifier.answers.compare' in sys.modules, 'verifier'"))
    assert "Outcome.EQUAL" in values[0]
    assert "Outcome.DIFFERENT" in values[1]
    assert preloaded.value == "(True, 'verifier')"


def test_an_answer_is_data_and_runs_as_nothing(project_root: Path) -> None:
    answer = "__import__('os').system('id') \"\"\" '); print('in')"
    with open_pool(
        "verifier.answers.compare", folder=str(project_root), niceness=0, decayed_niceness=0
    ) as pool:
        call = call_of("verifier.answers.compare", "compare", ["5", answer], call_id="a", limits=LIMITS)
        result = pool.run(call)
    assert (result.status, result.stdout) == (Status.OK, "")
    assert "EQUAL" not in (result.value or "EQUAL")


def test_other_sandboxes_do_not_see_the_folder(sandbox: Sandbox, project_root: Path) -> None:
    readme = os.path.join(str(project_root), "README.md")
    result = sandbox.run(new_call(f"open({readme!r}).read()"))
    assert result.error is not None
    assert result.error.type in ("PermissionError", "FileNotFoundError")
    assert sandbox.run(new_call("import verifier")).status is Status.ERROR


def test_a_module_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="no_verifier"):
        open_pool("no_verifier", folder=str(tmp_path))


@pytest.mark.parametrize("folder", ["relative", "/no/such/folder"])
def test_a_folder_that_is_none_is_refused(folder: str) -> None:
    with pytest.raises(SettingsError, match="python_path"):
        open_pool("json", folder=folder)


@pytest.mark.parametrize("name", ["f(); import os", "f\nimport os", ""])
def test_a_name_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(SandboxError, match="not the name of a function"):
        call_of("json", name, [], call_id="a")
