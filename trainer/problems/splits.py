"""`generate_splits`: assigns problems to splits by a hash of their parameters, before any drawing.

The generator and the numbers of a problem decide its split: held-out pairs form the composition ring, unseen families
the family ring, and a hash assigns the others. No seed, size or order moves a problem from one split to another, and a
larger split only adds problems.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from random import Random

from records.problem import Problem
from trainer.problems.catalogue import IN_DISTRIBUTION, LEVEL_1, LEVEL_2, LEVEL_3, LONG, REWORDED
from trainer.problems.composition import HELD_OUT_PAIRS
from trainer.problems.families.unseen import UNSEEN
from trainer.problems.family import Family, Params, ProblemError, canonical, digest, make_problem

SPLITS = ("sft", "train", "dev", "numbers", "composition", "wording", "family")
RINGS = ("numbers", "composition", "wording", "family")
MIN_RING = 400
"""Fewest problems of a test ring for a published number."""

_HASH_SHARES = (("sft", 60), ("train", 14), ("dev", 6), ("numbers", 13), ("wording", 7))
"""Percent of the numbers of a known family; the last share is for its unseen wording."""
_REWORDED_FRAC = 0.25
"""Size of the wording ring, as a share of `num_test`; the family ring has the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelMix:
    """Shares of the levels in sft, train, dev and the numbers ring; their sum is 1."""

    level_1: float = 0.42
    level_2: float = 0.19
    level_3: float = 0.33
    long: float = 0.06

    def __post_init__(self) -> None:
        shares = (self.level_1, self.level_2, self.level_3, self.long)
        if min(shares) < 0 or not math.isclose(sum(shares), 1.0, abs_tol=1e-6):
            raise ProblemError(
                f"level shares must be >= 0 and add up to 1, got {shares} (sum {sum(shares):g})"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class DuplicateCount:
    """Problems that occur more than once, within or across splits."""

    exact: int
    """Prompts beyond the first with the same text."""
    params: int
    """Problems beyond the first with the same generator and numbers, in any wording."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Splits:
    """Seven disjoint sets of problems."""

    sft: tuple[Problem, ...]
    train: tuple[Problem, ...]
    dev: tuple[Problem, ...]
    numbers: tuple[Problem, ...]
    """Test ring: known families and pairs, new numbers."""
    composition: tuple[Problem, ...]
    """Test ring: pairs that never occur elsewhere; training has them in the other order."""
    wording: tuple[Problem, ...]
    """Test ring: known families in wordings that never occur elsewhere."""
    family: tuple[Problem, ...]
    """Test ring: families that never occur elsewhere."""

    def all_problems(self) -> Iterator[Problem]:
        """Every problem of every split."""
        for f in fields(self):
            yield from getattr(self, f.name)

    def count_duplicates(self) -> DuplicateCount:
        """Count repeated prompts and repeated parameters over all splits together; both must be 0."""
        problems = list(self.all_problems())
        return DuplicateCount(
            exact=len(problems) - len({p.prompt for p in problems}),
            params=len(problems) - len({p.params for p in problems}),
        )


@dataclass(slots=True, kw_only=True)
class _Need:
    """Number of problems still to draw from one family for one split, and those found."""

    split: str
    num: int
    unseen_wording: bool = False
    found: list[Problem] = field(default_factory=list)


def hash_split(family: Family, params: Params) -> str:
    """Return the split of these numbers of a family; independent of seeds and sizes.

    >>> from trainer.problems.catalogue import LEVEL_1
    >>> hash_split(LEVEL_1[0], (40, 30, 5, 20)) in ("sft", "train", "dev", "numbers", "wording")
    True
    """
    if family in HELD_OUT_PAIRS:
        return "composition"
    if family in UNSEEN:
        return "family"
    point = digest("split" + canonical(family, params)) % 100
    for split, share in _HASH_SHARES:
        if point < share:
            return split
        point -= share
    raise AssertionError("the shares add up to 100")


def apportion(total: int, weights: Sequence[float]) -> list[int]:
    """Whole numbers in proportion to weights; remainders go to the largest fractions, ties to the first.

    >>> apportion(10, [1, 1, 1])
    [4, 3, 3]
    """
    exact = [total * w / sum(weights) for w in weights]
    counts = [math.floor(x) for x in exact]
    order = sorted(range(len(weights)), key=lambda i: (counts[i] - exact[i], i))
    for i in order[: total - sum(counts)]:
        counts[i] += 1
    return counts


def generate_splits(
    *,
    seed: int,
    num_sft: int,
    num_train: int,
    num_dev: int,
    num_test: int,
    mix: LevelMix | None = None,
    families: Sequence[str] | None = None,
    min_ring: int = MIN_RING,
) -> Splits:
    """Draw all splits.

    Args:
        seed: stream of the draws; it moves no problem from one split to another.
        num_sft: problems of the SFT documents.
        num_train: pool of the RL stages.
        num_dev: problems for tuning.
        num_test: problems of the rings numbers and composition, and of wording and family together.
        mix: shares of the levels; see `LevelMix`.
        families: names of the known families to use; None: all. Held-out pairs and unseen families do not change.
        min_ring: smallest `num_test` accepted; below the default only for smoke tests.

    Raises:
        ProblemError: a size is negative, a ring too small, a family unknown or exhausted.
    """
    mix = mix or LevelMix()
    _check_sizes(num_sft, num_train, num_dev, num_test, min_ring)
    needs: list[tuple[Family, list[_Need]]] = []
    known = _select(families)
    quotas = {
        split: _family_quota(known, mix, num)
        for split, num in (("sft", num_sft), ("train", num_train), ("dev", num_dev), ("numbers", num_test))
    }
    reworded = [f for f in REWORDED if f in known]
    num_reworded = round(num_test * _REWORDED_FRAC) if reworded else 0
    reworded_quota = apportion(num_reworded, [1.0] * len(reworded)) if reworded else []
    for i, family in enumerate(known):
        needed = [_Need(split=split, num=quota[i]) for split, quota in quotas.items()]
        if family in reworded:
            num = reworded_quota[reworded.index(family)]
            needed.append(_Need(split="wording", num=num, unseen_wording=True))
        needs.append((family, needed))
    for split, new, num in (
        ("composition", HELD_OUT_PAIRS, num_test),
        ("family", UNSEEN, num_test - num_reworded),
    ):
        quota = apportion(num, [1.0] * len(new))
        needs += [(f, [_Need(split=split, num=n)]) for f, n in zip(new, quota, strict=True)]
    prompts: set[str] = set()
    for family, needed in needs:
        _fill(family, needed, seed, prompts)
    return Splits(**{split: _shuffled(needs, split, seed) for split in SPLITS})


def _check_sizes(num_sft: int, num_train: int, num_dev: int, num_test: int, min_ring: int) -> None:
    for name, num in (("num_sft", num_sft), ("num_train", num_train), ("num_dev", num_dev)):
        if num < 0:
            raise ProblemError(f"{name} is {num}; give 0 or more")
    if num_test < min_ring:
        raise ProblemError(
            f"a test ring of {num_test} problems is too small: give num_test >= {min_ring}, "
            "or lower min_ring for a smoke test whose scores are not used"
        )


def _select(names: Sequence[str] | None) -> list[Family]:
    if names is None:
        return list(IN_DISTRIBUTION)
    known = sorted({f.name for f in IN_DISTRIBUTION})
    if unknown := sorted(set(names) - set(known)):
        raise ProblemError(f"unknown problem family {', '.join(unknown)}; use any of: {', '.join(known)}")
    if not names:
        raise ProblemError(f"no problem family chosen; use any of: {', '.join(known)}")
    return [f for f in IN_DISTRIBUTION if f.name in set(names)]


def _family_quota(known: Sequence[Family], mix: LevelMix, num: int) -> list[int]:
    """Problems of each family: apportioned by level, then evenly within the level."""
    levels = [
        ([f for f in known if f in group], share)
        for group, share in (
            (LEVEL_1, mix.level_1),
            (LEVEL_2, mix.level_2),
            (LEVEL_3, mix.level_3),
            (LONG, mix.long),
        )
    ]
    levels = [(members, share) for members, share in levels if members and share]
    if not levels:
        raise ProblemError("the chosen families belong to levels whose share is 0; raise it or choose others")
    quota: dict[str, int] = {}
    for (members, _), of_level in zip(levels, apportion(num, [share for _, share in levels]), strict=True):
        # Sorted by a hash: the remainder of a small split is then spread over a level's families.
        members = sorted(members, key=lambda f: digest(f.key))
        for member, of_family in zip(members, apportion(of_level, [1.0] * len(members)), strict=True):
            quota[member.key] = of_family
    return [quota.get(f.key, 0) for f in known]


def _fill(family: Family, needed: list[_Need], seed: int, prompts: set[str]) -> None:
    """Draw numbers until every split has its share; a draw serves the one split that its hash selects."""
    open_needs = {need.split: need for need in needed if need.num}
    rng = Random(digest(f"draw|{seed}|{family.key}"))
    seen: set[Params] = set()
    idle = 0
    while open_needs:
        params = family.draw(rng)
        need = None if params in seen else open_needs.get(hash_split(family, params))
        seen.add(params)
        problem = None
        if need is not None:
            problem = make_problem(family, params, split=need.split, unseen_wording=need.unseen_wording)
        if need is None or problem is None or problem.prompt in prompts:
            idle += 1
            if idle > 5000:
                raise _exhausted(family, open_needs)
            continue
        idle = 0
        prompts.add(problem.prompt)
        need.found.append(problem)
        if len(need.found) == need.num:
            del open_needs[need.split]


def _exhausted(family: Family, open_needs: dict[str, _Need]) -> ProblemError:
    short = ", ".join(f"{s}: {len(n.found)} of {n.num}" for s, n in open_needs.items())
    return ProblemError(
        f"family {family.key!r} yields no new problem ({short}); ask for fewer problems (num_sft, num_train, "
        "num_dev, num_test), lower its level's share, or widen its draw"
    )


def _shuffled(needs: list[tuple[Family, list[_Need]]], split: str, seed: int) -> tuple[Problem, ...]:
    found = [p for _, needed in needs for need in needed if need.split == split for p in need.found]
    Random(digest(f"order|{seed}|{split}")).shuffle(found)
    return tuple(found)
