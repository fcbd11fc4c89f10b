"""The tokenizer: bytes survive, tags are one token each, merges never contain two digits."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from records.errors import ConfigError
from tests.trainer.tiny_checkpoint import TEXT, VOCAB
from trainer.rollout.chat import TAGS
from trainer.rollout.chat_text import live
from trainer.rollout.tokenizer import SPECIAL, FolderCodec, train_tokenizer

CODEC = FolderCodec(train_tokenizer([TEXT] * 40, VOCAB))


@given(st.text(alphabet=st.characters(blacklist_categories=["Cs"]), max_size=60))
def test_any_text_survives_a_round_trip(text: str) -> None:
    assert CODEC.decode(CODEC.encode(text)) == text


@pytest.mark.parametrize("marker", [*TAGS, *SPECIAL])
def test_each_tag_and_marker_is_one_token_anywhere(marker: str) -> None:
    (only,) = CODEC.encode(live(marker))
    assert CODEC.decode([only]) == CODEC.token(only) == marker
    assert CODEC.encode(live(f"The sum{marker}of")) == [*CODEC.encode("The sum"), only, *CODEC.encode("of")]


def test_merges_cross_blanks_and_no_token_holds_two_digits() -> None:
    """The corpus repeats phrases, so words share tokens; numbers stay single digits."""
    texts = [CODEC.token(i) for i in range(VOCAB)]
    assert any(" " in text.strip() for text in texts if "<" not in text)
    assert not any(sum(c.isdigit() for c in text) > 1 for text in texts)
    assert len(CODEC.encode("1234")) == 4
    assert len(set(texts) - {"\ufffd"}) > 100


def test_no_id_exceeds_the_vocabulary() -> None:
    assert max(CODEC.encode(live(TEXT + "".join((*TAGS, *SPECIAL)) + "\u00e9\U0001f600"))) < VOCAB


def test_a_saved_tokenizer_encodes_equally(tiny_checkpoint: Path) -> None:
    text = live(f"{TEXT}<tool_call>1 + 2</tool_call>")
    assert FolderCodec.load(tiny_checkpoint).encode(text) == CODEC.encode(text)


def test_a_folder_without_a_usable_tokenizer_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"tokenizer\.json is missing"):
        FolderCodec.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigError, match="is not a tokenizer"):
        FolderCodec.load(tmp_path)
