"""`collect_rarely`: the garbage collector of a command, set for heavy imports.

The imports of torch and transformers make half a million objects that live until the process ends. By default, the
collector searches them again and again during the imports, and once more at exit: 1.6 to 2.2 of the 6.0 CPU-seconds
that `import trainer.stages.rl_job` cost.
"""

from __future__ import annotations

import atexit
import gc

_THRESHOLDS = (10_000, 10, 10)
"""Of `gc.set_threshold`. Higher values gained nothing more and keep cycles that hold tensors longer."""


def collect_rarely() -> None:
    """Collect cycles seldom, and not at exit. Call it before any heavy import, once per process."""
    gc.set_threshold(*_THRESHOLDS)
    # The collection that the interpreter makes at exit skips frozen objects.
    atexit.register(gc.freeze)
