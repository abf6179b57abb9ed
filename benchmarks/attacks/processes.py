"""Several processes fit one classifier: some die, some lie; and threads and forks use one model at once."""

from __future__ import annotations

import contextlib
import functools
import json
import multiprocessing
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty
from typing import Any

import numpy as np
import onnxruntime
import torch
from numpy.typing import NDArray
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.estimators.onnx import graph_inputs
from adacsl.neural import NeuralLearner
from benchmarks.attacks.scoreboard import Attack, Attempt

RANKS = Path(__file__).parent / "ranks.py"
COSTS = CostMatrix(fp=1, fn=5)
ENDS = 60.0
"""Seconds within which those who are left must have ended; a busy machine included."""
NEAR = 1e-3
"""By how much scores may differ between numbers of processes."""
GONE = "another process of this fit has ended"


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield tries: first those inside this process, then those that start others."""
    drawing = random.Random(seed)  # noqa: S311
    known = [*_inside(folder), *STARTED]
    known += [functools.partial(_killed, drawing=drawing)] * (tries - len(known))
    for number, each in enumerate(known[:tries]):
        own = folder / str(number)
        own.mkdir()
        yield each(own)


# threads and forks


def _own_net(features: int) -> nn.Module:
    return nn.Sequential(nn.Linear(features, 8), nn.Dropout(0.3), nn.ReLU(), nn.Linear(8, 1))


def _rows(n: int = 300) -> tuple[NDArray[Any], NDArray[Any]]:
    rng = np.random.default_rng(0)
    y = (rng.random(n) < 0.3).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, 0] += y
    return X, y


KINDS: dict[str, Callable[[], Any]] = {
    "net of one's own": lambda: AdaCSLClassifier(
        COSTS, learner=NeuralLearner(module=_own_net, epochs=2), random_state=0
    ),
    "default net": lambda: AdaCSLClassifier(COSTS, learner=NeuralLearner(epochs=2), random_state=0),
    "logistic": lambda: CostSensitiveClassifier(COSTS, learner="logistic", random_state=0),
    "lightgbm": lambda: CostSensitiveClassifier(COSTS, learner="lightgbm", random_state=0),
    "xgboost": lambda: CostSensitiveClassifier(COSTS, learner="xgboost", random_state=0),
    "ensemble": lambda: EnsembleClassifier(COSTS, estimators=["logistic", "histogram"], cv=2, n_jobs=1, random_state=0),
}


def _inside(folder: Path) -> Iterator[Callable[[Path], Attempt]]:
    """Yield tries on threads: fits at once, and predictions at once, as one after another."""
    X, y = _rows()
    fitted = functools.cache(lambda kind: KINDS[kind]().fit(X, y))
    for kind in ("net of one's own", "logistic"):
        yield functools.partial(_fits_at_once, kind, fitted)
    for kind in KINDS:
        yield functools.partial(_predictions_at_once, kind, lambda kind: fitted(kind).predict_proba)
    yield functools.partial(_predictions_at_once, "ONNX", lambda _: _exported(fitted("default net"), folder, X))
    for kind in ("default net", "xgboost"):
        yield functools.partial(_after_fork, kind, fitted)


def _exported(clf: Any, folder: Path, X: NDArray[Any]) -> Callable[[Any], Any]:
    path = clf.export_onnx(folder / "net.onnx", X)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return lambda rows: session.run(None, graph_inputs(clf, rows))[0]


def _fits_at_once(kind: str, fitted: Callable[[str], Any], folder: Path) -> Attempt:
    X, y = _rows()
    alone = fitted(kind).predict_proba(X)
    with ThreadPoolExecutor(4) as pool:
        result = list(pool.map(lambda _: KINDS[kind]().fit(X, y).predict_proba(X), range(4)))
    other = sum(not np.array_equal(alone, scores) for scores in result)
    return Attempt(f"four fits at once, {kind}", f"{other} of 4 differ from one alone" if other else "")


def _predictions_at_once(kind: str, predicting: Callable[[str], Callable[[Any], Any]], folder: Path) -> Attempt:
    X, _ = _rows()
    predict = predicting(kind)
    alone = np.asarray(predict(X))
    with ThreadPoolExecutor(8) as pool:
        result = list(pool.map(lambda _: np.asarray(predict(X)), range(32)))
    other = sum(not np.array_equal(alone, scores) for scores in result)
    return Attempt(f"predictions in eight threads, {kind}", f"{other} of 32 differ" if other else "")


def _after_fork(kind: str, fitted: Callable[[str], Any], folder: Path) -> Attempt:
    """Predict many rows here, so that all threads have worked, and again in a fork."""
    clf, X = fitted(kind), _rows(30_000)[0]
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        alone = clf.predict_proba(X)
        forks = multiprocessing.get_context("fork")
        queue: Any = forks.Queue()
        child = forks.Process(target=lambda: queue.put(clf.predict_proba(X)))
        child.start()
        try:
            fault = "" if np.array_equal(queue.get(timeout=ENDS), alone) else "it predicts something else"
        except Empty:
            fault = f"no answer within {ENDS:.0f} s"
        child.kill()
        child.join()
    finally:
        torch.set_num_threads(before)
    return Attempt(f"prediction after fork, {kind}", fault)


# several processes


class _Group:
    """Processes that fit together, their output, and who they are."""

    def __init__(self, folder: Path, processes: int, strategy: str = "ddp", **given: Any) -> None:
        self.out, self.processes = folder / "scores", processes
        self.lines: list[str] = []
        command = [sys.executable, str(RANKS), str(self.out), str(processes), strategy, json.dumps(given)]
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        self.process = subprocess.Popen(  # noqa: S603
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=environment,
            start_new_session=True,
        )

    def wait_for(self, rank: int, epoch: int) -> int:
        """Return the number of the process that begins an epoch."""
        for line in self.process.stdout or ():
            self.lines.append(line)
            if result := re.search(rf"rank {rank} pid (\d+) epoch {epoch}\b", line):
                return int(result[1])
        raise RuntimeError("".join(self.lines)[-2000:])

    def wait_for_word(self, words: str, stopped: int) -> None:
        """Read until somebody says so, or for a while; then end the one that was stopped, which keeps the pipe open."""
        ends = threading.Timer(ENDS, os.kill, (stopped, signal.SIGKILL))
        ends.start()
        for line in self.process.stdout or ():
            self.lines.append(line)
            if words in line:
                break
        ends.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.kill(stopped, signal.SIGKILL)

    def end(self, seconds: float) -> bool:
        """Tell whether all processes end in time; none is left afterwards."""
        try:
            rest, _ = self.process.communicate(timeout=seconds)  # the pipe is open as long as one of them lives
            self.lines += rest.splitlines(keepends=True)
        except subprocess.TimeoutExpired:
            return False
        else:
            return True
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def shown(self, words: str) -> int:
        return sum(words in line for line in self.lines)

    def results(self) -> list[NDArray[Any]]:
        return [np.load(path) for path in sorted(self.out.parent.glob(f"{self.out.name}-*.npy"))]


def _alone(folder: Path, **given: Any) -> NDArray[Any]:
    group = _Group(folder, 1, **given)
    group.end(300)
    result = group.results()
    if not result:
        raise RuntimeError("".join(group.lines)[-2000:])
    return result[0]


def _killed(
    folder: Path, *, drawing: random.Random, processes: int | None = None, victim: int | None = None, how: str = ""
) -> Attempt:
    """End, or stop, one of several processes in the middle of an epoch."""
    processes = processes or drawing.choice([2, 3])
    victim = drawing.randrange(processes) if victim is None else victim
    how = how or drawing.choice(["SIGKILL", "SIGKILL", "SIGSTOP"])
    name = f"{how} to process {victim} of {processes}"
    waits = {"timeout": 20} if how == "SIGSTOP" else {}  # who is killed must be missed before any timeout
    group = _Group(folder, processes, epochs=200, slow=0.2, **waits)
    pid = group.wait_for(victim, drawing.randrange(2, 5))
    time.sleep(drawing.random() * 0.4)
    os.kill(pid, getattr(signal, how))
    if how == "SIGSTOP":  # it answers nobody: the others give up after the timeout they were given
        group.wait_for_word(GONE, pid)
    if not group.end(ENDS):
        return Attempt(name, f"the others still run after {ENDS:.0f} s")
    if group.shown(GONE) < 1:
        return Attempt(name, f"nobody says why: {''.join(group.lines)[-300:]}")
    return Attempt(name, "" if group.process.returncode else "exit code 0")


def _different(what: str, folder: Path) -> Attempt:
    """Give one process other rows or settings than the others: all refuse, in one line that says which."""
    group = _Group(folder, 2, differ=what)
    ended, name = group.end(300), f"other {what} in process 1"
    if not ended:
        return Attempt(name, "it hangs")
    if group.results():
        return Attempt(name, "not noticed")
    answer = group.shown("in process 1 than in process 0: every process of a fit needs")
    return Attempt(name, "" if answer == 2 else f"{answer} of 2 processes say so: {''.join(group.lines)[-300:]}")


def _shards(processes: int, strategy: str, given: dict[str, Any], folder: Path) -> Attempt:
    """Share rows out that do not divide evenly: what comes of it is what one process makes of them."""
    name = f"{processes} processes, {strategy}, {given}"
    group = _Group(folder, processes, strategy, **given)
    if not group.end(300):
        return Attempt(name, "it hangs")
    result = group.results()
    if len(result) != processes:
        return Attempt(name, f"{len(result)} results: {''.join(group.lines)[-300:]}")
    (folder / "alone").mkdir()
    alone = _alone(folder / "alone", **given)
    gap = max(float(np.abs(own - alone).max()) for own in result)
    return Attempt(name, f"differs from one process by {gap:.2g}" if gap > NEAR else "")


def _resumed(steps: Sequence[tuple[int, str]], folder: Path) -> Attempt:
    """Stop a fit after each epoch and go on with other numbers of processes."""
    name = f"resumed on {', then '.join(f'{processes} ({strategy})' for processes, strategy in steps)} processes"
    given = {"resume": str(folder / "run"), "epochs": len(steps)}
    for number, (processes, strategy) in enumerate(steps):
        stop = number + 1 if number + 1 < len(steps) else None
        group = _Group(folder, processes, strategy, **given, stop=stop)
        if not group.end(300):
            return Attempt(name, f"step {number} hangs")
        if group.shown(f"epoch {number}\n") != processes or (number and group.shown(f"epoch {number - 1}\n")):
            return Attempt(name, f"step {number} does not go on: {''.join(group.lines)[-300:]}")
    (folder / "alone").mkdir()
    alone = _alone(folder / "alone", epochs=len(steps))
    gap = max((float(np.abs(own - alone).max()) for own in group.results()), default=np.inf)
    return Attempt(name, f"differs from one process by {gap:.2g}" if gap > NEAR else "")


_FIXED = random.Random(1)  # noqa: S311
STARTED: list[Callable[[Path], Attempt]] = [
    *(functools.partial(_killed, drawing=_FIXED, processes=2, victim=v, how="SIGKILL") for v in (0, 1)),
    *(functools.partial(_different, what) for what in ("values", "fewer", "labels", "lr", "costs", "seed")),
    functools.partial(_shards, 2, "ddp", {"rows": 301, "batch": 33}),
    functools.partial(_shards, 3, "ddp", {"rows": 103, "batch": 2, "epochs": 2}),  # batches smaller than the group
    functools.partial(_shards, 4, "ddp", {"rows": 157, "batch": 50, "default": True, "cv": 3}),
    functools.partial(_shards, 2, "fsdp", {"rows": 301, "batch": 33}),
    functools.partial(_resumed, [(2, "ddp"), (1, "ddp"), (3, "ddp")]),
    functools.partial(_resumed, [(2, "fsdp"), (1, "ddp"), (2, "ddp"), (2, "fsdp")]),
    *(functools.partial(_killed, drawing=_FIXED, processes=3, victim=v, how="SIGKILL") for v in (0, 1, 2)),
    functools.partial(_killed, drawing=_FIXED, processes=2, victim=1, how="SIGSTOP"),
]


ATTACKS = (
    Attack(
        "processes",
        "fits in four threads and predictions in eight, and after fork, equal to one after another; one of two or "
        "three processes of a fit killed or stopped: the others end within a minute and say so in one line; one given "
        "other rows or settings: all refuse in one line; shares that do not divide evenly, sharded networks and "
        f"resuming on other numbers of processes: scores within {NEAR} of one process",
        run,
        long=36,
        short=7,
    ),
)
