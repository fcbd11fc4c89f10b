"""`fake_run`: an invented run folder with every file that the analysis reads: small, seeded, with a known effect."""

from __future__ import annotations

import hashlib
import json
import zlib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from bench.publish import publish as publish_bench
from records.arm_record import ArmRecord, CurvePoint
from records.data_card import CARD
from records.digest import digest
from records.evaluation import RINGS
from records.manifest import Manifest
from records.stages import CHECKPOINTS
from records.statistics import avg_at_k, pass_at_k_by_question, score_interval
from records.tool_call import Status, ToolError, ToolResult
from records.trajectory import CallKind, StopReason, Trajectory, Turn
from records.trajectory_files import write_parquet
from records.verdict import Verdict, VerdictKind, reward_of
from tests.analysis.fake_benches import SANDBOX_BENCH, SCHEDULER_BENCH
from tests.analysis.fake_data_card import DATA_CARD

SKILL = {"base": 0.02, "sft": 0.35, "rl1": 0.5, "rl2": 0.55, "rl3": 0.65}
STEPS = {"rl1": 12, "rl2": 6, "rl3": 8}
CONTROL_SKILL = {"tool_off": 0.2, "shuffled_golds": 0.03, "mute": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class FakeRun:
    """What to invent."""

    questions: int = 40
    k: int = 4
    seed: int = 0
    skill: tuple[tuple[str, float], ...] = tuple(SKILL.items())
    tokens: bool = True
    metrics: bool = True
    only: tuple[str, ...] = CHECKPOINTS

    def write(self, root: Path) -> Path:
        """Fill `root` and return it."""
        rng = np.random.default_rng(self.seed)
        put(root / "run.json", {"run": root.name, "preset": "tiny", "started_unix": 1_700_000_000.0})
        put(root / "data" / "test.json", {"problems": self.questions})
        files = {"test.json": sha256(root / "data" / "test.json")}
        put(root / "data" / "manifest.json", manifest_json("data", files, {"train": 4000}))
        put(root / "data" / CARD, asdict(DATA_CARD))
        publish_bench(root, "sandbox", SANDBOX_BENCH, 1.0)
        publish_bench(root, "scheduler", SCHEDULER_BENCH, 1.0)
        if self.metrics:
            write_metrics(root, rng)
        for checkpoint in self.only:
            self._train(root, checkpoint)
            self._evaluate(root, checkpoint, rng)
        write_arms(root)
        if self.tokens:
            for checkpoint in ("sft", "rl3"):
                folder = root / "score" / checkpoint
                write_tokens(folder / "tokens.parquet", root.name, checkpoint, rng)
                publish_tokens(root, checkpoint)
        return root

    def _train(self, root: Path, checkpoint: str) -> None:
        folder = root / "checkpoints" / checkpoint
        put(folder / "config.json", {"vocab_size": 400, "of": f"{root.name} {checkpoint} {self.seed}"})
        metrics = root / "metrics" / f"{checkpoint}.jsonl"
        facts = {"metrics_sha256": sha256(metrics)} if metrics.exists() else {}
        files = {"config.json": sha256(folder / "config.json"), "chat_template.jinja": "t" * 64}
        put(folder / "manifest.json", manifest_json(checkpoint, files, facts))
        timing = root / "metrics" / f"{checkpoint}.timing.jsonl"
        clock = {"timing_sha256": sha256(timing)} if timing.exists() else {}
        put(folder / "run.json", {"seconds": 12.5, "attempts": 1} | clock)

    def _evaluate(self, root: Path, checkpoint: str, rng: np.random.Generator) -> None:
        skill = dict(self.skill)[checkpoint]
        outcomes = {
            ring: _outcomes(ring, self.questions, self.k, skill * penalty, rng)
            for ring, penalty in zip(RINGS, (1.0, 0.8, 0.6, 0.4), strict=True)
        }
        pooled = {question: values for ring in RINGS for question, values in outcomes[ring].items()}
        scores = [score_row(checkpoint, ring, outcomes[ring], k=self.k) for ring in RINGS]
        scores.append(score_row(checkpoint, "procedural", pooled, k=self.k))
        scores.append(score_row(checkpoint, "procedural", pooled, k=self.k, grader="rstar_compat"))
        if self.k > 1:
            scores.append(pass_row(checkpoint, "procedural", pooled, k=self.k))
        for benchmark, count in (("aime24", 30), ("aime25", 30), ("math500", 50)):
            outcomes[benchmark] = _outcomes(benchmark, count, self.k, skill * 0.03, rng)
            scores.append(score_row(checkpoint, benchmark, outcomes[benchmark], k=self.k))
        trajectories = fake_trajectories(root.name, checkpoint, outcomes, rng)
        plans = [plan(checkpoint, ["procedural", "aime24", "aime25", "math500"], self.k)]
        if checkpoint == "rl3":
            plans.append(plan(checkpoint, ["procedural"], 1, control="tool_off"))
            scores += self._controls(root, trajectories, rng)
        folder = root / "eval" / checkpoint
        write_parquet(trajectories, folder / "samples.parquet")
        publish(folder, scores, plans)
        put(folder / "run.json", {"seconds": 20.0})

    def _controls(
        self, root: Path, trajectories: list[Trajectory], rng: np.random.Generator
    ) -> list[dict[str, Any]]:
        rows, pooled = [], {}
        for control, skill in CONTROL_SKILL.items():
            outcomes = {ring: _outcomes(ring, self.questions, 1, skill, rng) for ring in RINGS}
            pooled = {question: values for part in outcomes.values() for question, values in part.items()}
            rows.append(score_row("rl3", "procedural", pooled, k=1, control=control))
            if control == "tool_off":
                trajectories += fake_trajectories(root.name, "rl3", outcomes, rng, control)
        chance = {"metric": "chance", "value": 0.05, "low": 0.05, "high": 0.05, "questions": {}}
        return [*rows, score_row("rl3", "procedural", pooled, k=1) | chance]


def plan(
    checkpoint: str, benchmarks: list[str], k: int, control: str = "none", T: float = 1.0
) -> dict[str, Any]:
    """One plan of an evaluation."""
    return {"checkpoint": checkpoint, "benchmarks": benchmarks, "k": k, "temperature": T, "limit": None,
            "control": control, "deep_k": None, "deep_limit": None}  # fmt: skip


def summary_json(
    scores: list[dict[str, Any]],
    plans: list[dict[str, Any]] | None = None,
    *,
    checkpoint: str = "c" * 64,
    samples: str = "s" * 64,
) -> dict[str, Any]:
    """A summary as the evaluation writes it."""
    return {
        "checkpoint_digest": checkpoint, "fingerprint": "f" * 64, "engine": "local", "served_model": None,
        "variant": None, "settings": SETTINGS | {"plans": plans or []}, "benchmarks": {},
        "policies": {"strict": "numbers"}, "unavailable": UNAVAILABLE, "scores": scores, "samples_sha256": samples,
    }  # fmt: skip


def manifest_json(
    stage: str, files: dict[str, str], facts: dict[str, Any], data: str | None = None
) -> dict[str, Any]:
    """A manifest as every step writes it."""
    manifest = Manifest(stage=stage, files=files, parent=None, data=data, steps=10, facts=facts)
    return asdict(manifest)


def publish(folder: Path, scores: list[dict[str, Any]], plans: list[dict[str, Any]]) -> None:
    """Write the summary of the samples in the folder."""
    checkpoint = folder.parents[1] / "checkpoints" / folder.name / "manifest.json"
    identity = digest(json.loads(checkpoint.read_text())["files"]) if checkpoint.exists() else "c" * 64
    samples = sha256(folder / "samples.parquet")
    put(folder / "summary.json", summary_json(scores, plans, checkpoint=identity, samples=samples))


def republish(folder: Path, trajectories: list[Trajectory]) -> None:
    """Write other samples into an evaluation folder, and the summary that they give."""
    summary = json.loads((folder / "summary.json").read_text())
    write_parquet(trajectories, folder / "samples.parquet")
    scores = []
    for row in summary["scores"]:
        names = RINGS if row["benchmark"] == "procedural" else (row["benchmark"],)
        outcomes: dict[str, list[float]] = {}
        for t in sorted(trajectories, key=lambda t: t.sample):
            if t.benchmark in names and (t.control, t.T) == (row["control"], row["temperature"]):
                verdict = reward_of(t.verdicts[row["grader"]].verdict)
                if verdict is not None:
                    outcomes.setdefault(t.problem, []).append(verdict)
        if row["metric"].startswith("avg@") and row["control"] not in ("shuffled_golds", "mute"):
            k = min(map(len, outcomes.values()))
            row = score_row(
                row["checkpoint"], row["benchmark"], outcomes, k=k, control=row["control"],
                temperature=row["temperature"], grader=row["grader"],
            )  # fmt: skip
        elif row["metric"].startswith("pass@"):
            row = pass_row(row["checkpoint"], row["benchmark"], outcomes, k=int(row["metric"][5:]))
        scores.append(row)
    publish(folder, scores, summary["settings"]["plans"])


def publish_tokens(root: Path, checkpoint: str) -> None:
    """Write the manifest of the token table in the folder."""
    folder, samples = root / "score" / checkpoint, root / "eval" / checkpoint / "samples.parquet"
    files = {"tokens.parquet": sha256(folder / "tokens.parquet")}
    data = sha256(samples) if samples.exists() else None
    put(folder / "manifest.json", manifest_json("score", files, {"vocab_size": 400}, data))
    put(folder / "run.json", {"seconds": 1.0})


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def fake_trajectories(
    run: str,
    checkpoint: str,
    outcomes: dict[str, dict[str, list[float]]],
    rng: np.random.Generator,
    control: str = "none",
) -> list[Trajectory]:
    """One trajectory per outcome, by benchmark and question."""
    return [
        replace(fake_trajectory(run, checkpoint, benchmark, question, i, bool(value), rng), control=control)
        for benchmark, part in outcomes.items()
        for question, values in part.items()
        for i, value in enumerate(values)
    ]


def pass_row(checkpoint: str, benchmark: str, outcomes: dict[str, list[float]], *, k: int) -> dict[str, Any]:
    """pass@k of the same outcomes."""
    by_question = pass_at_k_by_question(outcomes, k)
    spread = score_interval({question: [value] for question, value in by_question.items()}, seed=0)
    value = sum(by_question.values()) / len(by_question)
    return score_row(checkpoint, benchmark, outcomes, k=k) | {
        "metric": f"pass@{k}", "value": value, "low": spread.low, "high": spread.high, "questions": {},
    }  # fmt: skip


def write_arms(root: Path, effect: float = 0.1, seeds: int = 2, noise: float = 0.0) -> None:
    """Two arms, three steps; `effect` is what roc_paper adds to the accuracy of grpo_g."""
    manifest = root / "checkpoints" / "sft" / "manifest.json"
    parent = digest(json.loads(manifest.read_text())["files"]) if manifest.exists() else None
    rng = np.random.default_rng(0)
    for seed in range(seeds):
        base = 0.5 + float(rng.normal(0, noise))
        for arm, cost, shift in (
            ("grpo_g", 100, 0.0),
            ("roc_paper", 200, effect + float(rng.normal(0, noise / 5))),
        ):
            curve = [
                CurvePoint(step=s, rollouts=cost * s, sampled_tokens=40 * cost * s, seconds=2.0 * s,
                           accuracy=(base + shift) * s / 3, tool_error_frac_correct=0.2,
                           response_len_correct_mean=60.0)
                for s in (1, 2, 3)
            ]  # fmt: skip
            endpoints = {"accuracy": base + shift + 0.01 * seed, "tool_error_frac_correct": 0.2 - shift}
            record = ArmRecord(
                arm=arm, origin="main", seed=seed, text=arm, endpoints=endpoints, curve=curve, run=root.name,
                parent=parent,
            )  # fmt: skip
            record.write(root / "arms" / f"{record.name}.json")


def put(path: Path, value: object) -> None:
    """Write indented JSON."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1, sort_keys=True), encoding="utf-8")


def _outcomes(
    ring: str, questions: int, k: int, skill: float, rng: np.random.Generator
) -> dict[str, list[float]]:
    hardness = np.linspace(-0.3, 0.3, questions)
    p = np.clip(skill + hardness * min(skill, 1 - skill), 0, 1)
    return {f"{ring}-{i:03d}": [float(x) for x in rng.binomial(1, p[i], k)] for i in range(questions)}


def score_row(
    checkpoint: str,
    benchmark: str,
    outcomes: dict[str, list[float]],
    *,
    k: int,
    control: str = "none",
    temperature: float = 1.0,
    grader: str = "strict",
) -> dict[str, Any]:
    """One row as the evaluation writes it."""
    interval = score_interval(outcomes, seed=0)
    return {
        "checkpoint": checkpoint,
        "benchmark": benchmark,
        "metric": f"avg@{k}",
        "temperature": temperature,
        "control": control,
        "value": avg_at_k(outcomes),
        "low": interval.low,
        "high": interval.high,
        "num_questions": len(outcomes),
        "num_samples": sum(len(v) for v in outcomes.values()),
        "grader": grader,
        "questions": outcomes,
    }


def fake_trajectory(
    run: str,
    checkpoint: str,
    benchmark: str,
    problem: str,
    sample: int,
    correct: bool,
    rng: np.random.Generator,
) -> Trajectory:
    """Two turns: a tool call that works more often than not, then an answer."""
    ok = bool(rng.random() < (0.9 if correct else 0.6))
    error = (
        None if ok else ToolError(type="ZeroDivisionError", message="division by zero", traceback="line 1")
    )
    result = ToolResult(
        id=f"{problem}/{sample}/0",
        status=Status.OK if ok else Status.ERROR,
        stdout="42\n" if ok else "",
        error=error,
    )
    length = int(rng.integers(30, 60))
    prompt = np.random.default_rng(zlib.crc32(problem.encode())).integers(5, 400, 20)
    ids = [int(x) for x in [*prompt, *rng.integers(5, 400, length)]]
    code = "print(6 * 7)"
    middle = 20 + length // 2
    turns = [
        Turn(
            text="Compute it.\n<tool_call>",
            start=20,
            end=middle,
            call=CallKind.EXECUTED,
            result=result,
            code=code,
        ),
        Turn(
            text="<answer>\\boxed{42}</answer>",
            start=middle + 6,
            end=20 + length,
            call=CallKind.NONE,
            result=None,
        ),
    ]
    kind = VerdictKind.CORRECT if correct else VerdictKind.WRONG
    mask = [False] * 20 + [True] * (middle - 20) + [False] * 6 + [True] * (20 + length - middle - 6)
    return Trajectory(
        run=run,
        checkpoint=checkpoint,
        benchmark=benchmark,
        problem=problem,
        sample=sample,
        ids=ids,
        mask=mask,
        logprob=[-0.1 if m else 0.0 for m in mask],
        prompt_len=20,
        turns=turns,
        stop=StopReason.ANSWER if correct or rng.random() < 0.8 else StopReason.LENGTH,
        reward=float(correct),
        verdicts={
            name: Verdict(id=f"{problem}/{sample}", verdict=kind, extracted="42", grader=name)
            for name in ("strict", "rstar_compat")
        },
    )


def write_metrics(root: Path, rng: np.random.Generator) -> None:
    """Metrics of sft and the three stages, with the paper's directions built in."""
    folder = root / "metrics"
    folder.mkdir(parents=True, exist_ok=True)
    sft = [{"step": i, "stage": "sft", "loss": float(3 * np.exp(-i / 10) + 0.4)} for i in range(1, 41)]
    _lines(folder / "sft.jsonl", sft)
    step, total = 0, sum(STEPS.values())
    for stage, steps in STEPS.items():
        rows, seconds = [], []
        for _ in range(steps):
            step += 1
            rows.append(_metric_row(stage, step, step / total, rng))
            seconds.append(
                {
                    "step": step,
                    "stage": stage,
                    "rollout_s": 2.0,
                    "tool_s": 0.4,
                    "update_s": 1.0 + 0.1 * rng.random(),
                }
            )
        _lines(folder / f"{stage}.jsonl", rows)
        _lines(folder / f"{stage}.timing.jsonl", seconds)


def _metric_row(stage: str, step: int, t: float, rng: np.random.Generator) -> dict[str, Any]:
    noise = float(rng.normal(0, 0.02))
    return {
        "step": step,
        "stage": stage,
        "accuracy": min(1.0, 0.35 + 0.35 * t + noise),
        "reward_mean": min(1.0, 0.35 + 0.35 * t + noise),
        "response_len_mean": 90 - 15 * t + 100 * noise,
        "response_len_correct_mean": 75 - 12 * t + 80 * noise,
        "truncated_frac": max(0.0, 0.1 - 0.06 * t + noise / 3),
        "tool_error_frac": max(0.0, 0.3 - 0.2 * t + noise),
        "tool_error_frac_correct": max(0.0, 0.18 - 0.13 * t + noise / 2),
        "tool_calls_mean": 1.4 + 0.2 * t,
        "first_call_success_frac": 0.7 + 0.2 * t,
        "turns_mean": 2.4,
        "num_kept": 192,
        "p_total_pos_before": 0.22 - 0.1 * t,
        "p_total_pos_after": 0.1 - 0.06 * t,
        "groups_all_right_frac": 0.05 + 0.45 * t,
        "groups_all_wrong_frac": max(0.0, 0.2 - 0.15 * t),
        "repeated_call_frac": 0.04,
        "grad_norm": 0.6,
        "clip_low_frac": 0.0,
        "clip_high_frac": 0.0,
        "mismatch_abs_mean": 1e-6,
        "loss": 0.01,
        "num_rollouts": 384,
        "num_sampled_tokens": 30_000,
        "num_trained_tokens": 14_000,
    }


SETTINGS = {
    "eval": {"top_p": 1.0, "max_prompt": 512, "max_response": 256, "max_turns": 4, "seed": 0},
    "rollout": {
        "system": "brief",
        "tool": {"name": "python", "state": "stateless", "own": None, "response_chars": 256},
        "kv_tokens": 16384,
    },
    "sandbox": {"cpu_s": 1.0, "wall_s": 10.0, "memory_mib": 256, "output_bytes": 4096, "preload": []},
}  # fmt: skip


def _lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


WORDS = {
    "reason": [" we", " need", " the", " sum", " so", " compute", " it", ".", " value", " of"],
    "fork": [" wait", " but", " check", " however", " maybe"],
    "tool_call": ['{"', "code", '":', " print", "(", "6", " *", " 7", ")", '"}'],
    "answer": ["<answer>", "\\", "boxed", "{", "42", "}", "</answer>"],
}


def write_tokens(path: Path, run: str, checkpoint: str, rng: np.random.Generator, problems: int = 24) -> None:
    """A token table where forking words and the first tokens after a tool response have high entropy."""
    rows: list[dict[str, Any]] = []
    for p in range(problems):
        for sample in range(2):
            after = "ok" if rng.random() < 0.7 else "error"
            rows += _token_rows(run, checkpoint, f"procedural-numbers-{p:03d}", sample, after, rng)
    path.parent.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows).to_parquet(path)


def _token_rows(
    run: str, checkpoint: str, problem: str, sample: int, after: str, rng: np.random.Generator
) -> list[dict[str, Any]]:
    plan = [("reason", 14, 0), ("tool_call", 10, 0), ("reason", 16, 1), ("answer", 7, 1)]
    rows, index, distance = [], 20, 0
    for segment, length, turn in plan:
        index += 8 if segment == "reason" and turn == 1 else 0
        for i in range(length):
            fork = segment == "reason" and rng.random() < 0.15
            words = WORDS["fork" if fork else segment]
            text = words[int(rng.integers(len(words)))] if segment == "reason" else words[i % len(words)]
            level = {"reason": 0.4, "tool_call": 0.08, "answer": 0.05}[segment] + (1.2 if fork else 0.0)
            if turn == 1 and segment == "reason" and i < 6:
                level += 0.9 if after == "ok" else 1.3
            entropy = min(float(level * rng.gamma(4.0, 0.25)), 5.9)  # at most ln 400
            rows.append(
                {
                    "run": run,
                    "checkpoint": checkpoint,
                    "benchmark": "procedural-numbers",
                    "problem": problem,
                    "sample": sample,
                    "turn": turn,
                    "index": index,
                    "token_id": int(rng.integers(5, 400)),
                    "text": text,
                    "segment": segment,
                    "entropy": entropy,
                    "logprob": -entropy * float(rng.random()),
                    "rank": int(rng.integers(0, 3)),  # 0: the most likely token
                    "after_tool": after if turn else None,
                    "distance": distance if turn else None,
                    "correct": bool(sample),
                }
            )
            index += 1
            distance += turn
    return rows


UNAVAILABLE = [
    {"benchmark": "bfcl_v3", "how": "give a checkout of the function-calling benchmark with --data"},
    {"benchmark": "gpqa_diamond", "how": "accept its licence, put the archive under --data"},
    {"benchmark": "ifeval", "how": "put ifeval.jsonl under --data"},
]
