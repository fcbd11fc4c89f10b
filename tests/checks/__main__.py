"""`python -m tests.checks [NAME ...]`: the project's own checks. Exit status 1 if one finds something."""

from __future__ import annotations

import sys
from pathlib import Path

from tests.checks import (
    circles,
    imports,
    links,
    lock,
    places,
    prose,
    public_names,
    schema,
    sizes,
    torch_free,
    workflow,
)

CHECKS = {
    "sizes": sizes.problems,
    "places": places.problems,
    "links": links.problems,
    "schema": schema.problems,
    "lock": lock.problems,
    "torch_free": torch_free.problems,
    "imports": imports.problems,
    "circles": circles.problems,
    "public_names": public_names.problems,
    "workflow": workflow.problems,
    "prose": prose.problems,
}


def main(names: list[str]) -> int:
    """Run the named checks, all by default."""
    unknown = sorted(set(names) - set(CHECKS))
    if unknown:
        print(f"error: no check named {unknown[0]!r}; there are {', '.join(CHECKS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or CHECKS:
        found = CHECKS[name](Path(__file__).parents[2])
        failed += bool(found)
        print(f"{name}: {'ok' if not found else f'{len(found)} found'}")
        print("".join(f"  {line}\n" for line in found), end="")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
