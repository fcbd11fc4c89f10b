"""`score_samples`: token tables for the entropy study, by one teacher-forced pass over stored ids.

Text is never re-tokenised. Entropy is over the full vocabulary, in nats, at temperature 1 (paper section 5.4); it
belongs to the position, not to the token drawn there.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from config.model import AnalysisSection, RuntimeSection
from records.digest import digest
from records.errors import ConfigError
from records.evaluation import REMEDY, EvaluationSummary
from records.files import require_digest, sha256_of, write_json
from records.manifest import MANIFEST, RUN, Manifest, verify
from records.run_folder import SUMMARY, TOKENS
from records.token_table import SCHEMA
from records.trajectory import IdsSource, Trajectory, Turn
from trainer.model import check_device, load_model, use_threads
from trainer.rollout.tokenizer import FolderCodec
from trainer.update.micro_batches import pad, padded_schedule
from trainer.update.scoring import table_batch
from trainer.update.training_rows import Row
from verifier.benchmarks import ALL
from verifier.turn import tags

ENTROPY_TEMPERATURE = 1.0
MAX_TOKENS = 16384


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenPlace:
    """Position of a sampled token in its trajectory."""

    turn: int
    index: int
    segment: str
    """reason, tool_call, answer, or other (tags and the text between them)."""
    after_tool: str | None
    """Status of the tool response before this turn: ok or error; None in the first turn."""
    distance: int | None
    """Tokens since the last tool response."""


def score_samples(
    checkpoint: Path, samples: Path, out: Path, analysis: AnalysisSection, runtime: RuntimeSection
) -> Manifest:
    """Write out/tokens.parquet and its manifest for a seeded draw of trajectories."""
    from records.trajectory_files import read_parquet

    began = time.monotonic()
    use_threads(runtime)
    inputs = ScoreInputs(
        checkpoint=verify(checkpoint).digest if (checkpoint / MANIFEST).exists() else None,
        samples=sha256_of(require_samples(samples)),
        selection=digest([analysis.num_trajectories, analysis.seed]),
    )
    require_free(out, inputs)
    chosen = choose(read_parquet(samples), analysis.num_trajectories, analysis.seed)
    codec = FolderCodec.load(checkpoint)
    rows = [_row(trajectory) for trajectory in chosen]
    columns: dict[int, tuple[list[float], list[float], list[int]]] = {}
    model = load_model(checkpoint, check_device(runtime))
    lengths = [len(row.ids) for row in rows]
    for indices in padded_schedule(lengths, max(MAX_TOKENS, *lengths)).micro_batches:
        layout = pad(rows, indices)
        table = table_batch(model, layout, ENTROPY_TEMPERATURE)
        for index, entropy, logprob, rank in zip(
            layout.row_S.tolist(),
            table.entropy_S.tolist(),
            table.logprob_S.tolist(),
            table.rank_S.tolist(),
            strict=True,
        ):
            entropies, logprobs, ranks = columns.setdefault(index, ([], [], []))
            entropies.append(max(entropy, 0.0))
            logprobs.append(logprob)
            ranks.append(rank)
    records = [
        record
        for index, trajectory in enumerate(chosen)
        for record in _records(trajectory, codec, *columns[index])
    ]
    out.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(records, schema=SCHEMA), out / TOKENS, compression="zstd")
    manifest = Manifest(
        stage="score",
        files={TOKENS: sha256_of(out / TOKENS)},
        parent=inputs.checkpoint,
        data=inputs.samples,
        facts={
            "num_trajectories": len(chosen),
            "num_tokens": len(records),
            "temperature": ENTROPY_TEMPERATURE,
            "vocab_size": model.config.vocab_size,
            "selection": inputs.selection,
        },
    )
    write_json(out / RUN, {"seconds": time.monotonic() - began})
    manifest.write(out)
    return manifest


def require_samples(samples: Path) -> Path:
    """Return the samples file. Raises ConfigError when it is missing or differs from the published one."""
    if not samples.is_file():
        raise ConfigError(f"{samples}: does not exist; give samples.parquet of an evaluation")
    if (samples.parent / SUMMARY).is_file():
        require_digest(
            samples, EvaluationSummary.load(samples.parent).samples_sha256, samples.parent / SUMMARY, REMEDY
        )
    return samples


@dataclass(frozen=True, slots=True, kw_only=True)
class ScoreInputs:
    """Digests of everything that decides a token table."""

    checkpoint: str | None
    """None for a folder without manifest."""
    samples: str
    selection: str
    """Digest of the number of trajectories and the seed of the draw."""


def require_free(out: Path, inputs: ScoreInputs) -> None:
    """Raise ConfigError when `out` holds a finished token table of other inputs."""
    if not (out / MANIFEST).is_file():
        return
    manifest = Manifest.load(out)
    held = ScoreInputs(
        checkpoint=manifest.parent, samples=manifest.data or "", selection=str(manifest.facts["selection"])
    )
    other = [name for name, value in asdict(inputs).items() if asdict(held)[name] != value]
    if other:
        raise ConfigError(
            f"{out}: holds the token table of another input ({', '.join(other)}); name another folder, "
            "or delete this one"
        )


def choose(trajectories: Sequence[Trajectory], count: int, seed: int) -> list[Trajectory]:
    """Draw, by seed, among sampled, uncontrolled trajectories with at least one sampled token.

    Lost trajectories are no evidence about the model and are left out. So are native prompts: the study is about
    reasoning with the suite's tool. Of several sampling temperatures only the one nearest 1 is used, so that a
    question's sample is one trajectory.

    Raises ConfigError when ids were re-tokenised or nothing is left.
    """
    if any(t.ids_source is not IdsSource.SAMPLED for t in trajectories):
        raise ConfigError(
            "samples hold re-tokenised ids; entropy needs ids exactly as an engine sampled them"
        )
    native = {declared.name for declared in ALL if not declared.prompt.is_agentic}
    # A lost rollout is incomplete, neither right nor wrong.
    whole = [t for t in trajectories if t.stop.is_models and t.reward is not None]
    free = [t for t in whole if any(t.mask) and t.control == "none" and t.benchmark not in native]
    nearest = min(
        (t.T for t in free), key=lambda T: abs(T - ENTROPY_TEMPERATURE), default=ENTROPY_TEMPERATURE
    )
    usable = sorted((t for t in free if nearest == t.T), key=lambda t: t.key)
    if not usable:
        raise ConfigError("samples hold no trajectory with sampled tokens; evaluate the checkpoint first")
    if len(usable) <= count:
        return usable
    return sorted(random.Random(f"score:{seed}").sample(usable, count), key=lambda t: t.key)


def _row(trajectory: Trajectory) -> Row:
    return Row(
        ids=trajectory.ids,
        mask=trajectory.mask,
        logprob=trajectory.logprob,
        advantage=0.0,
        group=trajectory.problem,
        temperature=ENTROPY_TEMPERATURE,
    )


def places(trajectory: Trajectory, codec: FolderCodec) -> Iterator[TokenPlace]:
    """Label every sampled token with its turn, segment and distance from the last tool response."""
    previous: Turn | None = None
    for number, turn in enumerate(trajectory.turns):
        after = None
        if previous is not None:
            is_ok = previous.result is not None and previous.result.status == "ok"
            after = "ok" if is_ok else "error"
        for index, segment in zip(
            range(turn.start, turn.end), segments(trajectory.ids[turn.start : turn.end], codec), strict=True
        ):
            distance = index - turn.start if after is not None else None
            yield TokenPlace(turn=number, index=index, segment=segment, after_tool=after, distance=distance)
        previous = turn


def segments(ids: Sequence[int], codec: FolderCodec) -> list[str]:
    """Segment of each token of one turn, by the tags seen so far (the opening `<reason>` is pre-filled).

    A tag may be one token, several, or end within one (`>` and a newline are one token in public vocabularies). A tag
    inside the JSON of a call does not count. A token that completes a tag is `other`; the tokens before it still
    belong to the open segment.
    """
    pieces = [codec.token(token_id) for token_id in ids]
    marks = deque(tags("".join(pieces)))
    labels, end, state = [], 0, "reason"
    for piece in pieces:
        end += len(piece)
        label = state
        while marks and marks[0].end <= end:
            mark = marks.popleft()
            following = _TAGS[state].get(f"<{'/' * mark.closes}{mark.name}>")
            if following is not None:
                state, label = following, "other"
        labels.append(label)
    return labels


_TAGS: dict[str, dict[str, str]] = {
    "reason": {"</reason>": "other"},
    "tool_call": {"</tool_call>": "other"},
    "answer": {"</answer>": "other"},
    "other": {"<tool_call>": "tool_call", "<answer>": "answer", "<reason>": "reason"},
}
"""Open segment -> tags that change it, and the segment that follows."""


def _records(
    trajectory: Trajectory,
    codec: FolderCodec,
    entropies: Sequence[float],
    logprobs: Sequence[float],
    ranks: Sequence[int],
) -> Iterator[dict[str, Any]]:
    for place, entropy, logprob, rank in zip(
        places(trajectory, codec), entropies, logprobs, ranks, strict=True
    ):
        token_id = trajectory.ids[place.index]
        yield {
            "run": trajectory.run,
            "checkpoint": trajectory.checkpoint,
            "benchmark": trajectory.benchmark,
            "problem": trajectory.problem,
            "sample": trajectory.sample,
            "turn": place.turn,
            "index": place.index,
            "token_id": token_id,
            "text": codec.token(token_id),
            "segment": place.segment,
            "entropy": entropy,
            "logprob": logprob,
            "rank": rank,
            "after_tool": place.after_tool,
            "distance": place.distance,
            "correct": trajectory.reward is not None and trajectory.reward > 0,
        }
