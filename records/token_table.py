"""`SCHEMA` of a token table: one row per sampled token, written by `trainer score` and read by the entropy study."""

from __future__ import annotations

import pyarrow as pa

SCHEMA = pa.schema(
    [
        ("run", pa.string()),
        ("checkpoint", pa.string()),
        ("benchmark", pa.string()),
        ("problem", pa.string()),
        ("sample", pa.int32()),
        ("turn", pa.int32()),
        ("index", pa.int32()),  # position in the trajectory, the prompt included
        ("token_id", pa.int32()),
        ("text", pa.string()),
        ("segment", pa.string()),  # one of SEGMENTS
        ("entropy", pa.float32()),  # nats, over the full vocabulary, at temperature 1
        ("logprob", pa.float32()),
        ("rank", pa.int32()),  # 0 is the most likely token
        ("after_tool", pa.string()),  # one of AFTER_TOOL; null in the first turn
        ("distance", pa.int32()),  # tokens since the last tool response; null in the first turn
        ("correct", pa.bool_()),  # verdict of the trajectory
    ]
)
AFTER_TOOL = frozenset({"ok", "error"})
