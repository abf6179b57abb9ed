"""Fit one method on one problem, on its own cores, in the Python of its environment.

    python -m benchmarks.quality.peers.worker METHOD FOLDER [--cores 0 1] [--add FILE]

FOLDER holds ``problem.json`` and ``problem.npz``. The answer is written beside them: ``answer.npz`` (probabilities or
decisions) and ``answer.json`` (``fit_seconds``, ``predict_seconds``, ``cpu_seconds``, ``error``, ``versions``).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("method")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--cores", type=int, nargs="+", help="run on these alone")
    parser.add_argument("--add", type=Path, action="append", default=[])
    options = parser.parse_args(words)
    if options.cores:
        os.sched_setaffinity(0, options.cores)  # before numpy counts them
    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    answer(options.method, options.folder, options.add)


def end_with(parent: int) -> None:
    """End this process and those it started when the run that started it is gone."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os.killpg(os.getpgid(0), signal.SIGKILL)


def answer(name: str, folder: Path, additions: list[Path]) -> None:
    """Fit, predict, and write the answer."""
    from benchmarks.quality.peers.additions import add_file  # noqa: PLC0415  after the cores are chosen
    from benchmarks.quality.peers.methods import PEER_METHODS, attempt, versions_of  # noqa: PLC0415
    from benchmarks.quality.peers.problem import read_problem, write_answer  # noqa: PLC0415

    for file in additions:
        add_file(file)
    result, about = attempt(PEER_METHODS[name], read_problem(folder))
    if result is not None:
        write_answer(result, folder / "answer.npz")
    about["versions"] = versions_of(PEER_METHODS[name])
    (folder / "answer.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # what a library has left running need not be waited for
