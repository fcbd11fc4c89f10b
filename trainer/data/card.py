"""The data card as Markdown: sources, licences, counts at each rule, what is missing."""

from __future__ import annotations

from collections.abc import Iterator

from records.data_card import DataCard, SetReport, SourceCard


def markdown(card: DataCard) -> str:
    """The card for a reader."""
    return "\n".join(_lines(card)) + "\n"


def _lines(card: DataCard) -> Iterator[str]:
    yield f"# {card.title}"
    yield ""
    limit = "all rows" if card.limit is None else f"the first {card.limit:,} rows of each source"
    yield f"Recipe `{card.recipe}` ({card.recipe_digest[:12]}), seed {card.seed}, {limit}."
    yield ""
    non_commercial = [source.name for source in card.sources if source.non_commercial]
    if non_commercial:
        yield f"**Non-commercial parts: {', '.join(non_commercial)}.** What is trained on them inherits the condition."
        yield ""
    yield "## Sources"
    yield ""
    yield "| source | part | read from | licence | rows | expected | kept | malformed | |"
    yield "|---|---|---|---|---:|---:|---:|---|---|"
    yield from (_source(source) for source in card.sources)
    for part, steps in card.funnels.items():
        yield ""
        yield f"## Funnel of the {part}"
        yield ""
        yield "| rule | removed | left |"
        yield "|---|---:|---:|"
        yield from (f"| {step.step} | {step.removed:,} | {step.left:,} |" for step in steps)
    yield ""
    yield "## Benchmarks"
    yield ""
    yield f"Removed: overlaps with {', '.join(card.checked_against) or 'nothing'}."
    yield from (f"Not checked: {line}" for line in card.not_checked)
    for source in card.sources:
        if source.survey is not None:
            yield from _survey(source.name, source)
    yield ""
    yield "## Not done"
    yield ""
    yield f"- Rewriting: {card.rewriting}"
    yield f"- Reference model: {card.matches}"
    yield from (f"- {note}" for note in card.notes)


def _source(source: SourceCard) -> str:
    bad = ", ".join(f"{reason} {count:,}" for reason, count in sorted(source.malformed.items())) or "0"
    marks = [
        "non-commercial" if source.non_commercial else "",
        "" if source.pinned else "not pinned",
        "" if source.format_confirmed else "format unconfirmed",
        source.note or "",
    ]
    expected = "" if source.expected is None else f"{source.expected:,}"
    return (
        f"| {source.name} | {source.part} | {source.place} | {source.licence} | {source.num_rows:,} | {expected} | "
        f"{source.num_kept:,} | {bad} | {'; '.join(mark for mark in marks if mark)} |"
    )


def _survey(name: str, source: SourceCard) -> Iterator[str]:
    survey = source.survey
    assert survey is not None
    languages = ", ".join(f"{language} {count:,}" for language, count in sorted(survey.languages.items()))
    yield ""
    yield (
        f"{name}, all readable rows: languages {languages}; {survey.num_unique:,} different problems, "
        f"{survey.num_conflicting:,} of them with different answers; {survey.num_negative:,} negative answers."
    )
    if survey.overlaps:
        yield ""
        yield "| set | problems | same words | and operators | flagged | naive 13-gram | removes |"
        yield "|---|---:|---:|---:|---:|---:|---|"
        yield from (_set(report) for report in survey.overlaps)


def _set(report: SetReport) -> str:
    return (
        f"| {report.name} | {report.num_problems:,} | {report.num_same_words:,} | {report.num_exact:,} | "
        f"{report.num_flagged:,} | {report.num_naive:,} | {'yes' if report.removes else 'no'} |"
    )
