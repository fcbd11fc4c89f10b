"""The rows of the engines as arrays, against a dict of rows per engine."""

from __future__ import annotations

from random import Random

import numpy as np

from trainer.scheduling.running_rows import RunningRow, RunningRows

NUM_ENGINES = 3


def plain_responses(rows: dict[str, RunningRow], pace: float, t: float, limit: float) -> list[float]:
    return [
        min(row.context - row.prompt + (pace * (t - row.t) if row.decoding else 0.0), limit)
        for row in rows.values()
    ]


def test_arrays_hold_the_rows_of_a_dict_in_its_order_and_in_every_bit() -> None:
    random = Random(0)
    fast, slow = RunningRows(NUM_ENGINES), [dict[str, RunningRow]() for _ in range(NUM_ENGINES)]
    pace_E = [random.random() * 40 for _ in range(NUM_ENGINES)]
    for step in range(2000):
        session, t, limit = str(random.randrange(200)), step * 0.37, 900.0
        for number, rows in enumerate(slow):
            assert fast.pop(number, session) == rows.pop(session, None)
        if random.random() < 0.9:
            engine, prompt = random.randrange(NUM_ENGINES), random.randrange(500)
            row = RunningRow(
                prompt=prompt, context=prompt + random.randrange(700), t=t, decoding=random.random() < 0.7
            )
            fast.put(engine, session, row)
            slow[engine][session] = row
        later = t + random.random()
        for number, rows in enumerate(slow):
            expected = plain_responses(rows, pace_E[number], later, limit)
            assert fast.responses(number, pace=pace_E[number], t=later, limit=limit).tolist() == expected
            assert fast.prompts(number).tolist() == [row.prompt for row in rows.values()]
            assert fast.num_rows(number) == len(rows)
    everything = [plain_responses(rows, pace, 1e3, 900.0) for rows, pace in zip(slow, pace_E, strict=True)]
    found = fast.all_responses(pace_E=pace_E, t=1e3, limit=900.0)
    assert sorted(found.tolist()) == sorted(np.concatenate(everything).tolist())
