"""Fit methods in the Python of a peer: reads the names of folders from standard input, one a line.

A line is ``CONTESTANT<tab>FOLDER``. The folder holds ``problem.json`` and ``problem.npz``; the answer is written beside
them as ``answer.npz`` (``found``: decisions or probabilities) and ``answer.json`` (``seconds``, ``cpu_seconds``,
``error``, ``versions``), and ``done`` is said on standard output.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import numpy as np

from benchmarks.quality.peers.additions import add_file
from benchmarks.quality.peers.methods import PEER_METHODS, attempt, versions_of
from benchmarks.quality.peers.problem import read_problem


def main() -> None:
    for file in sys.argv[1:]:
        add_file(Path(file))
    # what peers print must not be taken for an answer
    said, answers = os.dup(1), sys.stderr
    os.dup2(2, 1)
    sys.stdout = answers
    with os.fdopen(said, "w") as out:
        for line in sys.stdin:
            name, folder = line.rstrip("\n").split("\t")
            answer(name, Path(folder))
            print("done", file=out, flush=True)


def answer(name: str, folder: Path) -> None:
    result, about = attempt(PEER_METHODS[name], read_problem(folder))
    if result is not None:
        np.savez(folder / "answer.npz", found=result)
    about["versions"] = versions_of(PEER_METHODS[name])
    (folder / "answer.json").write_text(json.dumps(about))


if __name__ == "__main__":
    main()
