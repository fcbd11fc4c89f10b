"""SFT data of a recipe: conversations.parquet as a corpus, and any corpus as the rows of a training run."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from config.commands import CorpusView
from config.model import RuntimeSection
from records.data_card import CARD, DataCard
from records.errors import ConfigError
from records.manifest import REMEDY, Manifest, verify, write_folder
from records.stored import read_record
from trainer.data.conversations.conversation import Conversation
from trainer.data.conversations.pieces import pieces_of
from trainer.rollout.chat import ChatFormat, Codec
from trainer.sft.corpus import DOCUMENTS, read_documents, row_of_document, texts
from trainer.update.training_rows import Row

CONVERSATIONS = "conversations.parquet"


@dataclass(frozen=True, slots=True)
class CorpusRows:
    """The rows of a corpus."""

    rows: list[Row]
    num_too_long: int
    """Conversations left out, since the model's context does not hold them."""


def publish_conversations(view: CorpusView, runtime: RuntimeSection) -> Manifest:
    """Publish the conversations of the run's data as its corpus; no teacher writes."""
    began = time.monotonic()
    data = verify(runtime.folder.data)
    card = read_record(DataCard, runtime.folder.data / CARD, REMEDY)
    folder = runtime.folder.corpus
    made = folder.with_name(".corpus.tmp")
    shutil.rmtree(made, ignore_errors=True)
    made.mkdir(parents=True)
    shutil.copyfile(runtime.folder.data / CONVERSATIONS, made / CONVERSATIONS)
    sources = [source for source in card.sources if source.part == "conversations"]
    facts = {
        "num_documents": sum(source.num_kept for source in sources),
        "num_calls": card.num_calls,
        "num_results": card.num_results,
        "sources": {source.name: source.num_kept for source in sources},
        "non_commercial": [source.name for source in sources if source.non_commercial],
        "rewriting": card.rewriting,
    }
    return write_folder(
        folder,
        made,
        {
            "stage": "corpus",
            "parent": None,
            "data": data.digest,
            "sections": view.record,
            "facts": facts,
        },
        {"finished_unix_s": time.time(), "seconds": time.monotonic() - began},
    )


def read_conversations(path: Path) -> Iterator[Conversation]:
    """Conversations of a Parquet file, in order. Raises ConfigError when it is no such file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        for batch in pq.ParquetFile(path).iter_batches(batch_size=1000):
            yield from (Conversation.from_json(row) for row in batch.to_pylist())
    except (OSError, pa.ArrowException, KeyError, TypeError) as error:
        first = (str(error).splitlines() or [type(error).__name__])[0][:120]
        raise ConfigError(
            f"{path}: holds no conversations ({first}); run `python -m trainer prepare`"
        ) from None


def row_of_conversation(conversation: Conversation, chat: ChatFormat, codec: Codec) -> Row:
    """Ids with a mask that is true on assistant tokens. Each piece is encoded separately, as in a rollout."""
    ids: list[int] = []
    mask: list[bool] = []
    for piece in pieces_of(conversation, chat):
        encoded = codec.encode(piece.text)
        ids, mask = ids + encoded, mask + [piece.is_trained] * len(encoded)
    return Row(ids=ids, mask=mask, logprob=[0.0] * len(ids), advantage=1.0, group=conversation.id)


def corpus_rows(corpus: Path, chat: ChatFormat, codec: Codec, positions: int | None) -> CorpusRows:
    """Rows of a corpus folder: documents of the teacher, or conversations that `positions` tokens hold."""
    if not (corpus / CONVERSATIONS).is_file():
        return CorpusRows([row_of_document(d, chat, codec) for d in read_documents(corpus / DOCUMENTS)], 0)
    rows, num_too_long = [], 0
    for conversation in read_conversations(corpus / CONVERSATIONS):
        row = row_of_conversation(conversation, chat, codec)
        if positions is not None and len(row.ids) > positions:
            num_too_long += 1
        else:
            rows.append(row)
    return CorpusRows(rows, num_too_long)


def corpus_texts(corpus: Path, chat: ChatFormat) -> Iterator[str]:
    """The texts of a corpus that train a tokenizer."""
    if (corpus / CONVERSATIONS).is_file():
        for conversation in read_conversations(corpus / CONVERSATIONS):
            yield from (piece.text for piece in pieces_of(conversation, chat))
        return
    for document in read_documents(corpus / DOCUMENTS):
        yield from texts(document, chat)
