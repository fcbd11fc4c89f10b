"""`written_by_most` and `split`: the pages that every call writes, which the fork then copies at once.

A write to a page that fork server and child share costs about 2.4 us in a virtual machine: a fault, a copy, a flush.
The kernel copies a pinned page during the fork itself, for half of that. Trial calls find these pages; an io_uring
without requests pins them as a registered buffer. Elsewhere the fork server requests huge pages. Where the kernel
offers neither, calls take longer.
"""

from __future__ import annotations

import array
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
HUGE_BYTES = 2 * 2**20
DENSE = 32
"""From this many pages written by every call on, a huge page is better left in small pages.

Measured: 24 to 40 are alike, 4 is slower where much is preloaded."""
_PRESENT, _OF_FILE, _EXCLUSIVE = 1 << 63, 1 << 61, 1 << 56

Span = tuple[int, int]
"""First address, and the address behind the last."""


def private_spans() -> list[Span]:
    """The writable private memory of this process."""
    spans = []
    for line in Path("/proc/self/maps").read_text().splitlines():
        fields = line.split()
        if fields[1] == "rw-p" and not (
            len(fields) > 5 and fields[5].startswith(("[stack", "/memfd", "/dev"))
        ):
            start, end = (int(part, 16) for part in fields[0].split("-"))
            spans.append((start, end))
    return spans


def own_pages(pagemap: int, spans: Iterable[Span]) -> list[int]:
    """Return the addresses of pages that no other process shares: in a child, the pages it has written."""
    found = []
    for start, end in spans:
        entries = array.array(
            "Q", os.pread(pagemap, (end - start) // PAGE_BYTES * 8, start // PAGE_BYTES * 8)
        )
        found += [
            start + index * PAGE_BYTES
            for index, entry in enumerate(entries)
            if entry & _PRESENT and entry & _EXCLUSIVE and not entry & _OF_FILE
        ]
    return found


def written_by_most(trials: list[set[int]]) -> list[int]:
    """Pages that more than half of the trials wrote, in order.

    >>> written_by_most([{4096, 8192}, {4096}, {4096, 12288}])
    [4096]
    """
    counts = Counter(page for trial in trials for page in trial)
    return sorted(page for page, times in counts.items() if 2 * times > len(trials))


def split(pages: list[int]) -> tuple[list[Span], set[int]]:
    """Return the spans to pin, and the huge pages (by number) to leave in small pages.

    In a huge page with few written pages none is pinned: there the huge page saves more.

    >>> small = [HUGE_BYTES + k * PAGE_BYTES for k in range(DENSE)]
    >>> split([0, *small]) == ([(small[0], small[0] + DENSE * PAGE_BYTES)], {1})
    True
    """
    counts = Counter(page // HUGE_BYTES for page in pages)
    dense = {number for number, count in counts.items() if count >= DENSE}
    spans: list[Span] = []
    for page in pages:
        if page // HUGE_BYTES not in dense:
            continue
        if spans and spans[-1][1] == page:
            spans[-1] = (spans[-1][0], page + PAGE_BYTES)
        else:
            spans.append((page, page + PAGE_BYTES))
    return spans, dense
