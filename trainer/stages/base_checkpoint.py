"""`make_base`: the base checkpoint, a random model with a tokenizer trained on the corpus or a pretrained copy."""

from __future__ import annotations

import re
import shutil
import time
from pathlib import Path
from typing import Any

from transformers import AutoConfig

from config.commands import BaseView
from config.model import RuntimeSection
from records.errors import ConfigError
from records.files import read_json, write_json
from records.manifest import MANIFEST, RUN, Manifest, verify, write_folder
from trainer.engines.decoder import Shape
from trainer.model import random_model, save_model, use_threads
from trainer.rollout.chat import TAGS, TURN_END, ChatFormat, chat_format, chat_template
from trainer.rollout.tokenizer import END_OF_TEXT, SPECIAL, FolderCodec, save_tokenizer, train_tokenizer
from trainer.sft.conversations import corpus_texts
from trainer.start import pretrained_fault
from trainer.update.grpo import OPTIMIZER
from trainer.weights import one_line, read_model

_MARKERS = re.compile("|".join(re.escape(marker) for marker in (*SPECIAL, *TAGS)))


TEMPLATE = "chat_template.jinja"
_SENTENCE = 'print(f"{3 + 4}")\nis 7, na\u00efve \u2264 8</reason>'
"""Must survive encoding and decoding: a tokenizer that loses text would lose code."""
_NOT_PRETRAINED = {MANIFEST, RUN, OPTIMIZER}
"""Manifest of a checkpoint of this suite; it describes the source folder, so it is not copied."""


def make_base(view: BaseView, runtime: RuntimeSection) -> Manifest:
    """Publish checkpoints/base."""
    use_threads(runtime)
    folder = runtime.folder
    began = time.monotonic()
    corpus = verify(folder.corpus)
    made = folder.checkpoint("base").with_name(".base.tmp")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    chat = chat_format(view.rollout)
    if view.model.path is not None:
        if fault := pretrained_fault(view.model):
            raise ConfigError(fault)
        _copy_pretrained(Path(view.model.path), made, chat)
        facts: dict[str, Any] = {}
    else:
        facts = _make_random(view, folder.corpus, chat, made)
    return write_folder(
        folder.checkpoint("base"),
        made,
        {
            "stage": "base",
            "parent": None,
            "data": corpus.digest,
            "sections": view.record,
            "facts": facts | {"rl_steps": 0},
        },
        {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
    )


def _make_random(view: BaseView, corpus: Path, chat: ChatFormat, made: Path) -> dict[str, Any]:
    pieces = (piece for text in corpus_texts(corpus, chat) for piece in _MARKERS.split(text) if piece)
    tokenizer = train_tokenizer(pieces, view.model.vocab_size)
    (end_id,), (pad_id,) = (tokenizer.encode(token).ids for token in (TURN_END, END_OF_TEXT))
    model = random_model(view.model, view.model.vocab_size, end_id, pad_id)
    save_model(model, made)
    save_tokenizer(tokenizer, made, chat)
    return {
        "num_parameters": sum(parameter.numel() for parameter in model.parameters()),
        "vocab_used": tokenizer.get_vocab_size(),
    }


def _copy_pretrained(source: Path, made: Path, chat: ChatFormat) -> None:
    """Copy weights and tokenizer unchanged; the chat template becomes that of the rollouts (`template_check`)."""
    for path in source.iterdir():
        if path.name in _NOT_PRETRAINED:
            continue
        if path.is_file() and path.suffix in {".json", ".safetensors", ".jinja", ".txt", ".model"}:
            shutil.copyfile(path, made / path.name)
    (made / TEMPLATE).write_text(chat_template(chat), encoding="utf-8")
    settings = made / "tokenizer_config.json"
    if settings.is_file():
        record = read_json(settings)
        record.pop("chat_template", None)
        write_json(settings, record)
    _require_usable(source, made)


def _require_usable(source: Path, made: Path) -> None:
    """Raise ConfigError for what the rollouts would refuse after hours of SFT, weights included."""
    try:
        Shape.from_config(AutoConfig.from_pretrained(made, local_files_only=True))
        codec = FolderCodec.load(made)
        num_pieces = len(codec.encode(TURN_END))
        read_model(made, dtype="auto")
    except Exception as error:  # any exception: every one means that the folder cannot be read
        raise ConfigError(f"model.path = {source}: {one_line(error)}") from None
    if codec.decode(codec.encode(_SENTENCE)) != _SENTENCE:
        raise ConfigError(
            f"model.path = {source}: its tokenizer reads {_SENTENCE!r} back as "
            f"{codec.decode(codec.encode(_SENTENCE))!r}; give a checkpoint with a byte-level tokenizer of its own"
        )
    if num_pieces != 1:
        raise ConfigError(
            f"model.path = {source}: its tokenizer splits {TURN_END} into {num_pieces} tokens; give a checkpoint "
            "that has it as a special token, such as a Qwen or SmolLM2 one"
        )
