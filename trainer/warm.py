"""Imports that the jobs of `trainer` share in a job server (`records.job_server`)."""

import trainer.metrics.token_table
import trainer.sft.sft
import trainer.stages.base_checkpoint
import trainer.stages.hard_filter
import trainer.stages.rl_job
