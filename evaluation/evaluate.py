"""`evaluate`: samples a checkpoint, grades with both graders and scores; writes one samples file and one summary.

Only this module of the package uses the trainer's loops and engines. It imports them inside functions, so grading
works without torch. A killed evaluation resumes and ends with the same samples file.
"""

from __future__ import annotations

import shutil
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from config.commands import SamplingView
from config.model import EvalPlan, RuntimeSection
from evaluation.publication import Findings, Provenance, publish
from evaluation.published_settings import differences
from evaluation.questions import Questions, limited, questions_of, refuse_twice
from evaluation.scores.behaviour import behaviour
from evaluation.scores.score_rows import (
    Slice,
    consensus,
    control_scores,
    outcomes_of,
    score,
    without_known_issues,
)
from records.digest import digest
from records.errors import ConfigError, FellShort
from records.evaluation import (
    POOLED,
    RINGS,
    Behaviour,
    EvaluationSummary,
    LetterCounts,
    PaperDifference,
    Score,
    Settings,
)
from records.fingerprint import fingerprint
from records.finished_results import finished
from records.verdict import reward_of
from verifier.benchmarks import PromptKind, Scoring
from verifier.graders.policy import GraderName

if TYPE_CHECKING:
    from records.trajectory import GradedRollout, Rollout
    from trainer.jobs.work_folder import WorkDir
    from trainer.rollout.sampler import Sampler
    from trainer.rollout.task import RolloutSettings, Task
    from verifier.bfcl.episodes import RunCode


MUST_REACH = ("small", "released", "paper")
"""Presets in which an unavailable benchmark is an error; elsewhere it is a row with the way to get it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Source of the answers."""

    checkpoint: Path
    """A Hugging Face folder; with an endpoint, only its tokenizer and chat template are used."""
    name: str
    """Name of the checkpoint in every row."""
    variant: str | None = None
    """Name of the changed setting, see `evaluation.harness_variants`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervals:
    """Parameters of the intervals of scores; no sample depends on them."""

    confidence: float
    seed: int
    """Seed of the bootstrap."""


def evaluate(
    *,
    place: Place,
    plans: Sequence[EvalPlan],
    view: SamplingView,
    intervals: Intervals,
    runtime: RuntimeSection,
    rings: Path | None,
    out: Path,
    work: Path,
    must_have_all: bool = False,
    overwrite: bool = False,
) -> EvaluationSummary:
    """Run `plans` and write samples.parquet and summary.json (last) into `out`.

    Args:
        place: the checkpoint or server; the digests of a manifest are checked.
        plans: samplings to run, all for this checkpoint.
        view: its sections; `eval.plans` is ignored.
        intervals: parameters of the scores' intervals.
        rings: folder of the procedural test rings.
        runtime: threads, device, paths and number of sandbox workers.
        out: published folder.
        work: undeclared folder for resuming.
        must_have_all: an unavailable benchmark is a failure, because the user named it.
        overwrite: replace a finished evaluation in `out`.

    Returns:
        The summary; an already finished one is read from `out`.

    Raises:
        ConfigError: a checkpoint or data file is broken, a server is not available, or `out` holds another result.
        FellShort: no question, or no graded sample of a benchmark; nothing is published.
    """
    from records.manifest import MANIFEST, verify
    from trainer.jobs.work_folder import WorkDir
    from trainer.model import use_threads

    served = None
    base = view.rollout.engine.base if view.rollout.engine.kind == "endpoint" else None
    if base is not None:
        from trainer.engines.endpoint import served_model

        served = served_model(base)  # before any folder is created
    use_threads(runtime)
    folder = place.checkpoint
    identity = verify(folder).digest if (folder / MANIFEST).exists() else _files_digest(folder)
    began = time.monotonic()
    result = Findings()
    asked = [(plan, questions_of(plan, runtime, rings, view.eval.seed, result.unavailable)) for plan in plans]
    refuse_twice(asked)
    _refuse_missing(asked, result.unavailable, runtime, must_have_all)
    golds = [
        [q.benchmark.name, p.id, p.answer] for _, questions in asked for q in questions for p in q.problems
    ]
    sections = {
        "plans": [plan.model_dump(mode="json") for plan in plans],
        **view.model_dump(mode="json", exclude={"eval": {"plans"}}),
    }
    decided_by = fingerprint(identity, place.name, base, served, sections, golds)
    settings = Settings(**sections, intervals=asdict(intervals))
    if before := finished(out, decided_by, settings, overwrite=overwrite):
        print(f"{out}: is finished already; --overwrite samples it again", file=sys.stderr, flush=True)
        return before
    with WorkDir.open(work, decided_by) as folder:
        for number, (plan, questions) in enumerate(asked):
            _run_plan(plan, questions, place, f"{number:02d}", folder, view, intervals, runtime, result)
        provenance = Provenance(
            checkpoint_digest=identity,
            fingerprint=decided_by,
            engine=base or view.rollout.engine.kind,
            served_model=served,
            variant=place.variant,
            settings=settings,
            benchmarks={q.benchmark.name: q.digest for _, questions in asked for q in questions},
            paper_differences=_paper_differences(asked, view),
        )
        summary = publish(result, provenance, out, time.monotonic() - began)
        folder.clear()
        return summary


def _refuse_missing(
    asked: Sequence[tuple[EvalPlan, Sequence[Questions]]],
    unavailable: dict[str, str],
    runtime: RuntimeSection,
    must_have_all: bool,
) -> None:
    """Raise before sampling if a required benchmark is missing, or if all are."""
    if unavailable and must_have_all:
        raise FellShort("; ".join(unavailable.values()))
    if unavailable and runtime.preset in MUST_REACH:
        raise ConfigError("; ".join(unavailable.values()))
    if not any(questions for _, questions in asked):
        raise FellShort("; ".join(["nothing to evaluate", *unavailable.values()]))


def _paper_differences(
    asked: Sequence[tuple[EvalPlan, Sequence[Questions]]], view: SamplingView
) -> list[PaperDifference]:
    return [
        row
        for plan, questions in asked
        for one in questions
        for row in differences(one.benchmark, plan, view)
    ]


def _run_plan(
    plan: EvalPlan,
    asked: Sequence[Questions],
    place: Place,
    shards: str,
    work: WorkDir,
    view: SamplingView,
    intervals: Intervals,
    runtime: RuntimeSection,
    result: Findings,
) -> None:
    if not asked:
        return
    settings = _settings(plan, place, view, runtime)
    pooled: list[tuple[Questions, Sequence[GradedRollout]]] = []
    deep_pooled: set[str] = set()
    with ExitStack() as stack:
        sampler = stack.enter_context(_open(plan, place, settings, view, runtime))
        run_code = (
            stack.enter_context(open_services(runtime.sandbox_workers, _call_record(runtime)))
            if any(questions.needs_backend for questions in asked)
            else None
        )
        for questions in asked:
            name = questions.benchmark.name
            sampler.settings = replace(settings, benchmark=name)
            deep = _deep(plan, questions, view.eval.seed)
            with _asker(sampler, questions, place, run_code) as asking:
                trajectories = _sample(
                    plan, questions, deep, asking, run_code, work, f"{shards}-{name}", place
                )
            refuse_ungraded(name, trajectories, work.path / f"{shards}-{name}")
            result.trajectories += trajectories
            about = _slice(place.name, name, plan, intervals)
            _add_scores(result, questions, [t for t in trajectories if t.sample < plan.k], about)
            _add_deep_scores(result, trajectories, deep, about)
            if name in RINGS:
                pooled.append((questions, trajectories))
                deep_pooled |= deep
    if len(pooled) == len(RINGS):
        rings = replace(pooled[0][0], problems=[p for questions, _ in pooled for p in questions.problems])
        samples = [trajectory for _, part in pooled for trajectory in part]
        about = _slice(place.name, POOLED, plan, intervals)
        _add_scores(result, rings, [t for t in samples if t.sample < plan.k], about)
        _add_deep_scores(result, samples, deep_pooled, about)


def refuse_ungraded(name: str, trajectories: Sequence[GradedRollout], shards: Path) -> None:
    """Raise FellShort for an evaluation without a graded sample.

    It deletes the lost samples in the folder `shards`, so the next attempt samples again.
    """
    if any(trajectory.reward is not None for trajectory in trajectories):
        return
    shutil.rmtree(shards, ignore_errors=True)
    rules = Counter(t.verdicts[GraderName.STRICT.value].rule or t.detail for t in trajectories)
    why = rules.most_common(1)[0][0] if rules else "it has no problems"
    raise FellShort(
        f"{name}: none of its {len(trajectories)} samples could be graded ({why}); nothing is published; look at the "
        "engine, the sandbox or the server, then run the same command again"
    )


def _deep(plan: EvalPlan, questions: Questions, seed: int) -> set[str]:
    """Return ids of the questions that get `deep_k` samples; rings only, whose answers are cheap."""
    if not plan.deep_limit or (plan.deep_k or 0) <= plan.k or questions.benchmark.name not in RINGS:
        return set()
    return {problem.id for problem in limited(questions.problems, plan.deep_limit, seed)}


def _add_deep_scores(
    result: Findings, trajectories: Sequence[GradedRollout], deep: set[str], about: Slice
) -> None:
    """Add avg@k and pass@k of the questions with more samples, which separate new ability from sharpening."""
    samples = [trajectory for trajectory in trajectories if trajectory.problem in deep]
    result.scores += score(outcomes_of(samples, about.grader), about)


@contextmanager
def _open(
    plan: EvalPlan, place: Place, settings: RolloutSettings, view: SamplingView, runtime: RuntimeSection
) -> Iterator[Sampler]:
    """Yield a sampler with its weights, or with a server in their place."""
    from trainer.rollout.sampler import open_sampler

    with open_sampler(
        place.checkpoint, view.rollout, view.sandbox, settings, runtime, plan.control
    ) as sampler:
        sampler.load(place.checkpoint)
        yield sampler


def _call_record(runtime: RuntimeSection) -> Path | None:
    """Return the run's record of calls near their limit in a deterministic run."""
    return runtime.folder.near_limit_calls if runtime.deterministic else None


def open_services(workers: int, call_record: Path | None = None) -> AbstractContextManager[RunCode]:
    """Open a sandbox with the simulated services of BFCL's conversations."""
    from evaluation.conversations.bfcl_services import open_services as start

    return start(workers, call_record)


@contextmanager
def _asker(
    sampler: Sampler, questions: Questions, place: Place, run_code: RunCode | None
) -> Iterator[Sampler]:
    """Yield the sampler for the agentic prompt, or with the conversations of the benchmark for the native ones."""
    prompt = questions.benchmark.prompt
    if prompt.is_agentic:
        yield sampler
        return
    from evaluation.conversations.bfcl_services import FunctionScript
    from evaluation.conversations.native_chat import NativeChat
    from evaluation.conversations.script_episode import OneTurn, Script, open_scripts
    from verifier.bfcl.prompts import Mode

    chat = NativeChat.of(place.checkpoint)
    mode = Mode.PROMPT if prompt is PromptKind.LISTED else Mode.FC

    def script_of(task: Task) -> Script:
        if prompt is PromptKind.NATIVE:
            return OneTurn(chat.opening([{"role": "user", "content": task.problem.prompt}]))
        return FunctionScript.of(task.problem, mode, chat, run_code)

    with open_scripts(script_of) as episodes:
        yield replace(sampler, episodes=episodes)


def _settings(plan: EvalPlan, place: Place, view: SamplingView, runtime: RuntimeSection) -> RolloutSettings:
    from records.trajectory import IdsSource
    from trainer.rollout.task import RolloutSettings
    from trainer.rollout.tool import limits_of

    is_endpoint = view.rollout.engine.kind == "endpoint"
    return RolloutSettings(
        run=runtime.run,
        checkpoint=place.name,
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
        rejoin_iterations=view.rollout.rejoin_iterations
        if runtime.deterministic and not is_endpoint
        else None,
        ids_source=IdsSource.RETOKENISED if is_endpoint else IdsSource.SAMPLED,
    )


def _sample(
    plan: EvalPlan,
    questions: Questions,
    deep: set[str],
    sampler: Sampler,
    run_code: RunCode | None,
    work: WorkDir,
    shards: str,
    place: Place,
) -> Sequence[GradedRollout]:
    from trainer.rollout.sample_chunks import sample_in_chunks
    from trainer.rollout.task import Task

    by_id = {problem.id: problem for problem in questions.problems}

    def grade(rollout: Rollout) -> GradedRollout:
        verdicts = questions.grade(by_id[rollout.problem], rollout, run_code)
        return rollout.graded(reward=reward_of(verdicts["strict"].verdict), verdicts=verdicts)

    tasks = [
        Task(problem=questions.as_asked(problem, sample), sample=sample)
        for problem in questions.problems
        for sample in range((problem.id in deep and plan.deep_k) or plan.k)
    ]
    label = f"{place.name} {questions.benchmark.name}"
    return sample_in_chunks(sampler, tasks, work, name=shards, label=label, policy_version=0, grade=grade)


def _slice(checkpoint: str, name: str, plan: EvalPlan, intervals: Intervals) -> Slice:
    return Slice(
        checkpoint=checkpoint,
        benchmark=name,
        temperature=plan.temperature,
        control=plan.control.value,
        seed=intervals.seed,
        confidence=intervals.confidence,
    )


def _add_scores(
    result: Findings, questions: Questions, trajectories: Sequence[GradedRollout], about: Slice
) -> None:
    from trainer.metrics.step_metrics import rollout_metrics

    declared, problems = questions.benchmark, questions.problems
    if declared.scoring is Scoring.INSTRUCTIONS:
        from evaluation.scores.ifeval import instruction_row, instruction_scores

        rows = instruction_scores(trajectories, about)
        result.instructions.append(instruction_row(trajectories, about))
    elif declared.scoring is Scoring.FUNCTION_CALLS:
        from evaluation.scores.bfcl import function_row, function_scores

        rows = function_scores(problems, trajectories, about)
        result.function_calls.append(function_row(declared, problems, trajectories, about))
    else:
        rows = _answer_scores(questions, trajectories, about)
    rows += without_known_issues(
        outcomes_of(trajectories, GraderName.STRICT.value), declared.known_issues, about
    )
    if declared.prompt is PromptKind.CHOICE:
        result.letters.append(_letters(questions, trajectories, about))
    result.scores += rows
    result.behaviour.append(
        Behaviour(
            checkpoint=about.checkpoint,
            benchmark=about.benchmark,
            temperature=about.temperature,
            control=about.control,
            numbers=behaviour(trajectories, rollout_metrics),
        )
    )


def _answer_scores(questions: Questions, trajectories: Sequence[GradedRollout], about: Slice) -> list[Score]:
    declared, problems = questions.benchmark, questions.problems
    rows: list[Score] = []
    for grader in declared.policy.graders:
        rows += score(outcomes_of(trajectories, grader.value), replace(about, grader=grader.value))
    rows += consensus(trajectories, about, questions.vote, declared.policy)
    if about.control == "none":
        rows += control_scores(problems, trajectories, declared.policy, about)
    return rows


def _letters(questions: Questions, trajectories: Sequence[GradedRollout], about: Slice) -> LetterCounts:
    """Count how often each letter is right and is picked: reveals shuffling bugs, or a model that always picks C."""
    from verifier.benchmarks.gpqa_diamond import letter_histogram

    by_id = {problem.id: problem for problem in questions.problems}
    golds = [questions.as_asked(by_id[t.problem], t.sample).answer for t in trajectories]
    graded = [t for t in trajectories if t.reward is not None]
    return LetterCounts(
        benchmark=about.benchmark,
        temperature=about.temperature,
        golds=letter_histogram(golds),
        predictions=letter_histogram(t.verdicts["strict"].extracted for t in graded),
    )


def _files_digest(folder: Path) -> str:
    """Return the identity of a checkpoint without manifest: a digest of its configuration and weights."""
    from records.files import sha256_of

    files = sorted(path for path in folder.glob("*") if path.suffix in {".json", ".safetensors"})
    if not files:
        raise ConfigError(
            f"{folder}: holds no checkpoint; give a Hugging Face folder with config.json and weights"
        )
    return digest({path.name: sha256_of(path) for path in files})
