"""`row` and `table`: measured values beside their goals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.measures import Measure, Record


def row(measure: Measure, record: Record | str) -> dict[str, Any]:
    """Return the measure with its value, or with the reason why it was not measured."""
    found: dict[str, Any] = {
        "name": measure.name,
        "unit": measure.unit,
        "goal": measure.goal,
        "goal_is": "at most" if measure.is_ceiling else "at least",
    }
    if isinstance(record, str):
        return {**found, "value": None, "why": measure.absent if record.startswith("not raced") else record}
    try:
        value = measure.read(record)
    except (KeyError, IndexError, StopIteration):
        return {**found, "value": None, "why": measure.absent}
    return {**found, "value": value, "reached": measure.reached(value)}


def table(rows: Sequence[dict[str, Any]]) -> list[str]:
    r"""Return the rows as aligned text.

    >>> row = {"name": "a", "unit": "x", "goal": 3.0, "goal_is": "at least"}
    >>> print("\n".join(table([{**row, "value": 2.0, "reached": False}, {**row, "value": None, "why": "no peer"}])))
    measure      value            goal
    a           2.00 x    at least 3 x  not reached
    a                -    at least 3 x  not measured: no peer
    """
    width = max(7, *(len(entry["name"]) for entry in rows))
    lines = [f"{'measure':<{width}}  {'value':>9}  {'goal':>14}"]
    for entry in rows:
        value = "-" if entry["value"] is None else f"{entry['value']:.2f} {entry['unit']}".strip()
        goal = f"{entry['goal_is']} {entry['goal']:g} {entry['unit']}".strip()
        if entry["value"] is None:
            end = f"not measured: {entry['why']}"
        else:
            end = "reached" if entry["reached"] else "not reached"
        lines.append(f"{entry['name']:<{width}}  {value:>9}  {goal:>14}  {end}")
    return lines
