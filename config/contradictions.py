"""`contradictions`: settings that are valid one by one and wrong together; each is one line.

`resolve` checks before the first job. A line names the keys, their values and a remedy.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence

from config.model import Config, EvalPlan
from config.names import benchmark_names, scheduler_names
from config.objective import ObjectiveSection, RocSelection
from records.evaluation import POOLED, RINGS
from records.stages import RL_STAGES

VLLM_TEMPERATURES = (0.01, 2.0)
"""Lowest and highest temperature that vLLM samples at, besides 0."""
MIN_TURN_TOKENS = 32
"""Fewest tokens in which a turn can call the tool or answer."""
TRAPEZOID_FALLS = 0.6
"""Share of the updates after which the schedule `trapezoid` falls."""


def contradictions(config: Config) -> list[str]:
    """Return all contradictions of a configuration."""
    return [*impossible(config), *_idle(config)]


def impossible(config: Config) -> list[str]:
    """Return settings that a job would refuse or handle wrongly; an experiment arm may also leave settings idle."""
    return [
        *_sandbox(config),
        *_engine(config),
        *_selection(config.objective),
        *_sft(config),
        *_stages(config),
        *_evaluation(config),
        *_budgets(config),
    ]


def _idle(config: Config) -> Iterator[str]:
    """Yield settings that the user changed and no job would read."""
    yield from _idle_tool(config)
    yield from _idle_objective(config.objective)


def _engine(config: Config) -> Iterator[str]:
    yield from _unknown("rollout.scheduler", [config.rollout.scheduler], scheduler_names())
    kind = config.rollout.engine.kind
    if kind != "local" and config.runtime.deterministic:
        yield (
            f"runtime.deterministic = true, but rollout.engine.kind = {kind} does not repeat a run bit by bit; set "
            "runtime.deterministic to false, or rollout.engine.kind to local"
        )
    if kind == "vllm":
        yield from _vllm_temperatures(config)


def _vllm_temperatures(config: Config) -> Iterator[str]:
    """Colder requests vLLM samples at 0.01; hotter ones it refuses."""
    named = {"rollout.temperature": config.rollout.temperature}
    named |= {f"eval.plans.{name}.temperature": plan.temperature for name, plan in config.eval.plans.items()}
    low, high = VLLM_TEMPERATURES
    for key, temperature in named.items():
        if temperature and not low <= temperature <= high:
            yield (
                f"{key} = {temperature:g}: rollout.engine.kind = vllm samples at 0, or from {low:g} to {high:g}; "
                "change it, or set rollout.engine.kind to local"
            )


def _sandbox(config: Config) -> Iterator[str]:
    sandbox = config.sandbox
    if sandbox.wall_s < sandbox.cpu_s:
        yield (
            f"sandbox.cpu_s = {sandbox.cpu_s} never acts: sandbox.wall_s = {sandbox.wall_s} ends a call before; raise "
            "wall_s or lower cpu_s"
        )
    elif config.runtime.deterministic and sandbox.wall_s < 10 * sandbox.cpu_s:
        yield (
            f"sandbox.wall_s = {sandbox.wall_s} must be at least 10 x sandbox.cpu_s = {sandbox.cpu_s} while "
            "runtime.deterministic is true: otherwise machine load decides which calls time out"
        )


def _idle_tool(config: Config) -> Iterator[str]:
    tool = config.rollout.tool
    if tool.own is not None:
        if tool.state != "stateless":
            yield (
                f"rollout.tool.state = {tool.state} is for the Python tool, not for rollout.tool.name = {tool.name!r}; "
                "set state to stateless, or name the Python tool"
            )
        if config.rollout.system != "full":
            yield (
                f"rollout.tool.name = {tool.name!r} is described by the prompt of rollout.system = full alone; set "
                "system to full, or name the Python tool"
            )
    if tool.state == "off" and config.sandbox.fail_frac:
        yield (
            f"sandbox.fail_frac = {config.sandbox.fail_frac} never acts while rollout.tool.state = off: no call runs; "
            "set one of them back"
        )


def _selection(objective: ObjectiveSection) -> Iterator[str]:
    roc = objective.roc
    if roc.selection is RocSelection.NONE and roc.oversample != 1:
        yield (
            f"objective.roc.oversample must be 1, not {roc.oversample}, when objective.roc.selection is none: without "
            "selection every sampled rollout is trained"
        )
    if roc.selection is not RocSelection.NONE and roc.oversample == 1:
        yield (
            f"objective.roc.selection = {roc.selection.value} has nothing to select from at objective.roc.oversample = "
            "1; raise oversample (paper: 2), or set selection to none"
        )
    if roc.selection not in (RocSelection.RANDOM, RocSelection.NONE) and not roc.penalties:
        yield (
            f"objective.roc.selection = {roc.selection.value} has no penalty to select by, objective.roc.penalties = "
            "[]; name one, or set selection to random"
        )
    yield from _twice("objective.roc.penalties", roc.penalties)
    if roc.selection is RocSelection.RELEASE and roc.oversample > 1:
        yield from _release(objective.group_size, objective.group_size * roc.oversample)


def _idle_objective(objective: ObjectiveSection) -> Iterator[str]:
    roc = objective.roc
    if roc.selection in (RocSelection.RANDOM, RocSelection.NONE) and "p_repetition" in roc.penalties:
        yield (
            f"p_repetition of objective.roc.penalties never acts while objective.roc.selection = "
            f"{roc.selection.value}; take it out, or set selection to paper"
        )


def _release(G: int, num: int) -> Iterator[str]:
    """Yield group sizes for which the release's rule fails its own assertion, because of its two roundings."""
    if G < 2 * RELEASE_MINIMUM:
        yield (
            f"objective.roc.selection = release keeps at least {RELEASE_MINIMUM} right and {RELEASE_MINIMUM} wrong "
            f"rollouts, objective.group_size = {G} holds fewer; take objective.group_size = 16, or selection = paper"
        )
        return
    refused = next((n for n in range(1, num) if not release_adds_up(num, n, G)), None)
    if refused is not None:
        yield (
            f"objective.roc.selection = release: the release's rule cannot keep G = {G} of {num} rollouts where "
            f"{refused} are wrong; take objective.group_size = 16, or objective.roc.selection = paper"
        )


RELEASE_MINIMUM = 2
"""Right and wrong rollouts that the release keeps at least, where there are as many."""


def release_adds_up(num_valid: int, num_negative: int, G: int) -> bool:
    """Return whether the release's two shares, rounded separately, sum to G (`trainer.selection.roc_release`).

    >>> release_adds_up(32, 1, 16), release_adds_up(16, 8, 15)
    (True, False)
    """
    num_positive = num_valid - num_negative
    negative, positive = round(num_negative * G / num_valid), round(num_positive * G / num_valid)
    least_negative, least_positive = min(RELEASE_MINIMUM, num_negative), min(RELEASE_MINIMUM, num_positive)
    if negative <= least_negative:
        negative, positive = least_negative, G - least_negative
    if positive <= least_positive:
        positive, negative = least_positive, G - least_positive
    return min(positive, num_positive) + min(negative, num_negative) == G


def _sft(config: Config) -> Iterator[str]:
    sft = config.sft
    longest = TRAPEZOID_FALLS if sft.schedule == "trapezoid" else 1.0
    if sft.warmup_frac > longest:
        yield (
            f"sft.warmup_frac = {sft.warmup_frac} is longer than sft.schedule = {sft.schedule} holds the rate; "
            f"give {longest:g} or less"
        )
    if sft.batch_size > config.data.num_sft:
        yield (
            f"sft.batch_size = {sft.batch_size} is more than data.num_sft = {config.data.num_sft} documents: an update "
            "would hold a document twice; lower it, or raise num_sft"
        )


def _stages(config: Config) -> Iterator[str]:
    warmup = config.objective.optimizer.warmup_steps
    for stage, section in config.rl.named():
        name = stage.name
        if stage.new_optimizer and warmup > section.steps:
            yield (
                f"objective.optimizer.warmup_steps = {warmup} is longer than the stage, rl.{name}.steps = "
                f"{section.steps}: the rate would never be reached; lower it"
            )
    yield from _pool(config)


def _pool(config: Config) -> Iterator[str]:
    num, trained = config.objective.prompts_per_step, config.data.num_train
    if num % config.objective.updates_per_step:
        yield (
            f"objective.prompts_per_step = {num} does not divide into objective.updates_per_step = "
            f"{config.objective.updates_per_step} equal updates"
        )
    if num > trained:
        yield (
            f"objective.prompts_per_step = {num} is more than the pool, data.num_train = {trained} problems; lower it, "
            "or raise num_train"
        )
    elif config.rl.filter is not None and num > config.rl.filter.problems:
        yield (
            f"objective.prompts_per_step = {num} is more than rl.filter.problems = {config.rl.filter.problems}; "
            "lower it, or raise rl.filter.problems"
        )


def _evaluation(config: Config) -> Iterator[str]:
    seen: dict[tuple[str, str, float, str], str] = {}
    for name, plan in config.eval.plans.items():
        key = f"eval.plans.{name}"
        if not plan.benchmarks:
            yield f"{key}.benchmarks = []: the plan asks nothing; name some, or remove the plan with null"
        yield from _unknown(f"{key}.benchmarks", plan.benchmarks, benchmark_names())
        for benchmark in _asked(plan):
            sampling = (plan.checkpoint, benchmark, plan.temperature, plan.control.value)
            if sampling in seen:
                yield (
                    f"{key} asks {benchmark} of {plan.checkpoint} at temperature {plan.temperature:g}, control "
                    f"{plan.control.value}, as {seen[sampling]} does: the same samples twice; name it once"
                )
            seen.setdefault(sampling, key)
    if config.arms and not _tests_arms(config.eval.plans.get(RL_STAGES[0])):
        yield (
            f"arms are tested by the plan eval.plans.{RL_STAGES[0]}, which must ask checkpoint {RL_STAGES[0]} "
            "for procedural; give it, or set arms to null"
        )


def _tests_arms(plan: EvalPlan | None) -> bool:
    return plan is not None and plan.checkpoint == RL_STAGES[0] and POOLED in plan.benchmarks


def _asked(plan: EvalPlan) -> Iterator[str]:
    for name in plan.benchmarks:
        yield from RINGS if name == POOLED else (name,)


def _budgets(config: Config) -> Iterator[str]:
    """Yield budgets that hold no prompt and one turn: training would see truncation only (public fault B29)."""
    for stage, section in config.rl.named():
        name = stage.name
        yield from _budget(config, f"rl.{name}.max_response", section.max_response, "rollout.max_prompt")
        longest = config.rollout.max_prompt + section.max_response
        if config.objective.micro_batch_tokens < longest:
            yield (
                f"objective.micro_batch_tokens = {config.objective.micro_batch_tokens} holds not one rollout of "
                f"rollout.max_prompt + rl.{name}.max_response = {longest} tokens; raise it"
            )
    yield from _budget(config, "eval.max_response", config.eval.max_response, "eval.max_prompt")


def _budget(config: Config, key: str, max_response: int, prompt_key: str) -> Iterator[str]:
    max_prompt = config.eval.max_prompt if prompt_key.startswith("eval") else config.rollout.max_prompt
    if max_response < MIN_TURN_TOKENS:
        yield f"{key} = {max_response} holds no turn; at least {MIN_TURN_TOKENS} tokens are needed"
    needed = max_prompt + max_response
    if config.model.path is None and needed > config.model.max_positions:
        yield (
            f"{prompt_key} + {key} = {needed} tokens exceed model.max_positions = {config.model.max_positions}; lower "
            "them or raise it"
        )
    if needed > config.rollout.kv_tokens:
        yield (
            f"rollout.kv_tokens = {config.rollout.kv_tokens} holds not one rollout of {prompt_key} + {key} = {needed} "
            "tokens; raise it"
        )


def _unknown(key: str, names: Sequence[str], known: Sequence[str]) -> Iterator[str]:
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
            hint = f"; did you mean {near[0]}?" if near else f"; known: {', '.join(known)}"
            yield f"{key}: no {name!r}{hint}"
    yield from _twice(key, names)


def _twice(key: str, names: Sequence[str]) -> Iterator[str]:
    for name in sorted({name for name in names if names.count(name) > 1}):
        yield f"{key} names {name!r} twice; name it once"
