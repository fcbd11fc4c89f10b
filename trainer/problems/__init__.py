"""Procedural problems with integer answers: families, compositions, splits by parameter hash."""

from trainer.problems.catalogue import ALL_FAMILIES, IN_DISTRIBUTION, family_and_params, find_family
from trainer.problems.family import Family, Params, ProblemError
from trainer.problems.splits import RINGS, SPLITS, DuplicateCount, LevelMix, Splits, generate_splits

__all__ = [
    "ALL_FAMILIES",
    "IN_DISTRIBUTION",
    "RINGS",
    "SPLITS",
    "DuplicateCount",
    "Family",
    "LevelMix",
    "Params",
    "ProblemError",
    "Splits",
    "family_and_params",
    "find_family",
    "generate_splits",
]
