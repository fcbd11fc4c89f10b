"""The fork copies the pages that every call writes; no call sees those of another."""

from __future__ import annotations

import pytest

from records.tool_call import Status
from sandbox import Sandbox
from sandbox.child import written_pages
from tests.sandbox.conftest import new_call, small_sandbox

FAULTS = "import resource\nresource.getrusage(resource.RUSAGE_SELF).ru_minflt"


def _num_faults(*disabled: str) -> int:
    with small_sandbox(disabled_layers=disabled) as sandbox:
        states = {state["layer"]: state["used"] for state in sandbox.started["states"]}
        if not disabled and not states["eager_pages"]:
            pytest.skip("this machine does not let memory be pinned")
        sandbox.run(new_call("1"))
        result = sandbox.run(new_call(FAULTS))
    return int(result.value or "")


def test_a_call_has_fewer_page_faults_with_pages_copied_by_the_fork() -> None:
    assert 2 * _num_faults() < _num_faults("eager_pages")


def test_pages_of_a_huge_page_are_pinned_only_where_many_are_written() -> None:
    few = [k * written_pages.PAGE_BYTES for k in range(written_pages.DENSE - 1)]
    many = [written_pages.HUGE_BYTES + 2 * k * written_pages.PAGE_BYTES for k in range(written_pages.DENSE)]
    spans, dense = written_pages.split([*few, *many])
    assert dense == {1}
    assert spans == [(page, page + written_pages.PAGE_BYTES) for page in many]


def test_memory_changes_of_a_call_are_invisible_to_others(sandbox: Sandbox) -> None:
    change = "import builtins, json, random\nbuiltins.mark = json.mark = 1\nrandom.seed = len\nlist(range(10**5))[-1]"
    look = "import builtins, json, random\n(hasattr(builtins, 'mark'), hasattr(json, 'mark'), random.seed is len)"
    calls = [new_call(code) for _ in range(20) for code in (change, look)]
    results = sandbox.run_many(calls)
    assert {result.status for result in results} == {Status.OK}
    assert {result.value for result in results[1::2]} == {"(False, False, False)"}


def test_a_rehearsal_leaves_no_trace(sandbox: Sandbox) -> None:
    code = (
        "import atexit, linecache, sys, threading\n"
        "main = sys.modules['__main__']\n"
        "print(sorted(name for name in vars(main) if not name.startswith('__')))\n"
        "print(list(linecache.cache), threading.active_count(), sys.stdin.read() == '')"
    )
    result = sandbox.run(new_call(code))
    assert result.stdout == ("['atexit', 'linecache', 'main', 'sys', 'threading']\n['<code>'] 1 True\n")
