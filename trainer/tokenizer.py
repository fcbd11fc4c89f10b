"""The tokenizer: trained on the corpus for a random model, read from the checkpoint otherwise.

Byte-level BPE with isolated digits and no split at blanks, so that merges cross words: a small vocabulary then
holds whole phrases of a narrow corpus (2.4 x fewer tokens than word-bounded merges on the tiny problems).
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, trainers

from config.errors import ConfigError
from trainer.atomic import read_json
from trainer.chat import TAGS, TURN_END, ChatFormat, chat_template

END_OF_TEXT = "<|endoftext|>"
SPECIAL = (END_OF_TEXT, "<|im_start|>", TURN_END)


class FolderCodec:
    """Codec of a checkpoint folder's tokenizer.json."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer

    @classmethod
    def load(cls, folder: Path) -> FolderCodec:
        """Read tokenizer.json. ConfigError when it is missing, broken, empty, or names ids that the model has not."""
        path = folder / "tokenizer.json"
        if not folder.is_dir():
            raise ConfigError(f"{folder}: does not exist; give a checkpoint folder")
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
        return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=False)

    def token(self, token_id: int) -> str:
        """Text of one token, with partial UTF-8 shown as the replacement character."""
        return self._tokenizer.decode([token_id], skip_special_tokens=False)


def _require_ids_of_model(path: Path, tokenizer: Tokenizer) -> None:
    """The tokenizer of another model names ids beyond the embedding; a generic one knows next to nothing."""
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
        ConfigError: it cannot be read, or `transformers` fell back to a generic one of another vocabulary.
    """
    from transformers import AutoTokenizer

    codec = FolderCodec.load(folder)
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(folder), local_files_only=True)
    except Exception as error:  # whatever is in its files, the folder is at fault
        raise ConfigError(f"{folder}: its tokenizer cannot be read ({str(error).splitlines()[0]})") from None
    if len(tokenizer) != codec.num_entries:
        raise ConfigError(
            f"{folder}: transformers loads a generic {type(tokenizer).__name__} of {len(tokenizer)} entries, "
            f"tokenizer.json holds {codec.num_entries}; repair tokenizer_config.json"
        )
    return tokenizer


def train_tokenizer(texts: Iterable[str], vocab_size: int) -> Tokenizer:
    """Learn merges from `texts`, which must hold no special tokens or tags."""
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
        eos_token=TURN_END,
        pad_token=END_OF_TEXT,
        clean_up_tokenization_spaces=False,
    )
    wrapped.chat_template = chat_template(chat)
    wrapped.save_pretrained(folder)
