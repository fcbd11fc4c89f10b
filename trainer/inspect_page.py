"""An inspection as text for a terminal and as one HTML page."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from pathlib import Path

from rich.console import Console
from rich.markup import escape as escape_markup
from rich.text import Text

from records.files import write_text
from trainer.inspect_data import Inspection

WIDTH = 40
"""Signs of the longest bar."""


def show(inspection: Inspection) -> None:
    """Print the rows, what the loss sees in bold green between guillemets, then the lengths."""
    console = Console(highlight=False)
    for row in inspection.rows:
        console.print(f"[bold]{escape_markup(row.title)}[/bold]")
        text = Text()
        for segment in row.segments:
            shown = f"\u00ab{segment.text}\u00bb" if segment.is_trained else segment.text
            text.append(shown, style="bold green" if segment.is_trained else "dim")
        console.print(text)
    for line in lengths(inspection):
        console.print(escape_markup(line))


def lengths(inspection: Inspection) -> Iterator[str]:
    """The length histogram and the share over the budget, as lines."""
    all_lengths = sorted(inspection.lengths)
    yield (
        f"{len(all_lengths):,} rows of {all_lengths[0]:,} to {all_lengths[-1]:,} {inspection.unit}, "
        f"half of them up to {all_lengths[len(all_lengths) // 2]:,}"
    )
    bins = inspection.histogram()
    most = max(count for *_, count in bins)
    for first, last, count in bins:
        yield f"{first:>8,} to {last:>8,} {count:>7,} {'#' * round(WIDTH * count / most)}".rstrip()
    if inspection.truncated_frac is not None:
        yield f"longer than {inspection.budget:,} {inspection.unit}: {100 * inspection.truncated_frac:.2f}% of the rows"


def write_page(inspection: Inspection, path: Path) -> None:
    """Write one self-contained HTML page."""
    write_text(path, "".join(_page(inspection)))


def _page(inspection: Inspection) -> Iterator[str]:
    title = escape(inspection.name)
    yield f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style>'
    yield f"<h1>{title}</h1><p>Green: tokens that enter the loss. Grey: everything else.</p>"
    yield "<h2>Lengths</h2><table>"
    bins = inspection.histogram()
    most = max(count for *_, count in bins)
    for first, last, count in bins:
        bar = f'<div style="width:{round(300 * count / most)}px"></div>'
        yield f"<tr><td>{first:,} to {last:,}</td><td>{count:,}</td><td>{bar}</td></tr>"
    yield f"</table><p>{len(inspection.lengths):,} rows, lengths in {inspection.unit}.</p>"
    if inspection.truncated_frac is not None:
        yield f"<p>Longer than {inspection.budget:,}: {100 * inspection.truncated_frac:.2f}% of the rows.</p>"
    yield "<h2>Rows</h2>"
    for row in inspection.rows:
        yield f"<h3>{escape(row.title)}</h3><pre>"
        for segment in row.segments:
            name = "loss" if segment.is_trained else "rest"
            yield f'<span class="{name}">{escape(segment.text)}</span>'
        yield "</pre>"
    yield "</html>\n"


_STYLE = (
    "body{font:15px sans-serif;max-width:60em;margin:2em auto;padding:0 1em}"
    "pre{white-space:pre-wrap;background:#f7f7f7;padding:1em;overflow-wrap:anywhere}"
    ".loss{color:#065f1d;background:#dff3e4}.rest{color:#666}"
    "td{padding:0 .6em;text-align:right}td div{background:#4a90d9;height:.8em}"
    "h3{font-size:1em}"
    "@media(prefers-color-scheme:dark){body{background:#181818;color:#ddd}pre{background:#222}"
    ".loss{color:#9be8ae;background:#153d20}.rest{color:#999}}"
)
