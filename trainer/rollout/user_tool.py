"""`UserTool`: a user's module in place of the Python tool.

    NAME = "count_divisors"
    DESCRIPTION = "Number of positive divisors of an integer."
    PARAMETERS = {"n": {"type": "integer", "description": "The integer, 1 or more."}}

    def run(n): return sum(n % d == 0 for d in range(1, n + 1))

A call runs inside the sandbox, with the limits, isolation and seeds of the model's own code. Output and exceptions of
`run` are shown to the model and counted as for Python. Arguments are data on standard input, never code.
"""

from __future__ import annotations

import importlib
import json
from dataclasses import dataclass

from records.errors import ConfigError

_PROGRAM = (
    "import json, sys\nimport {module} as tool\nresult = tool.run(**json.load(sys.stdin))\n"
    "print(result) if result is not None else None\n"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTool:
    """The parts of a user's tool that the conversation and the sandbox use."""

    module: str
    name: str
    schema: str
    """Function signature, one line of JSON."""

    @property
    def program(self) -> str:
        """Fixed code of every call."""
        return _PROGRAM.format(module=self.module)


def load_user_tool(module: str) -> UserTool:
    """Read a tool module. Raises ConfigError, in one line, if it is not valid."""
    what = f"rollout.tool.name = {module!r}"
    try:
        found = importlib.import_module(module)
        name, description, parameters = found.NAME, found.DESCRIPTION, found.PARAMETERS
        run = found.run
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{what}: {error}; a tool is a module with NAME, DESCRIPTION, PARAMETERS and run"
        ) from None
    if not (isinstance(name, str) and isinstance(parameters, dict) and callable(run)):
        raise ConfigError(f"{what}: NAME must be a string, PARAMETERS a dict of JSON schemas, run a function")
    function = {
        "name": name,
        "description": str(description),
        "parameters": {"type": "object", "properties": parameters, "required": list(parameters)},
    }
    try:
        schema = json.dumps({"type": "function", "function": function})
    except TypeError as error:
        raise ConfigError(f"{what}: PARAMETERS is not JSON ({error})") from None
    return UserTool(module=module, name=name, schema=schema)
