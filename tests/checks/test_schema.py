from __future__ import annotations

from pathlib import Path

import pytest

from tests.checks import schema


@pytest.mark.parametrize("text", ['{"type": "array"}', "{not json", None])
def test_a_schema_that_differs_from_the_model_is_found(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "schema.json"
    if text is not None:
        path.write_text(text)
    assert schema.drift(path, {"type": "object"}) == [schema.STALE]


def test_layout_does_not_matter(tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{ "b": 1,\n "a": 2}\n')
    assert schema.drift(path, {"a": 2, "b": 1}) == []
