"""Imports that the jobs of `evaluation` share in a job server (`records.job_server`)."""

import evaluation.cli
import evaluation.evaluate
import evaluation.experiments.arm
import evaluation.experiments.sft_variant
import trainer.warm
