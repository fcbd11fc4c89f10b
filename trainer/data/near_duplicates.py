"""Near-duplicates: MinHash signatures by datasketch, buckets by sorting.

datasketch's own index holds every key of every band in dictionaries, several gigabytes for a million rows. Sorting one
column of bucket numbers at a time finds the same buckets within 8 bytes a row and band.

Two problems that differ in a number are two problems, so only problems with equal answers are ever the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from datasketch import MinHash

from trainer.data.decontamination import exact_key

BANDS, ROWS = 16, 4
"""Signature of 64 values: a pair of similarity s shares a bucket with probability 1 - (1 - s^4)^16; 1 - 5e-8 at 0.9."""
SHINGLE = 3
"""Words and signs of a shingle."""
MOST_COMPARED = 16
"""Earlier problems of a bucket that a problem is compared with; bounds the work for templated sets."""
SEED = 1

_MIX = (
    np.random.Generator(np.random.PCG64(SEED)).integers(1, 2**63, size=ROWS, dtype=np.uint64) | np.uint64(1)
)  # fmt: skip


def shingles(text: str) -> frozenset[tuple[str, ...]]:
    """Runs of `SHINGLE` words and signs; a shorter text is one by itself.

    >>> sorted(shingles("Find x + 1 now"))
    [('+', '1', 'now'), ('find', 'x', '+'), ('x', '+', '1')]
    """
    words = exact_key(text)
    if len(words) <= SHINGLE:
        return frozenset((words,))
    return frozenset(words[at : at + SHINGLE] for at in range(len(words) - SHINGLE + 1))


def buckets_NB(texts: Sequence[str]) -> npt.NDArray[np.int64]:
    """Bucket numbers of each text, one per band."""
    if not texts:
        return np.zeros((0, BANDS), np.int64)
    encoded = ([" ".join(words).encode() for words in sorted(shingles(text))] for text in texts)
    signed = MinHash.bulk(encoded, num_perm=BANDS * ROWS, seed=SEED, hashfunc=_hash32)
    values = np.array([each.hashvalues for each in signed], dtype=np.uint64)
    return (values.reshape(len(texts), BANDS, ROWS) * _MIX).sum(axis=2, dtype=np.uint64).view(np.int64)


def _hash32(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=4).digest(), "little")


def similarity(a: frozenset, b: frozenset) -> float:
    """Jaccard similarity.

    >>> similarity(frozenset("abc"), frozenset("bcd"))
    0.5
    """
    return len(a & b) / len(a | b) if a or b else 1.0


def near_duplicates(
    rows: npt.NDArray[np.int64],
    answers: npt.NDArray[np.int64],
    band_of: Callable[[int], npt.NDArray[np.int64]],
    text_of: Callable[[int], str],
    least: float,
) -> dict[int, int]:
    """Rows that repeat an earlier row in other words.

    Args:
        rows: numbers of the rows that are left, ascending.
        answers: key of the answer of each row of the set.
        band_of: bucket numbers of one band, for each row of the set.
        text_of: text of a row of the set.
        least: similarity from which two texts are the same.

    Returns:
        Row -> the earlier row that it repeats.
    """
    found: dict[int, int] = {}
    if least >= 1.0:
        return found
    for band in range(BANDS):
        left = rows if not found else rows[~np.isin(rows, np.fromiter(found, np.int64))]
        column = band_of(band)
        for bucket in _buckets(left, column[left], answers[left]):
            _compare(bucket, text_of, least, found)
    return found


def _buckets(rows: npt.NDArray, bands: npt.NDArray, answers: npt.NDArray) -> Iterable[npt.NDArray]:
    """Groups of two or more rows of one bucket number and one answer, rows ascending."""
    order = np.lexsort((rows, answers, bands))
    same = (np.diff(bands[order]) == 0) & (np.diff(answers[order]) == 0)
    edges = np.flatnonzero(np.concatenate(([True], ~same, [True])))
    for start, end in pairwise(edges.tolist()):
        if end - start > 1:
            yield rows[order[start:end]]


def _compare(bucket: npt.NDArray, text_of: Callable[[int], str], least: float, found: dict[int, int]) -> None:
    kept: list[tuple[int, frozenset]] = []
    for row in map(int, bucket):
        if row in found:
            continue
        own = shingles(text_of(row))
        twin = next((other for other, compared in kept if similarity(own, compared) >= least), None)
        if twin is not None:
            found[row] = twin
        elif len(kept) < MOST_COMPARED:
            kept.append((row, own))
