"""The card of an invented training set: one source, two rules."""

from __future__ import annotations

from records.data_card import DataCard, FunnelStep, SourceCard

DATA_CARD = DataCard(
    title="invented",
    recipe="invented",
    recipe_digest="d" * 64,
    seed=0,
    limit=None,
    sources=[
        SourceCard(
            name="sums",
            part="problems",
            place="sums.jsonl",
            identity="s" * 64,
            pinned=True,
            licence="MIT",
            non_commercial=False,
            format_confirmed=True,
            expected=10,
            num_rows=10,
            malformed={},
            num_kept=10,
        )
    ],
    funnels={
        "problems": [
            FunnelStep(step="repeats", removed=2, left=8),
            FunnelStep(step="benchmarks", removed=1, left=7),
        ]
    },
    checked_against=["math500"],
    not_checked=[],
    num_conflicts=0,
    rewriting="none",
    matches="none",
)
