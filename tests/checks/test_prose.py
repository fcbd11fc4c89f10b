"""The prose check finds excluded words with their place, and nothing else."""

from __future__ import annotations

from tests.checks.prose import hits, lines_of, long_sentences, python_prose


def found_in(source: str) -> list[tuple[int, str]]:
    return [(number, word) for number, line in python_prose(source) for word, _ in hits(line)]


def test_comments_strings_and_names_are_read() -> None:
    source = (
        'x = 1  # the engine hears it\n\n\ndef is_told() -> str:\n    """One.\n\n    It is said.\n    """\n'
    )
    assert found_in(source) == [(1, "hears"), (4, "told"), (7, "said")]


def test_words_inside_other_words_pass() -> None:
    assert found_in("unknown = essay = 'hourly savings retold-free'  # commendable\n") == []


def test_code_in_a_document_is_not_prose() -> None:
    text = "Run `say`:\n```sh\nsay hello\n```\nThe caller wants it.\n"
    assert [(n, word) for n, line in lines_of(text) for word, _ in hits(line)] == [(5, "wants")]


def test_a_long_sentence_is_counted_over_lines_and_ends_at_a_list() -> None:
    words = "word " * 21
    assert long_sentences(f"Short one. {words}\n{words}end.\n") == [(1, 43)]
    assert long_sentences(f"{words}\n- {words}end.\n") == []
