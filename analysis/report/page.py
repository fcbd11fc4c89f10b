"""`render`: HTML from templates: escaped, self-contained, with equal bytes for equal values."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

TEMPLATES = Path(__file__).with_name("templates")


def render(template: str, **values: object) -> str:
    """Fill one template; an undefined name is an error, text is escaped."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters["pct"] = percent
    environment.filters["num"] = number
    environment.filters["p"] = p_value
    return environment.get_template(template).render(**values)


def percent(value: float | None, digits: int = 1) -> str:
    """A fraction as a percentage; a dash when there is none.

    >>> percent(0.7062), percent(None)
    ('70.6', '\u2013')
    """
    return "\u2013" if value is None else f"{100 * value:.{digits}f}"


def number(value: float | None, digits: int = 2) -> str:
    """A number with few digits; a dash when there is none.

    >>> number(3.14159), number(None)
    ('3.14', '\u2013')
    """
    return "\u2013" if value is None else f"{value:,.{digits}f}"


def p_value(value: float | None, least: float = 0.0) -> str:
    """A p value; one at the floor of its random draws is shown as a bound.

    >>> p_value(0.0312), p_value(1 / 2001, 1 / 2001), p_value(None)
    ('0.031', '\u2264 0.0005', '\u2013')
    """
    if value is None:
        return "\u2013"
    if value <= least * 1.001:
        return f"\u2264 {least:.1g}"
    return f"{value:.3f}" if value >= 0.001 else f"{value:.1g}"
