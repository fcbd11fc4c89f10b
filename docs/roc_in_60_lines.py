"""GRPO-RoC on one group, with the public names: 2G rollouts in, one gradient out. Run it to see each step."""

from random import Random

import torch

from config.objective import Normalisation
from config.resolve import resolve
from trainer.selection.advantage import group_advantages
from trainer.selection.roc import Candidate, select
from trainer.update.loss import clipped_loss, row_weights

OBJECTIVE = resolve().objective
"""As in config/tiny.yaml: selection by the paper's rule, epsilon 0.05; clip 0.20 and 0.28."""
G = 4
# 2G = 8 rollouts of one problem. Reward 1 where the answer is right. p_err (paper Eq. 4): share of tool calls that
# failed, 0.5 without a call. p_format (Eq. 5): 1 without an answer, more for each answer beyond the first.
ROLLOUTS = [
    Candidate(index=0, reward=1.0, p_err=0.0, p_format=0.0),
    Candidate(index=1, reward=1.0, p_err=0.5, p_format=0.0),
    Candidate(index=2, reward=1.0, p_err=0.0, p_format=0.0),
    Candidate(index=3, reward=1.0, p_err=1.0, p_format=1.0),
    Candidate(index=4, reward=0.0, p_err=0.0, p_format=0.0),
    Candidate(index=5, reward=0.0, p_err=1.0, p_format=0.0),
    Candidate(index=6, reward=0.0, p_err=0.5, p_format=1.0),
    Candidate(index=7, reward=0.0, p_err=0.0, p_format=0.0),
]
NUM_TOKENS = [3, 5, 4, 9, 6, 2, 7, 4]
"""Sampled tokens of each rollout; tool responses are masked and do not count."""


def main() -> torch.Tensor:
    """One update on the kept rollouts; returns the gradient with respect to the log-probs, [kept rows, longest]."""
    # 1. Resample on Correct: half of the wrong ones uniformly, right ones with weight 1 / (p_total + epsilon).
    selection = select(ROLLOUTS, G, OBJECTIVE.roc, Random(0))
    kept = [ROLLOUTS[index] for index in selection.kept]
    print("kept:", [(rollout.index, rollout.reward, rollout.p_err + rollout.p_format) for rollout in kept])

    # 2. Advantages over what was kept (Eq. 7).
    advantages_N = group_advantages([rollout.reward or 0.0 for rollout in kept])
    print("advantages:", [round(value, 3) for value in advantages_N])

    # 3. One weight for every sampled token of the batch (Eq. 6, counted over the batch).
    lengths_N = [NUM_TOKENS[rollout.index] for rollout in kept]
    weights_N = row_weights(Normalisation.GLOBAL_TOKENS, lengths_N, ["problem"] * len(kept))

    # 4. The clipped loss, Clip-Higher 0.20 / 0.28, no KL, no entropy bonus. A model would give the log-probs.
    mask = torch.arange(max(lengths_N)) < torch.tensor(lengths_N)[:, None]
    logprob = torch.full(mask.shape, -1.0, requires_grad=True)
    advantage = torch.tensor(advantages_N)[:, None].expand(mask.shape)
    weight = torch.tensor(weights_N)[:, None].expand(mask.shape)
    loss, sums = clipped_loss(logprob, logprob.detach(), advantage, weight, mask, OBJECTIVE.clip)
    loss.backward()
    assert logprob.grad is not None
    print(f"loss {loss.item():+.4f}, tokens clipped {sums.num_clipped_low + sums.num_clipped_high}")
    return logprob.grad


if __name__ == "__main__":
    main()
