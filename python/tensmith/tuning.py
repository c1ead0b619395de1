"""Tuning from Python: `tensmith.tune`."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from .inputs import shape_words
from .signatures import Path, Shapes


def tune(
    model: Path, seconds: float = 0, trials: int = 0, *, database: Path | None = None, shapes: Shapes | None = None,
    search: str = "annealing", seed: int = 1, batch: int = 8, runners: Iterable[str] = (), run_threads: int = 0,
    target: str | None = None, precision: str = "fast", libraries: str = "generated", cache_dir: Path | None = None,
    progress: Callable[[int, float, float, float, str], Any] | None = None,
) -> dict[str, Any]:  # fmt: skip
    """Measures points of the model's kernels, and keeps the fastest for compilations (docs/tuning.md). Gives the report.

    seconds, trials: the box, of which one is needed: how long, or how many points, of all kernels together.
    database: where what is found is kept; None: where compilations look for it.
    shapes: dimensions by input, or a symbol's size; kernels of open sizes are left as they are.
    search: "annealing", "evolutionary", "genetic", "greedy", "actor-critic", "walks", "rnn", "random" or "grid"; seed: of all that is drawn; batch: points of a
        round.
    runners: commands that run modules as tensmith-run does, started without a shell; none: this machine. run_threads: of a
        candidate, 0 for as many as CPUs.
    progress: called after each round with trials, seconds, the kernels' seconds before and now, and the kernel's name. An
        exception that it raises ends the run.

    An interrupt (Ctrl-C) ends it after the round, with the report. Errors: ValueError, in words.
    """
    if seconds <= 0 and trials <= 0:
        raise ValueError("tune needs a box: seconds or trials")
    from . import _tune

    request = {
        "model": os.fspath(model), "seconds": float(seconds), "trials": int(trials),
        "database": "" if database is None else os.fspath(database), "shapes": shape_words(shapes), "search": search,
        "seed": int(seed), "batch": int(batch), "runners": list(runners), "run_threads": int(run_threads), "target": target or "",
        "precision": precision, "libraries": libraries, "cache_dir": "" if cache_dir is None else os.fspath(cache_dir),
    }  # fmt: skip
    return json.loads(_tune.tune(json.dumps(request), progress))
