"""`Rewriter`: rewrites prompts or responses with a model behind an OpenAI-compatible server (paper section 4.1).

Off unless `prepare --rewrite URL` asks for it. Each text is asked for once and kept in a file, so a killed job asks
for what is missing alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests

from config.recipes import Rewritten
from records.digest import digest
from records.errors import ConfigError
from trainer.engines.endpoint import new_session, served_model

NUM_AT_ONCE = 16
TIMEOUT_S = (10.0, 600.0)
_PROMPT = (
    "Rewrite this request in other words. Keep its meaning, its language and every constraint. Answer with the "
    "rewritten request alone.\n\n"
)

Message = Mapping[str, Any]
"""A message of a conversation as a row has it: role, text, calls."""


class Rewriter:
    """Asks a server, through a cache on disk.

    Args:
        base: address up to and without `/chat/completions`.
        cache: JSONL of what was rewritten; lines that a kill cut short are asked for again.
    """

    def __init__(self, base: str, cache: Path) -> None:
        self.base, self.cache = base.rstrip("/"), cache
        self.model = served_model(self.base)
        self._lock, self._local = threading.Lock(), threading.local()
        self._known: dict[str, str] = {}
        if cache.is_file():
            for line in cache.read_text(encoding="utf-8", errors="replace").split("\n"):
                try:
                    row = json.loads(line)
                    self._known[row["key"]] = row["text"]
                except (ValueError, KeyError, TypeError):
                    continue

    def fill(self, conversations: Iterable[tuple[Rewritten, Sequence[Message]]]) -> int:
        """Ask for every conversation that is not in the cache; returns how many were asked for.

        Raises ConfigError when the server fails; what it has answered is kept.
        """
        missing = {self._key(kind, messages): (kind, messages) for kind, messages in conversations}
        missing = {key: value for key, value in missing.items() if key not in self._known}
        self.cache.parent.mkdir(parents=True, exist_ok=True)
        with self.cache.open("a", encoding="utf-8") as file:
            file.write("\n")  # ends a line that a kill cut short
        with ThreadPoolExecutor(NUM_AT_ONCE) as pool:
            try:
                list(pool.map(self._ask, missing.items()))
            except (requests.RequestException, ValueError, KeyError, TypeError, IndexError) as error:
                pool.shutdown(cancel_futures=True)
                raise ConfigError(
                    f"--rewrite {self.base}: a request failed ({type(error).__name__}); run the same command again, "
                    f"which asks for what {self.cache} does not hold"
                ) from None
        return len(missing)

    def rewritten(self, kind: Rewritten, messages: Sequence[Message]) -> list[dict[str, Any]]:
        """The messages with the first request, or the last response, replaced. The text must be in the cache."""
        text = self._known[self._key(kind, messages)]
        at = _first_user(messages) if kind == "prompts" else len(messages) - 1
        changed = [dict(message) for message in messages]
        changed[at]["text"] = text
        return changed

    def _key(self, kind: Rewritten, messages: Sequence[Message]) -> str:
        return digest([self.model, kind, _asked(kind, messages)])

    def _ask(self, item: tuple[str, tuple[Rewritten, Sequence[Message]]]) -> None:
        key, (kind, messages) = item
        session = getattr(self._local, "session", None) or new_session()
        self._local.session = session
        body = {"model": self.model, "messages": _asked(kind, messages)}
        answer = session.post(f"{self.base}/chat/completions", json=body, timeout=TIMEOUT_S)
        answer.raise_for_status()
        text = answer.json()["choices"][0]["message"]["content"]
        if not isinstance(text, str) or not text.strip():
            raise ValueError("an empty answer")
        with self._lock, self.cache.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, "text": text}, ensure_ascii=False) + "\n")
            self._known[key] = text


def _asked(kind: Rewritten, messages: Sequence[Message]) -> list[dict[str, str]]:
    """What the server is asked: to answer the conversation, or to rewrite its first request."""
    if kind == "prompts":
        return [{"role": "user", "content": _PROMPT + messages[_first_user(messages)]["text"]}]
    return [{"role": message["role"], "content": message["text"]} for message in messages[:-1]]


def _first_user(messages: Sequence[Message]) -> int:
    return next(at for at, message in enumerate(messages) if message["role"] == "user")
