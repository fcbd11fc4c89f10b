"""IFEval and BFCL through an evaluation: invented rows, a random checkpoint, real checkers."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from config.commands import CHAT
from config.model import Control, EvalPlan
from evaluation.conversations.bfcl_services import FunctionScript, open_services
from evaluation.conversations.native_chat import NativeChat
from evaluation.conversations.script_episode import open_scripts
from evaluation.evaluate import Intervals, Place, _run_plan
from evaluation.publication import Findings
from evaluation.questions import Questions
from evaluation.scores.bfcl import function_row, function_scores
from evaluation.scores.ifeval import instruction_row, instruction_scores
from evaluation.scores.score_rows import Slice, disagreements
from records.problem import Problem
from records.problem_params import FunctionEntry, Instruction, Instructions
from records.trajectory import GradedRollout, Rollout, StopReason, Turn
from records.verdict import Verdict, VerdictKind
from tests.trainer.fakes import CharCodec, ScriptedEngine
from tests.trainer.tiny_checkpoint import make_checkpoint, tiny_config
from trainer.jobs.work_folder import WorkDir
from trainer.rollout.chat import TURN_END
from trainer.rollout.sampler import Sampler
from trainer.rollout.task import RolloutSettings, Task
from verifier.benchmarks import benchmark
from verifier.bfcl.calls import CATEGORIES
from verifier.bfcl.prompts import Mode

pytest.importorskip("bfcl_eval", reason="BFCL's checker comes with `make setup`")
pytest.importorskip("if_verifiable", reason="IFEval's checks come with `make setup`")

ABOUT = Slice(checkpoint="sft", benchmark="b", temperature=0.0)
INTERVALS = Intervals(confidence=0.95, seed=1)
NO_COMMA = {"id": "punctuation:no_comma", "kwargs": {}}
LOWER = {"id": "change_case:english_lowercase", "kwargs": {}}
AREA = {
    "name": "area", "description": "Area.",
    "parameters": {
        "type": "dict", "required": ["w"], "properties": {"w": {"type": "integer", "description": "Width."}},
    },
}  # fmt: skip


def follow(name: str, *instructions: dict[str, Any]) -> Problem:
    asked = Instructions(items=tuple(Instruction(**instruction) for instruction in instructions))
    return Problem(id=name, prompt="Write about rain.", answer=asked.answer, params=asked)


def entry(name: str, category: str, gold: list[Any]) -> Problem:
    row = {
        "id": name, "category": category, "question": [[{"role": "user", "content": "Area?"}]], "function": [AREA],
        "ground_truth": gold,
    }  # fmt: skip
    asked = FunctionEntry.of(row)
    return Problem(id=name, prompt="Area?", answer=asked.answer, family=category, params=asked)


def files_entry() -> Problem:
    """Two user turns in the simulated file system."""
    docs = [
        {"name": name, "description": "d", "parameters": {"type": "dict", "properties": {}, "required": []}}
        for name in ("ls", "cd", "pwd", "mkdir")
    ]
    root = {"workspace": {"type": "directory", "contents": {"old": {"type": "directory", "contents": {}}}}}
    row = {
        "id": "multi_turn_base_0", "category": "multi_turn_base",
        "question": [[{"role": "user", "content": "Make new."}], [{"role": "user", "content": "Enter it."}]],
        "initial_config": {"GorillaFileSystem": {"root": root}}, "involved_classes": ["GorillaFileSystem"],
        "function": docs, "ground_truth": [["mkdir(dir_name='new')"], ["cd(folder='new')"]],
    }  # fmt: skip
    entry = FunctionEntry.of(row)
    return Problem(id=entry.id, prompt="", answer=entry.answer, family=entry.category, params=entry)


def sample_of(problem: Problem, *texts: str, stop: StopReason = StopReason.ANSWER) -> Rollout:
    turns = [Turn(text=text, start=0, end=0, call="none") for text in texts]  # pyright: ignore[reportArgumentType]
    return Rollout(
        run="r", checkpoint="sft", benchmark="b", problem=problem.id, sample=0, turns=turns, stop=stop
    )


def graded(questions: Questions, texts: dict[str, str]) -> list[GradedRollout]:
    samples = [(problem, sample_of(problem, texts[problem.id])) for problem in questions.problems]
    return [
        sample.graded(reward=None, verdicts=questions.grade(problem, sample)) for problem, sample in samples
    ]


def test_both_kinds_run_from_prompt_to_summary_on_a_real_engine(tmp_path: Path) -> None:
    make_checkpoint(tmp_path)
    config = tiny_config("eval.max_response=40", "eval.max_prompt=900")
    plan = EvalPlan(
        checkpoint="sft", benchmarks=[], k=2, temperature=1.0, limit=None, control=Control.TOOL_OFF
    )
    asked = [
        Questions(
            benchmark=benchmark("ifeval"), problems=[follow("a", NO_COMMA), follow("b", LOWER, NO_COMMA)]
        ),
        Questions(
            benchmark=benchmark("bfcl_v3"),
            problems=[entry("s", "simple", [{"area": {"w": [3]}}]), entry("i", "irrelevance", [])],
        ),
        Questions(
            benchmark=benchmark("bfcl_v3_prompt"), problems=[entry("s", "simple", [{"area": {"w": [3]}}])]
        ),
    ]
    place = Place(checkpoint=tmp_path / "checkpoints" / "sft", name="sft")
    result = Findings()
    with WorkDir.open(tmp_path / "work", "f") as work:
        _run_plan(plan, asked, place, "00", work, CHAT.of(config), INTERVALS, config.runtime, result)
    samples = result.trajectories
    assert len(samples) == 2 * (2 + 2 + 1)
    assert {t.benchmark: set(t.verdicts) for t in samples} == {
        "ifeval": {"strict", "loose"}, "bfcl_v3": {"strict"}, "bfcl_v3_prompt": {"strict"},
    }  # fmt: skip
    fitting = {t.benchmark for t in samples if t.turns}
    assert {"ifeval", "bfcl_v3"} <= fitting, "the prompts of these two fit"
    assert result.instructions[0].num_samples > 0
    assert set(result.function_calls[0].categories) == {"simple", "irrelevance"}
    assert result.function_calls[0].v3 is None, "no weighted score without all categories"
    assert "overall_v3" not in {row.metric for row in result.scores}
    assert disagreements(result.trajectories) == []


def test_the_four_numbers_of_ifeval() -> None:
    """a follows its one instruction; b one of two, and both once its first line is cut (loose)."""
    questions = Questions(
        benchmark=benchmark("ifeval"), problems=[follow("a", NO_COMMA), follow("b", LOWER, NO_COMMA)]
    )
    samples = graded(
        questions, {"a": "rain falls", "b": "Sure, here it is\nthe rain keeps falling on the hills"}
    )
    rows = {(row.metric, row.grader): row for row in instruction_scores(samples, ABOUT)}
    assert {key: row.value for key, row in rows.items()} == {
        ("avg@1", "strict"): 0.5, ("instructions@1", "strict"): pytest.approx(1 / 3),
        ("avg@1", "loose"): 1.0, ("instructions@1", "loose"): 1.0,
    }  # fmt: skip
    assert all(row.low <= row.value <= row.high for row in rows.values())
    assert rows["instructions@1", "loose"].low < 1.0, "three instructions prove no certainty"
    assert instruction_row(samples, ABOUT).instruction_strict == pytest.approx(1 / 3)


def test_the_weighted_score_of_bfcl_requires_every_category() -> None:
    golds: dict[str, list[Any]] = {name: [{"area": {"w": [3]}}] for name in CATEGORIES}
    problems = [entry(f"{name}_{i}", name, golds[name]) for name in CATEGORIES for i in range(2)]
    right = {problem.id for problem in problems if not problem.id.startswith("multi_turn")}
    kinds = {True: VerdictKind.CORRECT, False: VerdictKind.WRONG}
    samples = [
        sample_of(one).graded(
            reward=None, verdicts={"strict": Verdict(id=one.id, verdict=kinds[one.id in right])}
        )
        for one in problems
    ]
    rows = {row.metric: row for row in function_scores(problems, samples, ABOUT)}
    assert rows["overall_v3"].value == pytest.approx(2 / 3)
    assert (rows["multi_turn_v3"].value, rows["live_v3"].value) == (0.0, 1.0)
    assert rows["live_v3"].low < 1.0
    numbers = function_row(benchmark("bfcl_v3"), problems, samples, ABOUT)
    assert numbers.v3 is not None
    assert numbers.v3["overall"] == pytest.approx(2 / 3)
    assert "overall_v3" not in {row.metric for row in function_scores(problems[:-2], samples[:-2], ABOUT)}


def test_a_prompt_that_does_not_fit_is_not_a_silent_answer() -> None:
    problem = entry("i", "irrelevance", [])
    questions = Questions(benchmark=benchmark("bfcl_v3"), problems=[problem])
    unfit = replace(sample_of(problem, stop=StopReason.CONTEXT), detail="prompt does not fit")
    assert questions.grade(problem, unfit)["strict"].verdict is VerdictKind.WRONG
    assert questions.grade(problem, sample_of(problem, "No."))["strict"].verdict is VerdictKind.CORRECT


CALLS = {
    Mode.FC: (
        '<tool_call>{"name": "mkdir", "arguments": {"dir_name": "new"}}</tool_call>',
        '<tool_call>{"name": "cd", "arguments": {"folder": "new"}}</tool_call>',
    ),
    Mode.PROMPT: ("[mkdir(dir_name='new')]", "[cd(folder='new')]"),
}


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(Mode))
def test_a_conversation_is_held_in_the_sandbox_stored_and_graded_from_its_text(mode: Mode) -> None:
    make, enter = CALLS[mode]
    turns = {
        "right": [make, "Done.", enter, "Done."],
        "lazy": ["Done.", "Done."],
        "cut": [make, "x" * 5000],
        "odd": ["[open('/etc/passwd')]", make, "Done.", enter, "Done."],
    }
    names = list(turns)

    def reply(session: str, turn: int) -> str:
        return turns[names[int(session.rpartition("/")[2])]][turn] + TURN_END

    problem = files_entry()
    questions = Questions(benchmark=benchmark("bfcl_v3"), problems=[problem])
    with ExitStack() as stack:
        run_code = stack.enter_context(open_services(1))
        episodes = stack.enter_context(
            open_scripts(lambda task: FunctionScript.of(task.problem, mode, NativeChat(), run_code))
        )
        sampler = Sampler(
            engines=[ScriptedEngine(reply)], codec=CharCodec(), rollout=tiny_config().rollout, episodes=episodes,
            settings=RolloutSettings(
                run="r", checkpoint="m", benchmark="bfcl_v3", max_prompt=6000, max_response=2000, max_turns=1,
                temperature=0.0, top_p=1.0, seed=1, policy_version=0, limits=None, rejoin_iterations=None,  # pyright: ignore[reportArgumentType]
            ),
        )  # fmt: skip
        tasks = [Task(problem=problem, sample=sample) for sample in range(len(turns))]
        held = {names[t.sample]: t for t, _ in sampler.run(tasks, 0)}
        verdicts = {name: questions.grade(problem, t, run_code)["strict"] for name, t in held.items()}
    assert {name: str(verdict.verdict) for name, verdict in verdicts.items()} == {
        "right": "correct", "lazy": "wrong", "cut": "wrong", "odd": "correct",
    }  # fmt: skip
    assert held["cut"].stop is StopReason.LENGTH
    text = CharCodec().decode(held["right"].ids)
    assert text.index("Make new.") < text.index("<tool_response>") < text.index("Enter it.")
    assert "passwd" in CharCodec().decode(held["odd"].ids)
    assert "root:" not in CharCodec().decode(held["odd"].ids)


def test_options_rotate_with_the_repeat_and_votes_follow_the_option() -> None:
    from verifier.benchmarks.gpqa_diamond import arrange

    declared = benchmark("gpqa_diamond")
    questions = Questions(
        benchmark=declared, problems=[arrange("?", ["right", "x", "y", "z"], id="q")], seed=15
    )
    (problem,) = questions.problems
    golds = [questions.as_asked(problem, repeat).answer for repeat in range(4)]
    assert sorted(golds) == ["A", "B", "C", "D"]
    votes = []
    for repeat, letter in enumerate(golds):
        rollout = replace(sample_of(problem, f"Answer: {letter}"), sample=repeat)
        sample = rollout.graded(reward=None, verdicts=questions.grade(problem, rollout))
        assert sample.verdicts["strict"].verdict is VerdictKind.CORRECT
        votes.append(questions.vote(sample))
    assert len(set(votes)) == 1
