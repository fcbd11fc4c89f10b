"""A pool of its own for code of ours, such as the verification of answers, so that it cannot starve tool calls.

The paper verifies answers in the same service that runs tool calls. Here the verifier is preloaded by name in a
sandbox apart: its own fork servers, seats and limits. The program that runs is ours and fixed; what comes from the
model - an answer, perhaps hostile to a parser - travels as data on standard input, and stays inside the same
isolation as any call.
"""

from __future__ import annotations

import json
from typing import Any

from records.tool_call import Limits, ToolCall
from sandbox.client.client import Sandbox
from sandbox.client.connection import SandboxError

_PROGRAM = "import json, sys\nimport {module} as module\nmodule.{function}(*json.load(sys.stdin))"


def open_pool(module: str, *, folder: str, workers: int = 1, **settings: Any) -> Sandbox:
    """A sandbox that has preloaded `module`, found in `folder` or installed.

    Calls of this pool may read everything in `folder`: give it to code of ours only.

    Args:
        module: the name of a module, as in an import.
        folder: absolute path that holds it.
        workers: CPU cores that the pool may fill.
        settings: any field of `sandbox.settings.Settings`.

    Raises:
        SandboxError: the module cannot be imported, isolation is too low.
        SettingsError: a setting out of range.
    """
    before = tuple(settings.pop("preload", ()))
    return Sandbox(workers=workers, preload=(*before, module), python_path=(folder,), **settings)


def call_of(
    module: str, function: str, arguments: list[Any], *, call_id: str, limits: Limits | None = None
) -> ToolCall:
    """The call that runs `module.function(*arguments)`; the value of its result is the repr of what it returns.

    Args:
        module: as given to `open_pool`.
        function: name of a function there.
        arguments: anything JSON can hold.
        call_id: unique among calls in flight.
        limits: of this call; None: the default ones.

    Raises:
        SandboxError: a name that is none.

    Example:
        call_of("verifier.answers.compare", "compare_integers", ["25", "025"], call_id="a")
    """
    names = (*module.split("."), function)
    if not all(name.isidentifier() for name in names):
        raise SandboxError(f"{module}.{function} is not the name of a function in a module")
    code = _PROGRAM.format(module=module, function=function)
    return ToolCall(id=call_id, code=code, stdin=json.dumps(arguments), limits=limits or Limits())
