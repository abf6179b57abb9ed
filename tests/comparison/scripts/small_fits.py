"""Fits that take next to no time, for tests of the runner; as a script: a run to be killed.

Usage: python small_fits.py FOLDER LOG FITS SECONDS_PER_FIT
"""

import os
import sys
import time
from pathlib import Path

import numpy as np

from adacsl.comparison.fits import FitKey, FitResult
from adacsl.comparison.runner import Job, RunInterrupted, run
from adacsl.comparison.store import Store

IDENTITY = {"data": {"toy": {"digest": "1234"}}, "protocol": {"test": 0.25}}


def result_of(fit, cost=None):
    rng = np.random.default_rng(fit.seed)
    cost = rng.random() if cost is None else cost
    metrics = {"cost": cost, "total_cost": 10 * cost, "normalized_cost": cost, "savings": 1 - cost, "accuracy": 0.5}
    counts = {"tp": 1.0, "fp": 2.0, "fn": 3.0, "tn": 4.0, "n_train": 90.0, "n_test": 10.0}
    scores = rng.random(10).astype(np.float32)
    history = [{"epoch": 0, "lambda": 1.5, "val_cost": 0.5}]
    return FitResult(fit, metrics | counts, scores, scores > 0.5, 0.5, history, seconds=0.01)


def grid(n, per_job=2):
    """Jobs of a few fits each."""
    fits = [
        FitKey("toy", 8.0, method, seed)
        for seed in range(-(-n // per_job))
        for method in ("net", "net-weighted")[:per_job]
    ]
    return [Job(tuple(fits[i : i + per_job])) for i in range(0, n, per_job)]


def note(log, line):
    """Add a line, whole, whichever process writes it."""
    handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(handle, f"{line}\n".encode())
    finally:
        os.close(handle)


def work_slowly(shared, payload, fits):
    for fit in fits:
        note(shared["log"], f"{fit.method} {fit.seed}")
        time.sleep(shared["seconds"])
        yield result_of(fit)


def main():
    folder, log, n, seconds = sys.argv[1:]
    note(log, "begin")
    with Store.open(folder, IDENTITY) as store:
        try:
            shared = {"log": log, "seconds": float(seconds), "data": np.zeros(1000)}
            run(grid(int(n)), work_slowly, store, shared=shared, n_jobs=2)
        except RunInterrupted as stop:
            Path(log).with_suffix(".stop").write_text(str(stop))
            sys.exit(130)


if __name__ == "__main__":
    main()
