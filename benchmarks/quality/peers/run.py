"""The cost arena: every method on every table, the same splits, cores and seconds for all.

    python -m benchmarks.quality.peers.run                        # everything that is not finished or published yet
    python -m benchmarks.quality.peers.run --tables wine --methods logistic ensemble
    python -m benchmarks.quality.peers.run --add mine.py          # with tables and methods of your own
    python -m benchmarks.quality.peers.run --page benchmarks/results/peers.md   # the page and its details

Every finished fit is kept in the work folder; those of published results are put there too. Published are the tables
that all methods have finished (or failed at). Peers live in virtual environments below ``--venvs``; those that are
not there are left out, and the page says so. README.md states the rules.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks import harness
from benchmarks.quality import peer_data
from benchmarks.quality.peers.additions import add_file
from benchmarks.quality.peers.methods import PEER_METHODS, PeerMethod, attempt, versions_of
from benchmarks.quality.peers.page import details_path, pages_of
from benchmarks.quality.peers.problem import Problem, decide, paid, write_problem
from benchmarks.quality.peers.store import NOTHING, Block, Work, read_results, take_up, write_results
from benchmarks.quality.peers.tables import TABLES, Data, splits
from benchmarks.quality.savings_data import Prices

ROOT = Path(__file__).resolve().parents[3]
RESULTS = ROOT / "benchmarks" / "results" / "arena.csv"
SECONDS = 5.0
PATIENCE = 1800.0
"""Seconds on the wall after which a peer that is silent is taken to hang, and stopped."""


class Worker:
    """A Python of a peer that fits one problem after another, told by files; see worker.py."""

    def __init__(self, python: Path, additions: list[Path], patience: float) -> None:
        self.patience = patience
        self.command = [
            str(python),
            "-m",
            "benchmarks.quality.peers.worker",
            *(str(path.resolve()) for path in additions),
        ]
        self.process: subprocess.Popen[str] | None = None

    def fit(self, name: str, problem: Problem) -> tuple[NDArray[Any] | None, dict[str, Any]]:
        """Return what a method found, and about it; what fails or hangs is said."""
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place)
            write_problem(problem, folder)
            error = self._ask(f"{name}\t{folder}\n")
            if error:
                return None, {"seconds": 0.0, "cpu_seconds": 0.0, "error": error, "versions": {}}
            about = json.loads((folder / "answer.json").read_text())
            if about["error"]:
                return None, about
            with np.load(folder / "answer.npz", allow_pickle=False) as file:
                return file["found"], about

    def _ask(self, line: str) -> str:
        """Return why there is no answer, or nothing."""
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        timer = threading.Timer(self.patience, process.kill)
        timer.start()
        try:
            process.stdin.write(line)
            process.stdin.flush()
            said = process.stdout.readline()
        except OSError as broken:
            said = str(broken)
        finally:
            timer.cancel()
        if said == "done\n":
            return ""
        self.stop()
        return f"its process ended without an answer (stopped after {self.patience:g} s, or of itself)"

    def _started(self) -> subprocess.Popen[str]:
        if self.process is None:
            own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
            self.process = subprocess.Popen(  # noqa: S603  the peer's own Python
                self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env=own | {"OMP_NUM_THREADS": "1"}, cwd=ROOT,
            )  # fmt: skip
        return self.process

    def stop(self) -> None:
        """End the process, if there is one."""
        if self.process is not None:
            self.process.kill()
            self.process.communicate()  # waits, and closes the pipes
            self.process = None


class Arena:
    """A run: its settings, its work folder, and the Pythons of its methods."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        settings = {name: getattr(options, name) for name in ("folds", "seconds", "max_rows")}
        self.work = Work(options.work, settings)
        take_up(options.out, self.work, settings)
        self.skipped = {
            name: f"there is no virtual environment {options.venvs / one.venv}"
            for name, one in PEER_METHODS.items() if one.venv and not self._python(one.venv).exists()
        }  # fmt: skip
        self.workers = {
            venv: Worker(self._python(venv), options.add, PATIENCE)
            for venv in sorted({one.venv for one in PEER_METHODS.values() if one.venv})
        }

    def _python(self, venv: str) -> Path:
        return Path(self.options.venvs).absolute() / venv / "bin" / "python"

    def methods(self, kind: str) -> dict[str, PeerMethod]:
        """Return who takes part in tables of a kind."""
        return {name: PEER_METHODS[name] for name in self.options.methods if kind in PEER_METHODS[name].kinds}

    def data(self, table: str) -> Data:
        """Return a table, cut to as many rows as it is run with."""
        return TABLES[table].load(min(self.options.max_rows or TABLES[table].most_rows, TABLES[table].most_rows))

    def costs_of(self, data: Data) -> dict[str, Any]:
        """Return the costs that are run."""
        return data.costs if self.options.all_costs else dict(list(data.costs.items())[:1])

    def run_table(self, table: str) -> None:
        """Run what is missing of a table: split by split, methods in turn, so that load is alike for all."""
        data = self.data(table)
        for split, (train, test) in enumerate(splits(data, self.options.repeats, self.options.folds)):
            digest = peer_data.digest_of(data.features, data.labels, train, test)
            here = {k: v for k, v in self.methods(TABLES[table].kind).items() if k not in self.skipped}
            for name, entry in here.items():
                for costs in self.costs_of(data) if name in self.options.again else ():
                    self.work.forget(table, costs, name, split)
                missing = [costs for costs in self.costs_of(data) if not self._done(table, costs, name, split, digest)]
                for asked in [missing] if entry.blind and missing else [[costs] for costs in missing]:
                    self._run(table, data, asked, name, (train, test), split, digest)

    def _done(self, table: str, costs: str, name: str, split: int, digest: str) -> bool:
        result = self.work.read(table, costs, name, split)
        if result is None or (self.options.retry and result["error"]):
            return False
        if result["digest"] != digest:
            raise SystemExit(f"{self.work.folder}: {table} was run on other rows; give another --work folder")
        return True

    def _run(
        self, table: str, data: Data, asked: list[str], name: str, rows: tuple[Any, Any], split: int, digest: str
    ) -> None:
        entry = PEER_METHODS[name]
        problem = problem_of(data, None if entry.blind else asked[0], rows, split, self.options.seconds)
        if entry.venv:
            result, about = self.workers[entry.venv].fit(name, problem)
            versions = about.pop("versions")
        else:
            result, about = attempt(entry, problem)
            versions = versions_of(entry)
        test = rows[1]
        for costs in asked:
            given = of_rows(data.costs[costs], test)
            decisions = np.full(len(test), NOTHING, np.uint8) if result is None else decide(result, given)
            self.work.write(
                table, costs, name, split, decisions=decisions, digest=digest, versions=json.dumps(versions), **about
            )
            shown = about["error"] or f"{paid(data.labels[test], decisions, given).mean():.4f}"
            print(f"{table:24} {costs:9} {split} {name:18} {shown} {about['seconds']:7.1f} s", flush=True)

    # what is published

    def publish(self) -> tuple[int, list[str]]:
        """Write the results of the tables that all have finished; return their number, and what is missing."""
        lines: list[dict[str, Any]] = []
        blocks: list[Block] = []
        missing: list[str] = []
        versions: dict[str, dict[str, str]] = {}
        for table in self.options.tables:
            if not self.work.knows(table):
                missing.append(table)
                continue
            data = self.data(table)
            for costs in self.costs_of(data):
                result = self._block(table, data, costs)
                if result is None:
                    missing.append(f"{table} ({costs})")
                    continue
                blocks.append(result[0])
                lines += result[1]
                versions |= result[2]
        if blocks:
            write_results(self.options.out, lines, blocks, self._meta(missing, versions))
        return len(blocks), missing

    def _block(
        self, table: str, data: Data, costs: str
    ) -> tuple[Block, list[dict[str, Any]], dict[str, dict[str, str]]] | None:
        cut = splits(data, self.options.repeats, self.options.folds)
        lines: list[dict[str, Any]] = []
        versions: dict[str, dict[str, str]] = {}
        decisions: dict[str, NDArray[np.uint8]] = {}
        for name in self.methods(TABLES[table].kind):
            read = [self.work.read(table, costs, name, split) for split in range(len(cut))]
            parts = [part for part in read if part is not None]
            if len(parts) < len(cut) and name in self.skipped:
                continue  # its results may have been published by somebody who has its environment: these have not
            if len(parts) < len(cut):
                return None
            for split, part in enumerate(parts):
                about = {"table": table, "kind": TABLES[table].kind, "costs": costs, "method": name, "split": split}
                lines.append(about | line_of(part, data, costs, *cut[split]))
                versions[name] = json.loads(part["versions"]) or versions.get(name, {})
            decisions[name] = np.concatenate([part["decisions"] for part in parts])
        rows = np.concatenate([test for _, test in cut])
        fits = np.repeat(np.arange(len(cut)), [len(test) for _, test in cut])
        block = Block(
            table, costs, tuple(decisions), np.stack(list(decisions.values())), data.labels[rows], rows, fits,
            data.units[rows], of_rows(data.costs[costs], rows), data.n_classes,
        )  # fmt: skip
        return block, lines, versions

    def _meta(self, missing: list[str], versions: dict[str, dict[str, str]]) -> dict[str, Any]:
        options = self.options
        about = harness.metadata("cpu")
        return {
            "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
            "command": f"python -m benchmarks.quality.peers.run --seconds {options.seconds:g}",
            "device": about["device"],
            "load_average_1min": about["load_average_1min"],
            "load_at_start": about["load_at_start"],
            **{name: getattr(options, name) for name in ("repeats", "folds", "seconds", "max_rows")},
            "methods": {
                name: {
                    "about": one.about, "ours": one.ours, "kinds": one.kinds,
                    "versions": versions[name] | ({"adacsl": about["versions"]["adacsl"]} if one.ours else {}),
                }
                for name, one in PEER_METHODS.items() if name in versions
            },
            "tables": {name: {"about": TABLES[name].about, "kind": TABLES[name].kind} for name in options.tables},
            "skipped": {
                name: why for name, why in self.skipped.items() if name in options.methods and name not in versions
            },
            "missing": missing,
        }  # fmt: skip

    def stop(self) -> None:
        """End the Pythons of the peers."""
        for worker in self.workers.values():
            worker.stop()


def problem_of(data: Data, costs: str | None, rows: tuple[Any, Any], split: int, seconds: float) -> Problem:
    """Return what a method sees of a split; one that is blind to costs is given none."""
    train, test = rows
    given = None if costs is None else data.costs[costs]
    priced = isinstance(given, Prices)
    X_train, X_test = (data.features.iloc[part].reset_index(drop=True) for part in (train, test))
    return Problem(
        X_train, data.labels[train], X_test, data.n_classes, None if priced else given,
        given.rows(train) if priced else None, given.rows(test) if priced else None, split, seconds,
    )  # fmt: skip


def line_of(part: dict[str, Any], data: Data, costs: str, train: Any, test: Any) -> dict[str, Any]:
    """Return what is published of one fit."""
    cost: float | str = ""
    if not part["error"]:
        cost = round(paid(data.labels[test], part["decisions"], of_rows(data.costs[costs], test)).mean(), 6)
    kept = {key: part[key] for key in ("seconds", "cpu_seconds", "digest", "error")}
    return {"n_train": len(train), "n_test": len(test), "cost": cost, **kept}


def of_rows(costs: Any, rows: NDArray[Any]) -> Any:
    """Return the costs of some rows, where each has its own."""
    return costs.rows(rows) if isinstance(costs, Prices) else costs


def main(words: list[str] | None = None) -> int:
    options = parse(words)
    if options.page:
        page, details = pages_of(*read_results(options.out))
        options.page.write_text(page)
        details_path(options.page).write_text(details)
        return 0
    arena = Arena(options)
    for name, why in arena.skipped.items():
        if name in options.methods:
            print(f"{name} is skipped: {why}", file=sys.stderr)
    try:
        if not options.publish:
            for table in options.tables:
                arena.run_table(table)
    except KeyboardInterrupt:
        print("stopped; the same command goes on", file=sys.stderr)
    finally:
        arena.stop()
    done, missing = arena.publish()
    print(f"finished tables in {options.out}: {done}" + (f"; not finished: {', '.join(missing)}" if missing else ""))
    return 0


def parse(words: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", help="default: all")
    parser.add_argument("--methods", nargs="+", help="default: all")
    parser.add_argument("--add", type=Path, action="append", default=[], help="a file with PEER_METHODS or TABLES")
    parser.add_argument("--all-costs", action="store_true", help="all costs of each table, not the first only")
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=SECONDS, help="of the processor, for a fit with a time limit")
    parser.add_argument("--max-rows", type=int, help="default: each table's own")
    parser.add_argument("--venvs", type=Path, default=Path(os.environ.get("ARENA_VENVS", ROOT.parent / "venvs")))
    parser.add_argument("--work", type=Path, default=Path("runs/arena"), help="folder of finished fits")
    parser.add_argument("--again", nargs="+", default=[], help="methods whose finished fits are to be forgotten")
    parser.add_argument("--retry", action="store_true", help="run failed fits again")
    parser.add_argument("--publish", action="store_true", help="only write what is finished")
    parser.add_argument("--out", type=Path, help=f"CSV file; default: {RESULTS.name} of the results if all take part")
    parser.add_argument("--page", type=Path, help="write the page from --out instead of running")
    options = parser.parse_args(words)
    for file in options.add:
        add_file(file)
    # what is published is of everybody on everything
    part = options.add or options.tables or options.methods or options.all_costs
    options.out = options.out or (options.work / RESULTS.name if part else RESULTS)
    for name, known in (("tables", TABLES), ("methods", PEER_METHODS)):
        asked = getattr(options, name) or list(known)
        if unknown := [one for one in asked if one not in known]:
            parser.error(f"--{name}: there is no {unknown[0]!r}; there are {', '.join(known)}")
        setattr(options, name, asked)
    return options


if __name__ == "__main__":
    sys.exit(main())
