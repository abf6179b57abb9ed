"""Cost of every method on every table, at equal time: each fit has the same seconds on cores of its own.

    python -m benchmarks.quality.peers.run --form short --workers 8     # five tables, three folds; resumable
    python -m benchmarks.quality.peers.run --form full                  # all tables, 2 x 5 folds; resumable
    python -m benchmarks.quality.peers.run --tables wine --methods logistic ensemble
    python -m benchmarks.quality.peers.run --add mine.py                # with tables and methods of your own
    python -m benchmarks.quality.peers.run --smoke                      # does every method run? five seconds each
    python -m benchmarks.quality.peers.run --page                       # page and picture from the published results

Every finished fit is kept in the work folder at once; the same command goes on where it was stopped. A method that
fails is a line with the reason. Peers live in virtual environments below ``--venvs``; those that are not there are
skipped, and the page says so. README.md states the rules.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import functools
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.quality import peer_data
from benchmarks.quality.peers.additions import add_file
from benchmarks.quality.peers.methods import PEER_METHODS, PeerMethod
from benchmarks.quality.peers.problem import (
    PER_SAMPLE,
    Answer,
    Problem,
    cheapest_constant,
    decide,
    paid,
    read_answer,
    write_problem,
)
from benchmarks.quality.peers.store import ABOUT, NOTHING, Block, Work, read_results, take_up, write_results
from benchmarks.quality.peers.tables import FRESH, TABLES, Data, splits
from benchmarks.quality.savings_data import Prices

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results"
SECONDS, CORES = 60.0, 2
SMOKE_SECONDS, SMOKE_ROWS = 5.0, 300
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMEXPR_MAX_THREADS", "LOKY_MAX_CPU_COUNT")


@dataclasses.dataclass(frozen=True)
class Form:
    """Tables, splits and methods that are run, and where they are published."""

    out: str
    tables: tuple[str, ...]
    repeats: int
    folds: int
    without: tuple[str, ...] = ()
    once: tuple[str, ...] = ()
    """Methods that are run on the first split of each table only."""


FORMS = {
    "short": Form(
        "equal_time.csv",
        FRESH,
        1,
        3,
        once=("autogluon-full",),
        without=("adacsl", "hgb-bayes", "xgboost-tuned", "autogluon-bagged", "autogluon-best"),
    ),
    "full": Form("equal_time_full.csv", tuple(TABLES), 2, 5),
}


class Job(NamedTuple):
    """One fit."""

    table: str
    split: int
    method: str


class Run:
    """A run: its settings, its work folder, and the cores of its workers."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        names = ("repeats", "folds", "seconds", "max_rows", "cores_per_worker")
        self.settings = {name: getattr(options, name) for name in names}
        self.work = Work(options.work, self.settings)
        take_up(options.out, self.work, self.settings)
        self.skipped = {
            name: f"there is no virtual environment {options.venvs / one.venv}"
            for name, one in PEER_METHODS.items() if one.venv and not self._python(one).exists()
        }  # fmt: skip
        self.data = functools.cache(self._load)
        self.loading = threading.Lock()
        self.stopping = threading.Event()
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.begun = time.monotonic()

    def _python(self, method: PeerMethod) -> Path:
        if method.venv is None:
            return Path(sys.executable)
        return Path(self.options.venvs).absolute() / method.venv / "bin" / "python"

    def _load(self, table: str) -> tuple[Data, list[tuple[Any, Any]]]:
        most = TABLES[table].most_rows
        data = TABLES[table].load(min(self.options.max_rows or most, most))
        return data, splits(data, self.options.repeats, self.options.folds)

    def methods(self, kind: str) -> list[str]:
        """Return the methods that are run on tables of a kind."""
        return [name for name in self.options.methods if kind in PEER_METHODS[name].kinds]

    def jobs(self) -> list[Job]:
        """Return all fits that are asked for."""
        numbers = self.options.splits or range(self.options.repeats * self.options.folds)
        return [
            Job(table, split, name)
            for table in self.options.tables
            for split in numbers
            for name in self.methods(TABLES[table].kind)
            if split == min(numbers) or name not in self.options.once
        ]

    def missing(self) -> list[Job]:
        """Return the fits that are not finished and can be run here, the longest first."""
        result = []
        for job in self.jobs():
            if job.method in self.skipped:
                continue
            if job.method in self.options.again:
                self.work.forget(*self._key(job))
            found = self.work.read(*self._key(job))
            if found is None or (self.options.retry and found["error"]):
                result.append(job)
            elif found["digest"] != self._digest(job):
                raise SystemExit(
                    f"{self.work.folder}: {job.table} was run on other samples; give another --work folder"
                )
        rows = {table: len(self.data(table)[0].labels) for table in {job.table for job in result}}
        return sorted(result, key=lambda job: (-PEER_METHODS[job.method].longest, -rows[job.table], job.split))

    @staticmethod
    def _key(job: Job) -> tuple[str, str, int]:
        return job.table, job.method, job.split

    def _digest(self, job: Job) -> str:
        data, cut = self.data(job.table)
        return peer_data.digest_of(data.features, data.labels, *cut[job.split])

    # running

    def run(self) -> None:
        """Run what is missing: so many fits side by side, each on its own cores."""
        jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        missing = self.missing()
        for job in missing:
            jobs.put(job)
        groups = core_groups(self.options.workers, self.options.cores_per_worker)
        print(f"{len(missing)} of {len(self.jobs())} fits to run, {len(groups)} at a time", flush=True)
        with stopped_by_signals(self.stopping):
            threads = [threading.Thread(target=self._take, args=(jobs, group), daemon=True) for group in groups]
            for thread in threads:
                thread.start()
            while any(thread.is_alive() for thread in threads) and not self.stopping.is_set():
                time.sleep(0.1)
            for process in list(self.processes.values()):
                end(process)
            for thread in threads:
                thread.join(timeout=10.0)

    def _take(self, jobs: queue.SimpleQueue[Job], group: list[int]) -> None:
        while not self.stopping.is_set():
            try:
                job = jobs.get_nowait()
            except queue.Empty:
                return
            self._fit(job, group)

    def _fit(self, job: Job, group: list[int]) -> None:
        with self.loading:
            data, cut = self.data(job.table)
        train, test = cut[job.split]
        problem = problem_of(data, (train, test), job.split, self.options.seconds, len(group))
        with tempfile.TemporaryDirectory(prefix="fit", ignore_cleanup_errors=True) as place:
            result, about = self._answer(job, problem, Path(place), group)
        if self.stopping.is_set():
            return
        decisions = {
            name: np.full(len(test), NOTHING, np.uint8) if result is None else decide(result, of_rows(own, test), name)
            for name, own in data.costs.items()
        }
        self.work.write(*self._key(job), decisions, digest=self._digest(job), **about)
        shown = about["error"] or " ".join(
            f"{paid(data.labels[test], said, of_rows(data.costs[name], test)).mean():.4f}"
            for name, said in decisions.items()
        )
        minutes = (time.monotonic() - self.begun) / 60
        print(f"{minutes:5.1f} min  {job.table:16} {job.split} {job.method:18} {about['fit_seconds']:6.1f} s  {shown}",
              flush=True)  # fmt: skip

    def _answer(
        self, job: Job, problem: Problem, folder: Path, group: list[int]
    ) -> tuple[Answer | None, dict[str, Any]]:
        """Return a method's answer, from a process of its own that has these cores; a failure is a reason."""
        write_problem(problem, folder)
        entry = PEER_METHODS[job.method]
        words = [str(self._python(entry)), "-m", "benchmarks.quality.peers.worker", job.method, str(folder)]
        words += ["--cores", *map(str, group)] if self.options.pin else []
        for path in self.options.add:
            words += ["--add", str(path.resolve())]
        own = {name: value for name, value in os.environ.items() if entry.venv is None or name != "PYTHONPATH"}
        own |= dict.fromkeys(THREADS, str(len(group))) | {"TMPDIR": str(folder)}
        with (folder / "log.txt").open("wb") as log:
            process = subprocess.Popen(  # noqa: S603  the peer's own Python
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=own, cwd=ROOT, start_new_session=True
            )
            self.processes[process.pid] = process
            late = False
            try:
                process.wait(self.options.patience)
            except subprocess.TimeoutExpired:
                late = True
            finally:
                end(process)
                del self.processes[process.pid]
        if (folder / "answer.json").exists():
            about = json.loads((folder / "answer.json").read_text())
            about["versions"] = json.dumps(about["versions"])
            return (None if about["error"] else read_answer(folder / "answer.npz")), about
        last = (folder / "log.txt").read_bytes().decode(errors="replace").strip().rpartition("\n")[2][:200]
        error = f"stopped after {self.options.patience:g} s" if late else f"its process ended without an answer: {last}"
        return None, dict.fromkeys(ABOUT[:3], 0.0) | {"error": error, "versions": "{}"}

    # what is published

    def publish(self) -> tuple[int, int]:
        """Write the results of all finished fits; return their number, and that of those that are missing."""
        lines: list[dict[str, Any]] = []
        blocks: list[Block] = []
        versions: dict[str, dict[str, str]] = {}
        asked = self.jobs()
        done = {job: part for job in asked if (part := self.work.read(*self._key(job))) is not None}
        for table in dict.fromkeys(job.table for job in done):
            data, _ = self.data(table)
            own = {job: part for job, part in done.items() if job.table == table}
            for costs in data.costs:
                block, more = self._block(table, costs, own)
                blocks.append(block)
                lines += more
            for job, part in own.items():
                versions[job.method] = json.loads(part["versions"]) or versions.get(job.method, {})
        if blocks:
            write_results(self.options.out, lines, blocks, self._meta(len(asked) - len(done), versions))
        return len(done), len(asked) - len(done)

    def _block(self, table: str, costs: str, done: dict[Job, dict[str, Any]]) -> tuple[Block, list[dict[str, Any]]]:
        data, cut = self.data(table)
        used = sorted({job.split for job in done})
        names = [name for name in self.methods(TABLES[table].kind) if any(job.method == name for job in done)]
        decisions = np.full((len(names), sum(len(cut[split][1]) for split in used)), NOTHING, np.uint8)
        fits = np.repeat(used, [len(cut[split][1]) for split in used])
        lines = []
        for job, part in done.items():
            train, test = cut[job.split]
            own, y = of_rows(data.costs[costs], test), data.labels[test]
            said = part["decisions"][costs]
            decisions[names.index(job.method), fits == job.split] = said
            constant = np.full(len(y), cheapest_constant(y, own, data.n_classes))
            lines.append({
                "table": table, "kind": TABLES[table].kind, "costs": costs, "method": job.method, "split": job.split,
                "n_train": len(train), "n_test": len(test),
                "cost": "" if part["error"] else round(float(paid(y, said, own).mean()), 6),
                "constant_cost": round(float(paid(y, constant, own).mean()), 6), **{name: part[name] for name in ABOUT},
            })  # fmt: skip
        rows = np.concatenate([cut[split][1] for split in used])
        block = Block(
            table, costs, tuple(names), decisions, data.labels[rows], rows, fits, data.units[rows],
            of_rows(data.costs[costs], rows), data.n_classes,
        )  # fmt: skip
        return block, lines

    def _meta(self, missing: int, versions: dict[str, dict[str, str]]) -> dict[str, Any]:
        about = harness.metadata("cpu")
        return {
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "command": f"python -m benchmarks.quality.peers.run --form {self.options.form}",
            **{name: about[name] for name in ("device", "load_average_1min", "load_at_start")},
            "workers": self.options.workers, **self.settings,
            "methods": {
                name: {
                    "about": one.about, "ours": one.ours, "kinds": one.kinds,
                    "versions": versions[name] | ({"adacsl": about["versions"]["adacsl"]} if one.ours else {}),
                }
                for name, one in PEER_METHODS.items() if name in versions
            },
            "tables": {
                name: {"about": TABLES[name].about, "kind": TABLES[name].kind, "fresh": name in FRESH}
                for name in self.options.tables
            },
            "once": [name for name in self.options.once if name in versions],
            "skipped": {
                name: why for name, why in self.skipped.items() if name in self.options.methods and name not in versions
            },
            "missing": missing,
        }  # fmt: skip


def core_groups(workers: int, each: int) -> list[list[int]]:
    """Return the cores of each worker: none is shared, where there are enough."""
    have = sorted(os.sched_getaffinity(0))
    if workers * each > len(have):
        print(f"{workers} workers of {each} cores share {len(have)} cores: seconds are not comparable", file=sys.stderr)
    return [[have[(number * each + i) % len(have)] for i in range(each)] for number in range(workers)]


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process and all that it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


@contextlib.contextmanager
def stopped_by_signals(stopping: threading.Event) -> Iterator[None]:
    """Ctrl-C and a termination end the run cleanly: what is finished is kept."""
    before = {one: signal.signal(one, lambda *_: stopping.set()) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def problem_of(data: Data, rows: tuple[Any, Any], split: int, seconds: float, threads: int) -> Problem:
    """Return what a method sees of a split."""
    train, test = rows
    prices = data.costs.get(PER_SAMPLE)
    X_train, X_test = (data.features.iloc[part].reset_index(drop=True) for part in (train, test))
    return Problem(
        X_train, data.labels[train], X_test, data.n_classes,
        {name: own for name, own in data.costs.items() if not isinstance(own, Prices)},
        prices.rows(train) if isinstance(prices, Prices) else None,
        prices.rows(test) if isinstance(prices, Prices) else None, split, seconds, threads,
    )  # fmt: skip


def of_rows(costs: Any, rows: NDArray[Any]) -> Any:
    """Return the costs of some samples, where each has its own."""
    return costs.rows(rows) if isinstance(costs, Prices) else costs


def main(words: list[str] | None = None) -> int:
    options = parse(words)
    if options.page is not None:
        from benchmarks.quality.peers.page import write_page  # noqa: PLC0415  it draws

        write_page(options.out, *read_results(options.out), page=options.page if options.page.name else None)
        return 0
    run = Run(options)
    for name, why in run.skipped.items():
        if name in options.methods:
            print(f"{name} is skipped: {why}", file=sys.stderr)
    if not options.publish:
        run.run()
    done, missing = run.publish()
    print(f"finished fits in {options.out}: {done}; missing, the same command goes on: {missing}")
    return 0


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--form", choices=FORMS, default="short", help="tables, splits and methods (default: short)")
    parser.add_argument("--tables", nargs="+", help="instead of the form's")
    parser.add_argument("--methods", nargs="+", help="instead of the form's")
    parser.add_argument("--also", nargs="+", default=[], help="methods beside the form's")
    parser.add_argument("--without", nargs="+", default=[], help="methods to leave out")
    parser.add_argument("--splits", type=int, nargs="+", help="numbers of the splits (default: all)")
    parser.add_argument("--add", type=Path, action="append", default=[], help="a file with PEER_METHODS or TABLES")
    parser.add_argument("--repeats", type=int, help="instead of the form's")
    parser.add_argument("--folds", type=int, help="instead of the form's")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of a fit, for methods with a time limit")
    parser.add_argument("--max-rows", type=int, help="default: each table's own")
    parser.add_argument("--workers", type=int, default=1, help="fits at a time")
    parser.add_argument("--cores-per-worker", type=int, default=CORES, help="of each fit, its own")
    parser.add_argument("--patience", type=float, default=1800.0, help="seconds after which a fit is stopped")
    parser.add_argument("--venvs", type=Path, default=Path(os.environ.get("PEER_VENVS", ROOT.parent / "venvs")))
    parser.add_argument("--work", type=Path, help="folder of finished fits (default: runs/peers-FORM)")
    parser.add_argument("--again", nargs="+", default=[], help="methods whose finished fits are to be forgotten")
    parser.add_argument("--retry", action="store_true", help="run failed fits again")
    parser.add_argument("--publish", action="store_true", help="only write what is finished")
    parser.add_argument("--smoke", action="store_true", help="every method once on 300 samples, five seconds each")
    parser.add_argument("--out", type=Path, help="CSV file (default: in the work folder, or of the results for a form)")
    parser.add_argument(
        "--page", type=Path, nargs="?", const=Path(), help="write page and picture (default: beside --out), run nothing"
    )
    options = parser.parse_args(words)
    for file in options.add:
        add_file(file)
    if options.smoke:
        smoke(options)
    form = FORMS[options.form]
    # what is published is a whole form
    part = options.add or options.tables or options.methods or options.without or options.splits or options.smoke
    options.once = form.once if options.methods is None else ()
    options.tables, options.folds = options.tables or list(form.tables), options.folds or form.folds
    options.repeats = options.repeats or form.repeats
    options.methods = options.methods or [
        name for name in PEER_METHODS if name in options.also or name not in form.without
    ]
    for name, known in (("tables", TABLES), ("methods", PEER_METHODS), ("also", PEER_METHODS)):
        if unknown := [one for one in getattr(options, name) if one not in known]:
            parser.error(f"--{name}: there is no {unknown[0]!r}; there are {', '.join(known)}")
    options.methods = [name for name in options.methods if name not in options.without]
    options.work = options.work or Path("runs") / f"peers-{options.form}"
    options.out = options.out or (options.work / form.out if part else RESULTS / form.out)
    options.pin = hasattr(os, "sched_setaffinity")
    return options


def smoke(options: argparse.Namespace) -> None:
    """Choose what shows within a minute or two whether every method runs."""
    options.tables, options.splits = options.tables or ["breast-cancer"], [0]
    options.seconds, options.max_rows, options.folds, options.repeats = SMOKE_SECONDS, SMOKE_ROWS, 3, 1
    options.methods = options.methods or list(PEER_METHODS)
    options.work = options.work or Path("runs") / "peers-smoke"
    options.patience, options.retry = 180.0, True


if __name__ == "__main__":
    sys.exit(main())
