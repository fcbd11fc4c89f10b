"""`fingerprint`: identifies everything that decides the result of a long job.

A job with an equal fingerprint resumes in its working folder (`trainer.jobs.work_folder`); another one sets the folder
aside until its fingerprint returns. The callers are SFT, the RL stages, the filter of hard problems, solve rates,
recipes of training data and evaluations; each passes what it reads.
"""

from __future__ import annotations

from records.digest import digest


def fingerprint(*parts: object) -> str:
    """Return the sha256 of JSON values: sections as the command reads them, digests of inputs, a version of the format.

    >>> fingerprint({"steps": 2}, "a1") == fingerprint({"steps": 2}, "a1") != fingerprint({"steps": 3}, "a1")
    True
    """
    return digest(list(parts))
