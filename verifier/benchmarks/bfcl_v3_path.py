"""BFCL v3, path check: 30 entries that exercise the path with a tiny model and give no score."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from verifier.benchmarks import bfcl_v3


def _open_folder(folder: Path) -> Iterable[Mapping[str, Any]]:
    """The first 20 simple and 10 irrelevance entries."""
    for category, count in (("simple", 20), ("irrelevance", 10)):
        yield from itertools.islice(bfcl_v3.open_category(folder, category, {}), count)


BENCHMARK = replace(
    bfcl_v3.BENCHMARK,
    name="bfcl_v3_path",
    title="BFCL v3, path check",
    num_questions=30,
    open_file=_open_folder,
    metric="none: shows that the path works",
    digests=("e166c62db0201e414d9d4de5ce97f7e2fb00e1c6276dcbeec8ec36e6f01620b9",),
    known_issues=(),
)
