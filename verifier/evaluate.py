"""Evaluation of one checkpoint: sample, grade with both graders, score; one samples file and one summary.

The only module of this package that uses the trainer's rollout loop and engines, and it imports them inside
functions: grading works without torch. Resumes to the chunk: a killed evaluation ends with the same samples file.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from config.errors import ConfigError
from config.model import EvalPlan, RuntimeSection
from config.sections import digest
from verifier.benchmarks import Benchmark, DataUnavailable, Scoring, WrongData, benchmark
from verifier.grade import grade
from verifier.policy import RULES, GraderName
from verifier.scores import Slice, control_scores, disagreements, outcomes_of, score
from verifier.verdict import VerdictKind, reward_of

if TYPE_CHECKING:
    from trainer.types import Problem, Trajectory

RINGS = ("procedural-numbers", "procedural-composition", "procedural-family")
POOLED = "procedural"
"""The three rings together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Questions:
    """The problems of one benchmark that a plan asks."""

    benchmark: Benchmark
    problems: list[Problem]


@dataclass(slots=True, kw_only=True)
class Evaluation:
    """What an evaluation leaves."""

    trajectories: list[Trajectory] = field(default_factory=list)
    scores: list[dict[str, Any]] = field(default_factory=list)
    behaviour: list[dict[str, Any]] = field(default_factory=list)
    unavailable: dict[str, str] = field(default_factory=dict)


def evaluate(
    *,
    checkpoint: Path,
    name: str,
    plans: Sequence[EvalPlan],
    view: Any,
    runtime: RuntimeSection,
    rings: Path | None,
    out: Path,
    work: Path,
) -> dict[str, Any]:
    """Run `plans` on `checkpoint` and write samples.parquet, unavailable.json and summary.json (last) into `out`.

    Args:
        checkpoint: a Hugging Face folder; with a manifest its digests are checked.
        name: what the checkpoint is called in every row.
        plans: samplings to make; those for other checkpoints are not expected here.
        view: sections rollout, sandbox, eval and analysis.
        rings: folder of the procedural test rings.
        runtime: threads, device, paths and number of sandbox workers.
        out: published folder.
        work: undeclared folder for resuming.

    Returns:
        The summary. Raises ConfigError when a checkpoint or data file is broken.
    """
    from trainer.checkpoint import MANIFEST, verify
    from trainer.model import use_threads
    from trainer.workdir import WorkDir

    use_threads(runtime, runtime.threads.eval)
    identity = verify(checkpoint).digest if (checkpoint / MANIFEST).exists() else _files_digest(checkpoint)
    began = time.monotonic()
    result = Evaluation()
    asked = [(plan, _questions(plan, runtime, rings, view.eval.seed, result)) for plan in plans]
    _refuse_twice(asked)
    golds = [
        [q.benchmark.name, p.id, p.answer] for _, questions in asked for q in questions for p in q.problems
    ]
    sections = {
        "plans": [plan.model_dump(mode="json") for plan in plans],
        "eval": view.eval.model_dump(mode="json", exclude={"plans"}),
        "rollout": view.rollout.model_dump(mode="json"),
        "sandbox": view.sandbox.model_dump(mode="json"),
    }
    with WorkDir.open(work, digest([identity, name, sections, golds])) as folder:
        for number, (plan, questions) in enumerate(asked):
            _run_plan(plan, questions, checkpoint, name, f"{number:02d}", folder, view, runtime, result)
        return _write(result, out, folder, sections, identity, time.monotonic() - began)


def _questions(
    plan: EvalPlan, runtime: RuntimeSection, rings: Path | None, seed: int, result: Evaluation
) -> list[Questions]:
    """Load each benchmark of a plan; what cannot be reached becomes a row that says how to get it."""
    found = []
    names = [ring for name in plan.benchmarks for ring in (RINGS if name == POOLED else (name,))]
    for name in names:
        try:
            declared = benchmark(name)
        except ValueError as error:
            raise ConfigError(f"eval.plans: {error}") from None
        data = rings if name.startswith("procedural-") else _folder(runtime.paths.data)
        if declared.scoring is not Scoring.ANSWER:
            result.unavailable[name] = f"graded apart, not by this command yet; {declared.how_to_get}"
            continue
        try:
            problems = declared.load(data)
        except DataUnavailable as error:
            result.unavailable[name] = str(error)
            continue
        except WrongData as error:
            raise ConfigError(str(error)) from None
        found.append(Questions(benchmark=declared, problems=_limited(problems, plan.limit, seed)))
    return found


def _refuse_twice(asked: Sequence[tuple[EvalPlan, Sequence[Questions]]]) -> None:
    """The same sampling twice gives the same samples twice; said before hours of it, not after."""
    seen: set[tuple[str, float, str]] = set()
    for plan, questions in asked:
        for one in questions:
            sampling = (one.benchmark.name, plan.temperature, plan.control.value)
            if sampling in seen:
                raise ConfigError(
                    f"eval.plans: {one.benchmark.name} at temperature {plan.temperature:g}, control "
                    f"{plan.control.value}, is asked twice of one checkpoint; name it once"
                )
            seen.add(sampling)


def _folder(data: str | None) -> Path | None:
    return None if data is None else Path(data)


def _limited(problems: list[Problem], limit: int | None, seed: int) -> list[Problem]:
    """All, or `limit` of them by a seeded draw that keeps their order."""
    if limit is None or limit >= len(problems):
        return problems
    chosen = set(random.Random(f"limit:{seed}").sample(range(len(problems)), limit))
    return [problem for index, problem in enumerate(problems) if index in chosen]


def _run_plan(
    plan: EvalPlan,
    asked: Sequence[Questions],
    checkpoint: Path,
    name: str,
    shards: str,
    work: Any,
    view: Any,
    runtime: RuntimeSection,
    result: Evaluation,
) -> None:
    from trainer.sampling import open_sampler

    settings = _settings(plan, name, view, runtime)
    with open_sampler(checkpoint, view.rollout, view.sandbox, settings, runtime, plan.control) as sampler:
        sampler.engine.load_weights(checkpoint, version=0)
        pooled: list[tuple[Questions, list[Trajectory]]] = []
        for questions in asked:
            sampler.settings = replace(settings, benchmark=questions.benchmark.name)
            trajectories = _sample(plan, questions, sampler, work, f"{shards}-{questions.benchmark.name}")
            result.trajectories += trajectories
            about = _slice(name, questions.benchmark.name, plan, view)
            _add_scores(result, questions.problems, trajectories, questions.benchmark, about)
            if questions.benchmark.name in RINGS:
                pooled.append((questions, trajectories))
        if len(pooled) == len(RINGS):
            problems = [problem for questions, _ in pooled for problem in questions.problems]
            samples = [trajectory for _, part in pooled for trajectory in part]
            _add_scores(result, problems, samples, pooled[0][0].benchmark, _slice(name, POOLED, plan, view))


def _settings(plan: EvalPlan, name: str, view: Any, runtime: RuntimeSection) -> Any:
    from trainer.rollout import RolloutSettings
    from trainer.sampling import limits_of

    return RolloutSettings(
        run=runtime.run,
        checkpoint=name,
        benchmark="",
        control=plan.control.value,
        max_prompt=view.eval.max_prompt,
        max_response=view.eval.max_response,
        max_turns=view.eval.max_turns,
        temperature=plan.temperature,
        top_p=view.eval.top_p,
        seed=view.eval.seed,
        policy_version=0,
        limits=limits_of(view.sandbox),
        rejoin_iterations=view.rollout.rejoin_iterations if runtime.deterministic else None,
    )


def _sample(plan: EvalPlan, questions: Questions, sampler: Any, work: Any, shards: str) -> list[Trajectory]:
    from trainer.chunks import sample_in_chunks
    from trainer.rollout import Task

    by_id = {problem.id: problem for problem in questions.problems}

    def finish(trajectory: Trajectory) -> None:
        verdicts = grade(by_id[trajectory.problem], trajectory, questions.benchmark.policy)
        trajectory.verdicts = {grader: verdict.without_clock() for grader, verdict in verdicts.items()}
        trajectory.reward = reward_of(trajectory.verdicts["strict"].verdict)

    tasks = [Task(problem=problem, sample=i) for problem in questions.problems for i in range(plan.k)]
    label = f"{sampler.settings.checkpoint} {questions.benchmark.name}"
    return sample_in_chunks(sampler, tasks, work, name=shards, label=label, policy_version=0, finish=finish)


def _slice(checkpoint: str, name: str, plan: EvalPlan, view: Any) -> Slice:
    return Slice(
        checkpoint=checkpoint,
        benchmark=name,
        temperature=plan.temperature,
        control=plan.control.value,
        seed=view.analysis.seed,
        confidence=view.analysis.confidence,
    )


def _add_scores(
    result: Evaluation,
    problems: Sequence[Problem],
    trajectories: Sequence[Trajectory],
    declared: Benchmark,
    about: Slice,
) -> None:
    rows = []
    for grader in declared.policy.graders:
        rows += score(outcomes_of(trajectories, grader), replace(about, grader=grader))
    if about.control == "none":
        rows += control_scores(problems, trajectories, declared.policy, about)
    result.scores += [row.to_json() for row in rows]
    result.behaviour.append(
        {
            "checkpoint": about.checkpoint,
            "benchmark": about.benchmark,
            "temperature": about.temperature,
            "control": about.control,
        }
        | _behaviour(trajectories)
    )


def _behaviour(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """What stands beside a score: how samples ended, how long they were, what the tool said."""
    from trainer.metrics import rollout_metrics

    count = max(len(trajectories), 1)
    shares = {f"{kind.value}_frac": 0.0 for kind in VerdictKind if kind is not VerdictKind.CORRECT}
    for trajectory in trajectories:
        kind = trajectory.verdicts[GraderName.STRICT.value].verdict
        if kind is not VerdictKind.CORRECT:
            shares[f"{kind.value}_frac"] += 1 / count
    unfit = sum(not trajectory.turns for trajectory in trajectories)
    return rollout_metrics(trajectories) | shares | {"prompt_does_not_fit_frac": unfit / count}


def _write(
    result: Evaluation, out: Path, work: Any, sections: dict[str, Any], identity: str, seconds: float
) -> dict[str, Any]:
    """Samples first, summary last: a summary without its samples does not exist."""
    from trainer.atomic import sha256_of, write_json, write_text
    from trainer.trajectories import write_parquet

    out.mkdir(parents=True, exist_ok=True)
    samples = out / "samples.parquet"
    write_parquet(result.trajectories, samples)
    rows = [{"benchmark": name, "how": how} for name, how in sorted(result.unavailable.items())]
    write_text(out / "unavailable.json", _json_list(rows))
    write_json(out / "run.json", {"seconds": seconds, "finished_unix_s": time.time()})
    summary = {
        "checkpoint_digest": identity,
        "settings": sections,
        "policies": RULES,
        "scores": result.scores,
        "behaviour": result.behaviour,
        "grader_disagreements": disagreements(result.trajectories),
        "samples_sha256": sha256_of(samples),
    }
    write_json(out / "summary.json", summary)
    for shards in work.path.iterdir():
        if shards.is_dir():
            shutil.rmtree(shards)
    return summary


def _json_list(rows: list[dict[str, str]]) -> str:
    import json

    return json.dumps(rows, indent=2, sort_keys=True) + "\n"


def _files_digest(folder: Path) -> str:
    """Identity of a checkpoint without manifest: its configuration and weights."""
    from trainer.atomic import sha256_of

    files = sorted(path for path in folder.glob("*") if path.suffix in {".json", ".safetensors"})
    if not files:
        raise ConfigError(
            f"{folder}: holds no checkpoint; give a Hugging Face folder with config.json and weights"
        )
    return digest({path.name: sha256_of(path) for path in files})
