"""`python -m tests.golden [NAME ...]`: run the short runs, print what moved, rewrite the goldens of this processor."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from tests.golden.recording import Recording, moved, processor_kind
from tests.golden.runs import RUNS, record


def main(names: list[str]) -> int:
    """Record the named runs, all by default; exit status 1 if a number moved."""
    unknown = sorted(set(names) - set(RUNS))
    if unknown:
        print(f"error: no golden named {unknown[0]!r}; there are {', '.join(RUNS)}", file=sys.stderr)
        return 2
    kind, num_moved = processor_kind(), 0
    for name in names or RUNS:
        with tempfile.TemporaryDirectory() as folder:
            new = record(name, Path(folder))
        old = Recording.load(name, kind)
        lines = moved(old, new, exact=True) if old is not None else []
        num_moved += len(lines)
        path = new.write(kind)
        print(f"{path}: {'new' if old is None else f'{len(lines)} numbers moved'}")
        print("".join(f"  {line}\n" for line in lines), end="")
    return 1 if num_moved else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
