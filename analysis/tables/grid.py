"""`Grid`: a table of text cells, written as CSV, Markdown and LaTeX; its bytes depend on the cells alone."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from records.files import write_text

DASH = "-"
"""A cell without a value."""

_LATEX = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "$": r"\$",
        "#": r"\#",
        "_": r"\_",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Grid:
    """Rows of equal length under a header; lines separate groups of rows."""

    name: str
    title: str
    header: Sequence[str]
    groups: Mapping[str, Sequence[Sequence[str]]]
    """Heading -> rows."""
    note: str

    def __post_init__(self) -> None:
        for rows in self.groups.values():
            for row in rows:
                if len(row) != len(self.header):
                    raise ValueError(
                        f"table {self.name}: a row of {len(row)} under {len(self.header)} columns"
                    )


def to_csv(grid: Grid) -> str:
    """Write one header line; the first column is the heading of the group."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["group", *grid.header])
    for heading, rows in grid.groups.items():
        writer.writerows([heading, *row] for row in rows)
    return text.getvalue()


def to_markdown(grid: Grid) -> str:
    """Write a pipe table; headings of groups are bold rows.

    >>> grid = Grid(name="t", title="T", header=["a", "b"], groups={"g": [["1", "2"]]}, note="n")
    >>> print(to_markdown(grid))
    **T**
    <BLANKLINE>
    | a | b |
    |---|--:|
    | **g** | |
    | 1 | 2 |
    <BLANKLINE>
    n
    <BLANKLINE>
    """
    lines = [f"**{grid.title}**", "", _pipe(grid.header), "|---|" + "--:|" * (len(grid.header) - 1)]
    for heading, rows in grid.groups.items():
        lines.append("| " + " | ".join([f"**{heading}**", *[""] * (len(grid.header) - 1)]).rstrip() + " |")
        lines += [_pipe(row) for row in rows]
    return "\n".join([*lines, "", grid.note, ""])


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", r"\|") for cell in cells) + " |"


def to_latex(grid: Grid) -> str:
    """Write a booktabs table."""
    lines = [
        r"\begin{table}[t]",
        r"\centering\small",
        rf"\caption{{{_tex(grid.title)}. {_tex(grid.note)}}}",
        rf"\label{{tab:{grid.name}}}",
        r"\begin{tabular}{l" + "r" * (len(grid.header) - 1) + "}",
        r"\toprule",
        " & ".join(map(_tex, grid.header)) + r" \\",
    ]
    for heading, rows in grid.groups.items():
        lines += [r"\midrule", rf"\multicolumn{{{len(grid.header)}}}{{l}}{{\textit{{{_tex(heading)}}}}} \\"]
        lines += [" & ".join(map(_tex, row)) + r" \\" for row in rows]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", r"\end{table}", ""])


def _tex(text: str) -> str:
    return text.translate(_LATEX)


def write(grid: Grid, out: Path) -> None:
    """Write the three files."""
    for suffix, text in (("csv", to_csv(grid)), ("md", to_markdown(grid)), ("tex", to_latex(grid))):
        write_text(out / f"{grid.name}.{suffix}", text)


def percent_cell(value: float | None, low: float | None = None, high: float | None = None) -> str:
    """Format a fraction in percent, with its interval if there is one.

    >>> percent_cell(0.806), percent_cell(0.5, 0.41, 0.59), percent_cell(None)
    ('80.6', '50.0 [41.0, 59.0]', '-')
    """
    if value is None:
        return DASH
    if low is None or high is None:
        return f"{100 * value:.1f}"
    return f"{100 * value:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def published_cell(value: float | str | None) -> str:
    """Format a published percentage as printed; a dash for none.

    >>> published_cell(3.33), published_cell(80.6), published_cell(None), published_cell(">5000")
    ('3.33', '80.6', '-', '>5000')
    """
    if value is None:
        return DASH
    return value if isinstance(value, str) else f"{value:g}" if isinstance(value, int) else _float(value)


def _float(value: float) -> str:
    text = f"{value:.2f}"
    return text[:-1] if text.endswith("0") else text
