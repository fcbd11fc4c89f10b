"""`ObjectiveSection`: GRPO, RoC and the settings that experiments change in them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from config.fields import Betas, Count, Frac, Positive, PositiveFloat, Section


class RocSelection(StrEnum):
    PAPER = "paper"
    RELEASE = "release"
    RANDOM = "random"
    PERMUTED = "permuted"
    """As paper, with the penalties shuffled among the positives by the seeded stream: same weights, no information."""
    NONE = "none"


Penalty = Literal["p_err", "p_format", "p_repetition"]


class RocSection(Section):
    """Resample on Correct (paper section 2.2.3)."""

    selection: RocSelection
    """permuted: as paper, the penalties shuffled among the correct rollouts of a group."""
    oversample: Positive
    """Rollouts sampled per rollout kept: 2 in the paper (32 to 16); 1 with selection none."""
    epsilon: PositiveFloat
    """Added to p_total before weights 1 / (p_total + epsilon); the paper leaves p_total = 0 open."""
    penalties: list[Penalty]
    """Summed to p_total: failed calls (Eq. 4), answer tags (Eq. 5); p_repetition, the share of repeated n-grams, is
    what the paper tried and dropped (section 4.3.1)."""


class Normalisation(StrEnum):
    GLOBAL_TOKENS = "global_tokens"
    PER_GROUP_TOKENS = "per_group_tokens"
    RELEASE_MICROBATCH = "release_microbatch"


class OptimizerSection(Section):
    """AdamW with a constant rate after warm-up (paper section 5.1)."""

    lr: PositiveFloat
    warmup_steps: Count
    """Rollout steps of linear warm-up at each stage whose optimizer is new; paper: 20."""
    betas: Betas
    weight_decay: Annotated[float, Field(ge=0.0)]
    grad_clip: PositiveFloat
    """Largest global gradient norm."""


class ObjectiveSection(Section):
    """GRPO-RoC (paper section 2.2)."""

    group_size: Annotated[int, Field(ge=2)]
    """G: rollouts trained per problem; the paper's 16."""
    prompts_per_step: Positive
    """Problems of one RL step; paper: 512."""
    roc: RocSection
    clip: Annotated[list[Annotated[float, Field(ge=0.0)]], Field(min_length=2, max_length=2)]
    """[low, high]: a ratio outside [1 - low, 1 + high] pulls no further; paper: 0.2 and 0.28 (Clip-Higher)."""
    normalisation: Normalisation
    updates_per_step: Positive
    """Optimizer updates per rollout batch. At 1 the ratio is 1 and the clip never acts."""
    grader: Literal["strict", "rstar_compat"]
    """Grader whose verdict becomes the reward."""
    reward: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*$")] | None
    """User's reward as package.module:function, (Problem, Rollout) -> Verdict; null: the grader."""
    reward_limit_s: PositiveFloat
    """Wall seconds of a user's reward per rollout; a rollout over this limit is not graded."""
    reward_flip: Frac
    """Share of the 0/1 rewards that a seeded draw flips; an experiment, 0 otherwise."""
    penalty_weight: Annotated[float, Field(ge=0.0, lt=1.0)]
    """Weight of the share of failed calls, subtracted from the reward; 0 in the paper, which selects instead."""
    overlong: Literal["penalise", "filter"]
    """Rollouts that the response budget ended, in a turn or before a tool response, earn 0, or leave baseline and loss;
    the paper tried and dropped the latter (section 4.3.1)."""
    kl_weight: Annotated[float, Field(ge=0.0)]
    """Weight of the KL to the stage's first policy; 0 in the paper (section 2.2.1)."""
    entropy_weight: Annotated[float, Field(ge=0.0)]
    """Weight of the entropy bonus; 0 in the paper (section 2.2.3)."""
    optimizer: OptimizerSection
    micro_batch_tokens: Positive
    """Most tokens (padding included) in one forward pass, at least one rollout; changes rounding only."""
    layout: Literal["padded", "packed"]
    """padded: rectangles of rows of similar length; packed: rows end to end without padding, with a group's prompt
    computed once. Gradients are equal up to rounding; padded is faster for very small models, packed for all others."""
    compute: Literal["float32", "bfloat16"]
    """Type of the matrix products of training. Weights, sums and optimizer are always float32."""
    checkpoint_activations: bool
    """Keep one activation per layer and recompute the rest: less memory, about a third more work."""

    @model_validator(mode="after")
    def _low_leaves_a_ratio(self) -> Self:
        if self.clip[0] > 1:
            raise ValueError(
                f"objective.clip = {self.clip}: its first bound is at most 1, because no ratio is below 0"
            )
        return self
