"""`unit_of`: what an effect is measured in, by its endpoint."""

from __future__ import annotations

from typing import Literal

from analysis.claims import endpoints as e

EffectUnit = Literal[
    "share", "points", "tokens", "tokens per step", "nats", "lift - 1", "ratio - 1", "s", "days", "K"
]
"""share: a fraction, shown as percentage points; points: percentage points already; K: thousands."""


def unit_of(endpoint: e.Endpoint) -> EffectUnit | None:
    """The unit of an endpoint's effect; None where there is no endpoint.

    >>> unit_of(e.ZoneLift(kind="zone_lift", zone="coding"))
    'lift - 1'
    >>> unit_of(e.ArmDifference(kind="arm_difference", a="a", b="b", metric="response_len_mean"))
    'tokens'
    """
    match endpoint:
        case e.NoEndpoint():
            return None
        case e.LengthLevel():
            return "tokens"
        case e.MetricSlope():
            return "tokens per step" if _in_tokens(endpoint.metric) else "share"
        case e.ArmDifference() | e.MetricLevel():
            if endpoint.metric == "entropy_mean":
                return "nats"
            return "tokens" if _in_tokens(endpoint.metric) else "share"
        case e.EntropyContrast() | e.TurnStartContrast():
            return "nats"
        case e.ZoneLift():
            return "lift - 1"
        case e.SchedulerRatio():
            return "ratio - 1"
        case e.Latency():
            return "s"
        case e.WallTime():
            return "days"
        case e.PublishedGap() | e.PublishedGranularity():
            return "points"
        case e.PublishedSum():
            return "K"
        case _:
            return "share"


def shown(value: float, unit: EffectUnit | None, *, signed: bool = True) -> str:
    """A value of an effect as text without its unit; shares as percentage points.

    >>> shown(0.1234, "share"), shown(-0.8731, "nats"), shown(3.0, "tokens", signed=False)
    ('+12.3', '-0.873', '3')
    """
    match unit:
        case "share":
            text = f"{100 * value:+.1f}"
        case "tokens":
            text = f"{value:+,.0f}"
        case "nats" | "lift - 1" | "ratio - 1" | "s":
            text = f"{value:+.3f}"
        case _:
            text = f"{value:+.2f}"
    return text if signed else text.lstrip("+")


def called(unit: EffectUnit | None) -> str:
    """The unit as a reader sees it.

    >>> called("share")
    'points'
    """
    return "points" if unit == "share" else unit or ""


def _in_tokens(metric: str) -> bool:
    return metric.startswith(("response_len", "tokens_"))
