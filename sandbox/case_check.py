"""`fault_of_result`: compares a result with the field `expected` of a line of a cases file."""

from __future__ import annotations

from typing import Any

from records.tool_call import ToolResult

_KEYS = (
    "status",
    "stdout",
    "stdout_has",
    "stderr_has",
    "value",
    "value_has",
    "error",
    "message_has",
    "line",
    "wall_s",
    "cpu_s",
)


def fault_of_result(result: ToolResult, expected: dict[str, Any]) -> str:
    """List the differences from `expected`; an empty text when there are none.

    `status` is one or a list; `error` is an exception type or a list; `line` must appear in the traceback;
    `wall_s` and `cpu_s` are upper bounds.

    >>> from records.tool_call import Status
    >>> fault_of_result(ToolResult(id="a", status=Status.OK, stdout="1"), {"status": "ok", "stdout": "2"})
    "stdout is '1', expected '2'"
    >>> from records.tool_call import ToolError
    >>> died = ToolError(type="InterpreterDied", message="killed by signal 9", traceback="")
    >>> fault_of_result(ToolResult(id="a", status=Status.CRASH, error=died), {"status": "timeout"})
    "status is 'crash' (killed by signal 9), expected timeout"
    """
    unknown = set(expected) - set(_KEYS)
    if unknown:
        return f"unknown key in expected: {sorted(unknown)}"
    error = result.error
    faults = [
        _one_of("status", result.status.value, expected.get("status"), error.message[:200] if error else ""),
        _one_of("error", error.type if error else "", expected.get("error")),
        _equal("stdout", result.stdout, expected),
        _equal("value", result.value, expected),
        _contains("stdout", result.stdout, expected.get("stdout_has")),
        _contains("stderr", result.stderr, expected.get("stderr_has")),
        _contains("value", result.value or "", expected.get("value_has")),
        _contains("message", error.message if error else "", expected.get("message_has")),
        _contains(
            "traceback",
            error.traceback if error else "",
            f"line {expected['line']}" if "line" in expected else None,
        ),
        _at_most("wall_s", result.wall_s, expected),
        _at_most("cpu_s", result.cpu_s, expected),
    ]
    return "; ".join(fault for fault in faults if fault)


def _one_of(name: str, given: str, expected: str | list[str] | None, why: str = "") -> str:
    allowed = [expected] if isinstance(expected, str) else expected
    if allowed is None or given in allowed:
        return ""
    reason = f" ({why})" if why else ""
    return f"{name} is {given!r}{reason}, expected {' or '.join(allowed)}"


def _equal(name: str, given: str | None, expected: dict[str, Any]) -> str:
    return (
        ""
        if name not in expected or given == expected[name]
        else f"{name} is {given!r}, expected {expected[name]!r}"
    )


def _contains(name: str, given: str, part: str | None) -> str:
    return "" if part is None or part in given else f"{name} is {given[:200]!r}, expected {part!r} in it"


def _at_most(name: str, given: float, expected: dict[str, Any]) -> str:
    return (
        ""
        if name not in expected or given <= expected[name]
        else f"{name} is {given:.3f}, expected at most {expected[name]}"
    )
