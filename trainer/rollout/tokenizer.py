"""`FolderCodec`, `train_tokenizer`: tokenizers, read from a checkpoint or trained on the corpus for a random model.

Training gives a byte-level BPE with isolated digits and no split at blanks: merges cross words, so a small vocabulary
holds whole phrases of a narrow corpus (2.4 x fewer tokens than word-bounded merges on the tiny problems).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from records.errors import ConfigError
from records.files import read_json
from trainer.rollout.chat import TAGS, TURN_END, ChatFormat, chat_template
from trainer.rollout.chat_text import foreign_spans

END_OF_TEXT = "<|endoftext|>"
SPECIAL = (END_OF_TEXT, "<|im_start|>", str(TURN_END))


class FolderCodec:
    """Codec of a checkpoint folder's tokenizer.json; `chat_text` defines what may become a control token."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self.control = control_ids(tokenizer)
        """Ids that no foreign text may become."""

    @classmethod
    def load(cls, folder: Path) -> FolderCodec:
        """Read tokenizer.json. Raises ConfigError if it is missing, broken, empty, or has ids beyond the model's."""
        path = folder / "tokenizer.json"
        if not folder.is_dir():
            what = "is not a folder" if folder.exists() else "does not exist"
            raise ConfigError(f"{folder}: {what}; give a checkpoint folder")
        if not path.is_file():
            raise ConfigError(f"{path} is missing; give a checkpoint folder with a fast tokenizer")
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing narrower
            raise ConfigError(f"{path}: is not a tokenizer ({error})") from None
        _require_ids_of_model(path, tokenizer)
        return cls(tokenizer)

    @property
    def num_entries(self) -> int:
        """Entries of the vocabulary, added tokens included."""
        return self._tokenizer.get_vocab_size(with_added_tokens=True)

    def encode(self, text: str) -> list[int]:
        """Ids of a text, in which no foreign text becomes a control token.

        Foreign text that spells a control token is cut after its first character, and the parts are encoded
        separately; all other text is encoded as a whole. A tokenizer that prefixes every text with a blank would add
        one at each cut; those of the suite, of Qwen and of SmolLM2 do not.
        """
        spans = foreign_spans(text)
        found: list[int] = []
        # Parts to encode, the next one last; a part that is cut returns as two or more.
        parts = [(0, len(text))]
        while parts:
            start, end = parts.pop()
            encoding = self._tokenizer.encode(str(text[start:end]), add_special_tokens=False)
            hits = [
                (start + a, start + b)
                for token, (a, b) in zip(encoding.ids, encoding.offsets, strict=True)
                if token in self.control
            ]
            cuts = [cut for cut in _cuts(hits, spans) if start < cut < end]
            if not cuts:
                found += encoding.ids
                continue
            edges = [start, *cuts, end]
            parts += reversed(list(pairwise(edges)))
        return found

    def decode(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def token(self, token_id: int) -> str:
        """Text of one token, with partial UTF-8 shown as the replacement character."""
        return self._tokenizer.decode([token_id], skip_special_tokens=False)


def _require_ids_of_model(path: Path, tokenizer: Tokenizer) -> None:
    """Raise ConfigError for the tokenizer of another model, or for a generic one with hardly any entries."""
    ids = tokenizer.get_vocab(with_added_tokens=True).values()
    if not ids or not tokenizer.encode("1 + 1 = 2", add_special_tokens=False).ids:
        raise ConfigError(
            f"{path}: its vocabulary cannot write '1 + 1 = 2'; give the checkpoint's own tokenizer"
        )
    settings = path.with_name("config.json")
    if not settings.is_file():
        return
    size = read_json(settings).get("vocab_size")
    if isinstance(size, int) and max(ids) >= size:
        raise ConfigError(
            f"{path}: names id {max(ids)}, but the model of config.json holds {size} entries; the tokenizer is another "
            "model's, give the checkpoint's own"
        )


def transformers_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer as `transformers` loads it, for its chat template.

    Raises:
        ConfigError: it cannot be read, or `transformers` loaded a generic one with another vocabulary.
    """
    from transformers import AutoTokenizer

    codec = FolderCodec.load(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # any exception: every one means that the files cannot be read
        raise ConfigError(f"{folder}: its tokenizer cannot be read ({str(error).splitlines()[0]})") from None
    if len(tokenizer) != codec.num_entries:
        raise ConfigError(
            f"{folder}: transformers loads a generic {type(tokenizer).__name__} of {len(tokenizer)} entries, "
            f"tokenizer.json holds {codec.num_entries}; repair tokenizer_config.json"
        )
    return tokenizer


def control_ids(tokenizer: Tokenizer) -> frozenset[int]:
    """Ids that no foreign text may become: those of `control_of`, and of the same texts in the vocabulary."""
    added = tokenizer.get_added_tokens_decoder()
    marked = control_of(added)
    contents = {added[token_id].content for token_id in marked}
    known = (tokenizer.token_to_id(content) for content in contents)
    return frozenset(marked | {token_id for token_id in known if token_id is not None})


def control_of(added: Mapping[int, AddedToken]) -> frozenset[int]:
    """Added tokens that control a conversation: the special ones, tags, and texts in angle or square brackets.

    The others are ordinary words or blanks, which foreign text may contain.
    """
    return frozenset(
        token_id
        for token_id, token in added.items()
        if token.special or token.content in TAGS or _BRACKETED.fullmatch(token.content.strip())
    )


_BRACKETED = re.compile(r"<.+>|\[.+\]", re.DOTALL)


def _cuts(hits: Iterable[tuple[int, int]], spans: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Places inside foreign control tokens at which a text is cut; `hits` and `spans` are sorted."""
    left = iter(spans)
    span = next(left, None)
    for start, end in hits:
        while span is not None and span[1] <= start:
            span = next(left, None)
        if span is None:
            return
        if max(start, span[0]) < min(end, span[1]):
            yield max(start + 1, span[0])


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn merges from `texts`, which must not contain special tokens or tags."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - len(TAGS),
        min_frequency=20,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, chat: ChatFormat) -> None:
    """Write tokenizer files and chat template as `transformers` and vLLM read them."""
    from transformers import PreTrainedTokenizerFast

    wrapped = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=str(TURN_END),
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = chat_template(chat)
    wrapped.save_pretrained(folder)
