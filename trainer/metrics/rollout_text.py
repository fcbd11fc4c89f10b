"""`rollout_text`: a rollout as text, with a mark on the tokens that the loss sees."""

from __future__ import annotations

from collections.abc import Sequence

from records.trajectory import Trajectory
from trainer.rollout.chat import Codec

MOST_TOKENS = 512
"""Listed tokens of one rollout; the text above the list is complete."""


def chosen(trajectories: Sequence[Trajectory]) -> list[Trajectory]:
    """The first trained and the first untrained rollout by key; a repeated run chooses the same ones.

    >>> from records.trajectory import SelectionReason
    >>> KEPT, NOT_DRAWN = SelectionReason.KEPT, SelectionReason.NOT_DRAWN
    >>> names = dict(run="", checkpoint="", benchmark="", problem="p")
    >>> rollouts = [Trajectory(**names, sample=i, selection=KEPT if i in (1, 2) else NOT_DRAWN) for i in (2, 0, 1, 3)]
    >>> [trajectory.sample for trajectory in chosen(rollouts)]
    [1, 0]
    """
    ordered = sorted(trajectories, key=lambda t: t.key)
    return [t for kept in (True, False) for t in [t for t in ordered if bool(t.kept) is kept][:1]]


def rollout_text(trajectory: Trajectory, codec: Codec) -> str:
    """Return a heading, the conversation with guillemets around what the loss sees, and one line per token.

    A token line holds its position; `loss` for a sampled token of a trained rollout, `sampled` for one of an
    untrained rollout, nothing for prompt and tool text; then the behaviour log-prob (nats), id and text.
    """
    t = trajectory
    word = "loss" if t.kept else "sampled"
    heading = (
        f"=== step {t.step}, problem {t.problem}, sample {t.sample}: reward {t.reward}, p_err {t.p_err:.2f}, "
        f"p_format {t.p_format:.2f}, stop {t.stop.value}, {'kept' if t.kept else 'dropped'} ({t.reason}); "
        f"{len(t.ids)} tokens, {t.num_sampled} sampled"
    )
    lines = [heading, _masked(t, codec), f"--- token  {word}  log-prob  id  text"]
    for place, (token, on, logprob) in enumerate(zip(t.ids, t.mask, t.logprob, strict=True)):
        if place == MOST_TOKENS:
            lines.append(f"... {len(t.ids) - place} more tokens")
            break
        mark = word if on else "-"
        shown = f"{logprob:9.4f}" if on else " " * 9
        lines.append(f"{place:6d}  {mark:7}  {shown}  {token:6d}  {codec.decode([token])!r}")
    return "\n".join(lines) + "\n\n"


def _masked(trajectory: Trajectory, codec: Codec) -> str:
    """Decode runs of equal mask together."""
    pieces, start = [], 0
    ids, mask = trajectory.ids, trajectory.mask
    for end in range(1, len(ids) + 1):
        if end == len(ids) or mask[end] != mask[start]:
            piece = codec.decode(ids[start:end])
            pieces.append(f"\u00ab{piece}\u00bb" if mask[start] else piece)
            start = end
    return "".join(pieces)
