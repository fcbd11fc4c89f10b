"""The whole DAG on the micro preset: it ends, a second call does nothing, its checkpoints match their manifests."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
import torch

from analysis.report.waterfall import read_usage
from tests.pipeline.checkout import scheduled
from tests.pipeline.conftest import MicroRun


def test_the_run_prints_the_report_path_and_the_time_of_each_phase(micro_run: MicroRun) -> None:
    assert "report: results/micro/report/index.html" in micro_run.output
    assert "checkpoints/rl3" in micro_run.output
    report = json.loads((micro_run.folder / "report" / "report.json").read_text())
    assert {"run", "preset", "phases_s", "wall_s", "scores", "claims", "provenance"} <= set(report)
    assert {score["checkpoint"] for score in report["scores"]} == {"base", "sft", "rl1", "rl2", "rl3"}


def test_a_second_call_does_nothing(micro_run: MicroRun) -> None:
    again = micro_run.checkout.snakemake(micro_run.config, "reproduce")
    assert again.returncode == 0
    assert "Nothing to be done" in again.stdout


def test_weights_moved_in_every_stage(micro_run: MicroRun) -> None:
    digests = [
        json.loads((micro_run.folder / "checkpoints" / name / "manifest.json").read_text())["files"][
            "model.safetensors"
        ]
        for name in ("base", "sft", "rl1", "rl2", "rl3")
    ]
    assert len(set(digests)) == 5


def test_changed_documents_and_trainer_code_rerun_nothing(micro_run: MicroRun) -> None:
    for name in ("README.md", "trainer/stages/rl.py", "docs/decisions.md"):
        path = micro_run.checkout.root / name
        path.write_text(path.read_text() + "\n")
    dry = micro_run.checkout.snakemake(micro_run.config, "reproduce", "-n")
    assert scheduled(dry.stdout) == {}


def test_plain_transformers_gives_the_behaviour_log_probs(micro_run: MicroRun) -> None:
    """The engine's log-probs in the samples file, against a pass of AutoModelForCausalLM over the stored ids."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from records.trajectory_files import read_parquet

    folder = micro_run.folder / "checkpoints" / "rl3"
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    assert len(AutoTokenizer.from_pretrained(folder)) > 0
    samples = read_parquet(micro_run.folder / "eval" / "rl3" / "samples.parquet")
    worst = 0.0
    for trajectory in [t for t in samples if t.turns][:10]:
        with torch.inference_mode():
            logits = model(torch.tensor([trajectory.ids])).logits[0, :-1].float()
        # Greedy samples carry log-probs at temperature 1.
        expected = (
            (logits / (trajectory.T or 1.0))
            .log_softmax(-1)
            .gather(1, torch.tensor(trajectory.ids[1:])[:, None])[:, 0]
        )
        mask = torch.tensor(trajectory.mask[1:])
        found = torch.tensor(trajectory.logprob[1:])
        worst = max(worst, float((expected - found)[mask].abs().max()))
    assert worst < 1e-5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trainer", "sft", "--set", "sft.epoch=3"], "nearest known key: sft.epochs"),
        (["trainer", "rl", "--stage", "rl1", "--set", "rollout.temperature=0"], "rollout.temperature"),
        (["trainer", "inspect", "no-such-file.jsonl"], "no-such-file.jsonl"),
        (
            ["evaluation", "run", "--checkpoint", "nowhere", "--out", "x", "--benchmark", "aime24"],
            "nowhere",
        ),
    ],
)
def test_wrong_input_is_one_line_and_status_2(micro_run: MicroRun, arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=micro_run.checkout.root,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2, done.stderr
    assert words in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_config_typo_ends_the_snakemake_call_with_one_line(micro_run: MicroRun) -> None:
    config = micro_run.checkout.configure("typo", rl__rl3__stpes=3)
    done = micro_run.checkout.snakemake(config, "reproduce", "-n")
    assert done.returncode == 2
    assert "rl.rl3.stpes" in done.stdout
    assert "nearest known key: rl.rl3.steps" in done.stdout


def test_a_checkpoint_with_a_wrong_digest_is_refused_by_its_consumer(micro_run: MicroRun) -> None:
    weights = micro_run.folder / "checkpoints" / "rl2" / "model.safetensors"
    original = weights.read_bytes()
    try:
        weights.write_bytes(original[:-1] + bytes([original[-1] ^ 1]))
        done = subprocess.run(
            [
                *(
                    sys.executable,
                    "-m",
                    "evaluation",
                    "run",
                    "--benchmark",
                    "procedural-dev",
                    "--out",
                    "broken",
                ),
                *("--checkpoint", str(weights.parent), "--config", "config/micro.yaml"),
            ],
            cwd=micro_run.checkout.root,
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        weights.write_bytes(original)
    assert done.returncode == 2
    assert "model.safetensors" in done.stderr
    assert "delete" in done.stderr


def test_the_jobs_of_a_run_share_the_imports_of_its_servers(micro_run: MicroRun) -> None:
    usage = {entry.job: entry for entry in read_usage(micro_run.folder)}
    server = usage["job server trainer evaluation"].import_cpu_s
    assert server is not None
    forked = [usage[job].import_cpu_s for job in ("trainer sft", "trainer rl rl1", "evaluation run sft sft")]
    assert all(seconds is not None and seconds < server / 4 for seconds in forked)
    assert "job server analysis" in usage


def test_the_line_over_all_jobs_replaces_the_lines_of_snakemake(micro_run: MicroRun) -> None:
    assert "micro: " in micro_run.output
    assert "accuracy" in micro_run.output
    assert "Select jobs to execute" not in micro_run.output
