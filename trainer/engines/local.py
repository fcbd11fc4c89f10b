"""`LocalEngine`: batched decoding in this process, for CPUs, small models and tests.

It is deterministic: equal submissions at equal iterations give bit-equal ids and log-probs. A sampled stream depends on
the request's seed and the model's scores alone; the other rows of the batch can change a score by rounding, never a
seed.

One iteration of `advance` admits waiting turns, caches the new tokens of their contexts (siblings' common prompt once),
feeds every running row its last token and draws the next. A session that ends a turn stays cached until `release`, so
its next turn caches only the tool response. If the cached tokens would exceed the capacity, the engine first drops the
sessions parked longest, then preempts the last admitted row: its sampled ids are kept and recomputed later.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedConfig

from trainer.engines.decoder import Decoder, Ids
from trainer.engines.draw import sample, uniforms
from trainer.engines.kv_cache import KVCache
from trainer.engines.protocol import LiveWeights, Recovery
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.engines.row_table import MAX_STOP_IDS, RowTable

_PREFILL_TOKENS = 8192
"""Largest number of padded tokens of one prefill batch; bounds its memory."""


class StepModel(Protocol):
    """The engine's interface to a decoder; tests implement it with scripted scores."""

    def allocate(self) -> KVCache: ...

    def prefill(
        self, cache: KVCache, rows: Sequence[int], starts: Sequence[int], suffixes: Sequence[Ids]
    ) -> None: ...

    def step(self, cache: KVCache, tokens_N: Tensor, position_N: Tensor) -> Tensor: ...


@dataclass(frozen=True, slots=True)
class _Turn:
    """A request and the tokens sampled for it before a preemption."""

    request: GenerateRequest
    context: np.ndarray
    """Request ids, followed by the tokens sampled before a preemption."""
    logprob: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))


class LocalEngine:
    """Implements `trainer.engines.protocol.Engine` on one device.

    Args:
        engine: number in reports.
        capacity_tokens: limit of cached tokens over all sessions.
        max_len: limit of one context, sampled tokens included.
    """

    def __init__(
        self,
        *,
        engine: int,
        capacity_tokens: int,
        max_len: int,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.iteration = 0
        self._engine, self._capacity, self._max_len = engine, capacity_tokens, max_len
        self._device, self._dtype = torch.device(device), dtype
        self._model: StepModel | None = None
        self._version = -1
        self._checked: dict[str, object] | None = None
        self._cache: KVCache | None = None
        self._table = RowTable(max_len)
        self._waiting: deque[_Turn] = deque()
        self._running: dict[str, GenerateRequest] = {}
        """In order of admission; the last one is preempted first."""
        self._parked: dict[str, None] = {}
        """Cached sessions without a request; the one parked longest first."""
        self._in_flight: set[str] = set()
        self._prompts: dict[bytes, str] = {}
        """A prompt and the session that cached it first."""
        self._prompt_of: dict[str, bytes] = {}
        self._aborted: list[Completion] = []
        self._num_preemptions = 0
        self.num_prefilled = 0
        """Tokens cached by prefill; copies of a sibling's prompt do not count."""

    # --- weights -----------------------------------------------------------------------------------------

    computes = True
    recovery = Recovery.GONE

    @property
    def version(self) -> int:
        return self._version

    def call_when_done(self, wake: Callable[[], None]) -> None:
        """No-op: completions appear inside `advance` only."""

    def take_weights(self, source: Path | LiveWeights, version: int) -> None:
        """Load a Hugging Face folder or a module's tensors. Raises ValueError if exact decoding is not possible."""
        if isinstance(source, LiveWeights):
            self._take_tensors(source.tensors, source.config, version)
        else:
            self._take_folder(source, version)

    def _take_folder(self, checkpoint: Path, version: int) -> None:
        decoder = Decoder.from_folder(
            checkpoint, max_len=self._max_len, device=self._device, dtype=self._dtype
        )
        self.use(decoder, version)
        self._checked = None

    def _take_tensors(self, state_dict: Mapping[str, Tensor], config: PreTrainedConfig, version: int) -> None:
        """Copy the tensors; only the first ones of a config are checked."""
        options = {"max_len": self._max_len, "device": self._device, "dtype": self._dtype}
        if self._checked == config.to_dict():
            cache = self._cache
            self.use(Decoder(state_dict, config, **options), version)
            # Same shape: the cache keeps its memory, and no row refers to its contents.
            self._cache = cache
        else:
            self.use(Decoder.from_state_dict(state_dict, config, **options), version)
            self._checked = config.to_dict()

    def use(self, model: StepModel, version: int) -> None:
        """Decode with `model` from now on. Raises RuntimeError while requests are in flight."""
        if self._in_flight:
            raise RuntimeError(
                f"{len(self._in_flight)} requests are in flight: finish or abort them before new weights"
            )
        self._model, self._version = model, version
        self.reset_prefix_cache()
        self._cache = None

    def reset_prefix_cache(self) -> None:
        """Drop every cached context; rows in flight are recomputed (public fault B43)."""
        for session in reversed(list(self._running)):
            self._preempt(session)
        for session in list(self._parked):
            self._forget(session)

    def close(self) -> None:
        """Free the weights and the cache."""
        self._model = self._cache = None

    # --- requests ----------------------------------------------------------------------------------------

    def submit(self, request: GenerateRequest) -> None:
        problem = self._refusal(request)
        if problem:
            raise ValueError(f"session {request.session!r}: {problem}")
        self._in_flight.add(request.session)
        self._waiting.append(_Turn(request, np.array(request.ids, np.int64)))

    def _refusal(self, request: GenerateRequest) -> str:
        if request.session in self._in_flight:
            return "already has a request in flight"
        version = self._version if self._model is not None else request.policy_version
        return refusal(request, version, min(self._max_len, self._capacity))

    def abort(self, session: str) -> None:
        """Ignore unknown sessions; the completion holds the tokens sampled so far."""
        if session in self._running:
            self._finish(session, Finish.ABORTED, self._aborted)
            return
        turn = next((turn for turn in self._waiting if turn.request.session == session), None)
        if turn is not None:
            self._waiting.remove(turn)
            self._in_flight.remove(session)
            ids = turn.context[len(turn.context) - len(turn.logprob) :]
            self._aborted.append(self._completion(turn.request, ids, turn.logprob, Finish.ABORTED))

    def release(self, session: str) -> None:
        if session in self._in_flight:
            raise RuntimeError(f"session {session!r} has a request in flight: abort it first")
        if session in self._parked:
            self._forget(session)

    def report(self) -> EngineReport:
        return EngineReport(
            engine=self._engine,
            t=float(self.iteration),
            free_kv_tokens=self._capacity - self._table.num_cached,
            capacity_tokens=self._capacity,
            running=len(self._running),
            waiting=len(self._waiting),
            preemptions=self._num_preemptions,
        )

    def advance(self) -> list[Completion]:
        """Run one decode iteration; an idle one only counts."""
        self.iteration += 1
        done, self._aborted = self._aborted, []
        if self._in_flight:
            if self._model is None:
                raise RuntimeError(f"engine {self._engine} has no weights: take_weights first")
            if self._cache is None:
                self._cache = self._model.allocate()
            if not self._make_room():
                self._admit(self._model, self._cache)
            self._compact(self._cache)
            self._decode(self._model, self._cache, done)
        return sorted(done, key=lambda completion: completion.session)

    # --- inside one iteration ----------------------------------------------------------------------------

    def _make_room(self) -> bool:
        """Let every running row add a token within the capacity; True if a row was preempted."""
        preempted = False
        while not self._fits(0):
            if self._parked:
                self._forget(next(iter(self._parked)))
            else:
                self._preempt(next(reversed(self._running)))
                self._num_preemptions += 1
                preempted = True
        return preempted

    def _fits(self, num_tokens: int) -> bool:
        """Whether `num_tokens` more can be cached in addition to one new token of each running row."""
        return self._table.num_cached + len(self._running) + num_tokens <= self._capacity

    def _admit(self, model: StepModel, cache: KVCache) -> None:
        """Start waiting turns in order, while their contexts fit, and cache their new tokens."""
        table = self._table
        admitted: list[tuple[str, int]] = []
        while self._waiting:
            turn = self._waiting[0]
            session = turn.request.session
            if session in self._parked and not table.continues(session, turn.context):
                self._forget(session)
            parked = self._parked.pop(session, "") is None
            start = table.cached_len(session)
            while self._parked and not self._fits(len(turn.context) - start):
                self._forget(next(iter(self._parked)))
            if not self._fits(len(turn.context) - start):
                if parked:
                    self._parked[session] = None
                break
            self._waiting.popleft()
            table.begin(session, turn.request, turn.context, turn.logprob)
            self._running[session] = turn.request
            admitted.append((session, start))
        cache.grow(table.num_rows)
        self._prefill(model, cache, admitted)

    def _prefill(self, model: StepModel, cache: KVCache, admitted: list[tuple[str, int]]) -> None:
        """Cache contexts except their last id; siblings get a copy of their common prompt."""
        table = self._table
        jobs: list[tuple[int, int, np.ndarray]] = []
        copies: dict[str, list[str]] = {}
        for session, start in admitted:
            suffix = table.context(session)[start:-1]
            if not len(suffix):
                continue
            if start == 0:
                source = self._prompts.setdefault(suffix.tobytes(), session)
                if source != session and table.holds(source, suffix):
                    copies.setdefault(source, []).append(session)
                    continue
                self._remember_prompt(session, suffix.tobytes())
            jobs.append((table.row_of[session], start, suffix))
        for batch in _prefill_batches(jobs):
            rows, starts, suffixes = (list(part) for part in zip(*batch, strict=True))
            model.prefill(cache, rows, starts, suffixes)
            self.num_prefilled += sum(map(len, suffixes))
        for source, sessions in copies.items():
            length = table.cached_len(sessions[0])
            cache.copy(table.row_of[source], [table.row_of[session] for session in sessions], length)

    def _remember_prompt(self, session: str, key: bytes) -> None:
        self._forget_prompt(session)
        self._prompts[key] = session
        self._prompt_of[session] = key

    def _forget_prompt(self, session: str) -> None:
        key = self._prompt_of.pop(session, None)
        if key is not None and self._prompts.get(key) == session:
            del self._prompts[key]

    def _compact(self, cache: KVCache) -> None:
        table = self._table
        for hole, row in table.compaction():
            length = int(max(table.position_N[hole], table.position_N[row]))
            if table.position_N[hole]:
                cache.swap(hole, row, length)
            else:
                cache.copy(row, [hole], length)
            table.exchange(hole, row)

    def _decode(self, model: StepModel, cache: KVCache, done: list[Completion]) -> None:
        """Feed every running row its last id, draw the next, and finish the turns that end."""
        table, width = self._table, self._table.width
        if not width:
            return
        position_N = table.position_N[:width].copy()
        token_N = table.ids_NL[np.arange(width), position_N]
        scores_NV = model.step(cache, self._to_device(token_N), self._to_device(position_N))
        uniform_N = self._to_device(uniforms(table.seed_N[:width], table.num_sampled_N[:width]))
        drawn_N, logprob_N = self._draw(scores_NV, uniform_N)
        for row in table.record(drawn_N.cpu().numpy(), logprob_N.cpu().numpy()):
            stopped = table.ids_NL[row, table.position_N[row]] in table.stop_NK[row]
            self._finish(table.session(row), Finish.STOP if stopped else Finish.LENGTH, done)

    @torch.inference_mode()
    def _draw(self, scores_NV: Tensor, uniform_N: Tensor) -> tuple[Tensor, Tensor]:
        """Draw each live row with its request's settings; rows of equal settings take one call."""
        table, width = self._table, len(scores_NV)
        live_N = table.live_N[:width]
        settings = set(zip(table.temperature_N[:width][live_N], table.top_p_N[:width][live_N], strict=True))
        if len(settings) <= 1:
            temperature, top_p = next(iter(settings), (1.0, 1.0))
            return sample(scores_NV, uniform_N, temperature=float(temperature), top_p=float(top_p))
        drawn_N = torch.zeros(width, dtype=torch.int64, device=scores_NV.device)
        logprob_N = torch.zeros(width, device=scores_NV.device)
        for temperature, top_p in sorted(settings):
            equal_N = (table.temperature_N[:width] == temperature) & (table.top_p_N[:width] == top_p)
            rows = self._to_device(np.flatnonzero(live_N & equal_N))
            drawn_N[rows], logprob_N[rows] = sample(
                scores_NV[rows], uniform_N[rows], temperature=float(temperature), top_p=float(top_p)
            )
        return drawn_N, logprob_N

    def _to_device(self, array: np.ndarray) -> Tensor:
        return torch.from_numpy(array).to(self._device)

    def _finish(self, session: str, finish: Finish, done: list[Completion]) -> None:
        """End a running turn; its cache stays, parked."""
        ids, logprob = self._table.sampled(session)
        done.append(self._completion(self._running.pop(session), ids, logprob, finish))
        self._in_flight.remove(session)
        self._table.park(session)
        self._parked[session] = None

    def _completion(
        self, request: GenerateRequest, ids: np.ndarray, logprob: np.ndarray, finish: Finish
    ) -> Completion:
        return Completion(
            session=request.session,
            ids=ids.tolist(),
            logprobs=logprob.tolist(),
            finish=finish,
            policy_version=self._version,
        )

    def _preempt(self, session: str) -> None:
        """Return a running turn to the head of the queue with its sampled ids."""
        _, logprob = self._table.sampled(session)
        turn = _Turn(self._running.pop(session), self._table.context(session), logprob)
        self._waiting.appendleft(turn)
        self._forget(session)

    def _forget(self, session: str) -> None:
        """Free a session's row."""
        self._parked.pop(session, None)
        self._forget_prompt(session)
        self._table.forget(session)


def refusal(request: GenerateRequest, version: int, longest: int) -> str:
    """Why an engine that holds `version` and contexts of `longest` tokens cannot serve the request; else empty."""
    if request.policy_version != version:
        return f"asks for policy version {request.policy_version}, the engine holds {version}"
    if not request.ids or request.max_new < 1:
        return "needs at least one id and max_new >= 1"
    if request.temperature < 0:
        return f"temperature {request.temperature}: must be 0 (greedy) or more"
    if not 0 < request.top_p <= 1:
        return f"top_p {request.top_p}: must be above 0 and at most 1"
    if len(request.stop_ids) > MAX_STOP_IDS:
        return f"{len(request.stop_ids)} stop ids, at most {MAX_STOP_IDS} are supported"
    if len(request.ids) + request.max_new > longest:
        return (
            f"context {len(request.ids)} + max_new {request.max_new} tokens exceed {longest}, "
            "the smaller of max_len and capacity_tokens: end the rollout or raise the limit"
        )
    return ""


def _prefill_batches(jobs: list[tuple[int, int, np.ndarray]]) -> list[list[tuple[int, int, np.ndarray]]]:
    """Group (row, start, suffix) jobs of similar length: little padding, bounded memory."""
    batches: list[list[tuple[int, int, np.ndarray]]] = []
    for job in sorted(jobs, key=lambda job: (len(job[2]), job[0])):
        batch = batches[-1] if batches else []
        length = len(job[2])
        if batch and length <= 1.25 * len(batch[0][2]) + 16 and (len(batch) + 1) * length <= _PREFILL_TOKENS:
            batch.append(job)
        else:
            batches.append([job])
    return batches
