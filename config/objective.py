"""`ObjectiveSection`: GRPO, RoC and the settings that experiments change in them."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from config.fields import Betas, Count, Frac, Positive, PositiveFloat, Section


class RocSelection(StrEnum):
    PAPER = "paper"
    RELEASE = "release"
    RANDOM = "random"
    NONE = "none"


class RocTransform(StrEnum):
    """Change to the penalties of the positives before the draw; all but `as_is` are experiment arms."""

    AS_IS = "as_is"
    PERMUTED = "permuted"
    """Shuffled among the positives by the seeded stream: same weights, no information."""
    INVERTED = "inverted"
    """Weights p_total + epsilon: the worst rollout is the likeliest."""


class RocSection(Section):
    """Resample on Correct (paper section 2.2.3)."""

    selection: RocSelection
    oversample: Positive
    """Rollouts sampled per rollout kept: 2 in the paper (32 to 16); 1 with selection none."""
    epsilon: PositiveFloat
    """Added to p_total before weights 1 / (p_total + epsilon); the paper leaves p_total = 0 open."""
    use_p_err: bool
    use_p_format: bool
    use_repetition: bool
    """Adds the share of repeated n-grams to the penalty; the paper tried and dropped this (section 4.3.1)."""
    transform: RocTransform
    """as_is; permuted and inverted are experiment arms."""


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
    roc: RocSection
    clip_low: Frac
    clip_high: PositiveFloat
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
    advantage: Literal["group", "correct_only"]
    """Normalised within the group, or 1 for correct rollouts only (rejection fine-tuning)."""
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
