"""`EndpointEngine`: an OpenAI-compatible server as an engine, for evaluation only.

The engine asks the server to continue the text of the context (`/completions`). The server returns text, so ids are
re-tokenised and rows are marked `retokenised`. A failed request is retried a few times. A request that keeps failing,
or ends by anything but `stop` or `length`, is aborted and never scored. If the server stops answering, the evaluation
ends with one line.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from records.errors import ConfigError
from trainer.engines.protocol import LiveWeights, Recovery
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.rollout.chat import TURN_END, Codec
from trainer.rollout.chat_text import turn_text

NUM_RETRIES = 3
"""Retries after a dropped connection, a time-out, or a status that allows a retry."""
BACKOFF_S = 0.5
TIMEOUT_S = (10.0, 600.0)
"""Seconds to connect, and between two bytes of a response."""
NUM_AT_ONCE = 64
"""Requests in flight; the server batches them."""
_COME_BACK = (408, 429, 500, 502, 503, 504)
ENDINGS = {"stop": Finish.STOP, "length": Finish.LENGTH}
"""The `finish_reason`s of the model itself; with any other (abort, null, content_filter) the server broke it off."""


class EndpointEngine:
    """Implements `trainer.engines.protocol.Engine` over HTTP. Use `EndpointEngine.open`.

    Args:
        base: address up to and without `/completions`, such as `http://127.0.0.1:8000/v1`.
        model: name that the server gives its model.
        codec: tokenizer of the model.
        timeout_s: seconds to connect, and between two bytes.
    """

    def __init__(
        self,
        *,
        base: str,
        model: str,
        codec: Codec,
        timeout_s: tuple[float, float] = TIMEOUT_S,
    ) -> None:
        self.num_failed = 0
        """Requests that failed in the last retry."""
        self._base, self._model, self._codec = base, model, codec
        self._timeout_s = timeout_s
        self._wake: Callable[[], None] = _nothing
        self._done: queue.Queue[tuple[GenerateRequest, Completion | ConfigError]] = queue.Queue()
        self._in_flight: dict[str, GenerateRequest] = {}
        self._reported: set[str] = set()
        """Unknown endings that have been printed."""
        self._local = threading.local()
        self._pool = ThreadPoolExecutor(NUM_AT_ONCE, thread_name_prefix="endpoint")

    @classmethod
    @contextmanager
    def open(
        cls,
        base: str,
        *,
        codec: Codec,
        timeout_s: tuple[float, float] = TIMEOUT_S,
    ) -> Iterator[EndpointEngine]:
        """Connect to the server and read its model. Raises ConfigError in one line if it cannot be reached."""
        base = base.rstrip("/")
        engine = cls(
            base=base,
            model=served_model(base),
            codec=codec,
            timeout_s=timeout_s,
        )
        try:
            yield engine
        finally:
            engine.close()

    computes = False
    recovery = Recovery.GONE
    version = 0
    """Version of the weights that the server was started with; they never change."""

    def call_when_done(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def close(self) -> None:
        """Wait for the running requests and end the threads."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, request: GenerateRequest) -> None:
        if request.session in self._in_flight:
            raise ValueError(f"session {request.session!r}: already has a request in flight")
        self._in_flight[request.session] = request
        self._pool.submit(self._complete, request)

    def advance(self) -> list[Completion]:
        """Return the finished completions. Raises ConfigError if the server is gone."""
        found: list[Completion] = []
        while not self._done.empty():
            request, item = self._done.get()
            if isinstance(item, ConfigError):
                raise item
            if self._in_flight.get(request.session) is request:  # absent if aborted
                del self._in_flight[request.session]
                found.append(item)
        return sorted(found, key=lambda completion: completion.session)

    def abort(self, session: str) -> None:
        """Drop the rest of the server's response."""
        if session in self._in_flight:
            request = self._in_flight[session]
            self._deliver(request, _completion_of(request, [], Finish.ABORTED))

    def report(self) -> None:
        """Return None: the server does not report its load."""

    def release(self, session: str) -> None:
        """No-op: the server keeps no sessions."""

    def take_weights(self, source: Path | LiveWeights, version: int) -> None:
        raise ConfigError("a server keeps its own weights; start it with the checkpoint")

    # --- one request, in a thread --------------------------------------------------------------------------

    def _complete(self, request: GenerateRequest) -> None:
        """Deliver one item for the request in every case: the loop waits for it."""
        try:
            self._deliver(request, self._completion(request))
        except ConfigError as error:
            self._deliver(request, error)
        except Exception as error:  # such as text that the tokenizer cannot encode
            self.num_failed += 1
            print(
                f"endpoint {self._base}: an answer was dropped: {type(error).__name__}: {error}"[:300],
                flush=True,
            )
            self._deliver(request, _completion_of(request, [], Finish.ABORTED))

    def _deliver(self, request: GenerateRequest, item: Completion | ConfigError) -> None:
        self._done.put((request, item))
        self._wake()

    def _completion(self, request: GenerateRequest) -> Completion:
        """Request a completion; an invalid response is an aborted one. Raises ConfigError if the server is gone."""
        try:
            text, finish = self._ask(request)
        except (requests.RequestException, ValueError, KeyError, TypeError, IndexError) as error:
            self.num_failed += 1
            try:
                served_model(self._base)
            except ConfigError:
                raise ConfigError(
                    f"endpoint {self._base}: stopped answering ({type(error).__name__}); finished work is kept, "
                    "start the server and run again"
                ) from None
            text, finish = "", Finish.ABORTED
        ids = self._codec.encode(turn_text(text)) if text else []
        if finish is Finish.STOP and (not ids or ids[-1] != request.stop_ids[0]):
            ids = [*ids, request.stop_ids[0]]
        return _completion_of(request, ids, finish)

    def _ask(self, request: GenerateRequest) -> tuple[str, Finish]:
        body = {
            "model": self._model,
            "prompt": self._codec.decode(request.ids),
            "max_tokens": request.max_new,
            "seed": request.seed % 2**31,
            "stop": [TURN_END],
            "temperature": request.temperature,
            "top_p": request.top_p,
        }
        answer = self._session().post(f"{self._base}/completions", json=body, timeout=self._timeout_s)
        answer.raise_for_status()
        choice = answer.json()["choices"][0]
        text, reason = choice["text"], choice.get("finish_reason")
        if not isinstance(text, str):
            raise TypeError("text is not a string")
        finish = ENDINGS.get(reason) if isinstance(reason, str) else None
        return text, finish or self._broken_off(reason)

    def _broken_off(self, reason: object) -> Finish:
        """Count a response that the server broke off, and print each kind once."""
        self.num_failed += 1
        shown = repr(reason)[:60]
        if shown not in self._reported:
            self._reported.add(shown)
            print(
                f"endpoint {self._base}: finish_reason {shown} is neither stop nor length: the server broke the answer "
                "off; such samples count as infra_failed, never as wrong",
                flush=True,
            )
        return Finish.ABORTED

    def _session(self) -> requests.Session:
        """One session per thread, with bounded retries and growing pauses."""
        if not hasattr(self._local, "session"):
            self._local.session = new_session()
        return self._local.session


def _nothing() -> None:
    """Default of `wake` until the loop sets its own."""


def _completion_of(request: GenerateRequest, ids: list[int], finish: Finish) -> Completion:
    return Completion(
        session=request.session,
        ids=ids,
        logprobs=[0.0] * len(ids),
        finish=finish,
        policy_version=EndpointEngine.version,
    )


def new_session() -> requests.Session:
    """A session with a few retries; OPENAI_API_KEY holds the key of the server."""
    # urllib3 warns of every retry; the engine reports the outcome in one line.
    logging.getLogger("urllib3.connectionpool").setLevel(logging.ERROR)
    session = requests.Session()
    retry = Retry(
        total=NUM_RETRIES,
        backoff_factor=BACKOFF_S,
        status_forcelist=_COME_BACK,
        allowed_methods=None,
        raise_on_status=False,
    )
    for scheme in ("http://", "https://"):
        session.mount(scheme, HTTPAdapter(max_retries=retry))
    key = os.environ.get("OPENAI_API_KEY")
    if key:
        session.headers["Authorization"] = f"Bearer {key}"
    return session


def served_model(base: str) -> str:
    """Name of the server's first model. Raises ConfigError without a valid response."""
    advice = "is a server running there? An address looks like http://127.0.0.1:8000/v1"
    try:
        answer = new_session().get(f"{base}/models", timeout=(5.0, 30.0))
        answer.raise_for_status()
        return str(answer.json()["data"][0]["id"])
    except requests.JSONDecodeError:
        raise ConfigError(
            f"endpoint {base}: lists its models in something other than JSON; {advice}"
        ) from None
    except requests.RequestException as error:
        raise ConfigError(f"endpoint {base}: cannot be reached ({type(error).__name__}); {advice}") from None
    except (ValueError, KeyError, TypeError, IndexError):
        raise ConfigError(f"endpoint {base}: lists no model; {advice}") from None
