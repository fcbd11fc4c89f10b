"""`collect_rarely`: configures the garbage collector of a command for heavy imports.

The imports of torch and transformers make half a million objects that live until the process ends. By default, the
collector searches them repeatedly during the imports, and once more at exit: 1.6 to 2.2 of the 6.0 CPU-seconds of
`import trainer.stages.rl_job`.
"""

from __future__ import annotations

import atexit
import gc

_THRESHOLDS = (10_000, 10, 10)
"""Arguments of `gc.set_threshold`. Higher values save no more time and keep cycles that hold tensors longer."""


def collect_rarely() -> None:
    """Collect cycles rarely, and not at exit. Call it once per process, before any heavy import."""
    gc.set_threshold(*_THRESHOLDS)
    # The interpreter's collection at exit skips frozen objects.
    atexit.register(gc.freeze)
