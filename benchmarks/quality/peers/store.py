"""Results: one small file for each fit while a run is under way, and three files that are published.

``NAME.csv`` has a line for each table, costs, method and split; ``NAME.npz`` the decision about every test sample, from
which :func:`row_costs` makes what each cost under each method; ``NAME.meta.json`` how it was made.
"""

from __future__ import annotations

import csv
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality.peers.problem import Costs, paid
from benchmarks.quality.savings_data import Prices

COLUMNS = (
    "table", "kind", "costs", "method", "split", "n_train", "n_test", "cost", "constant_cost", "fit_seconds",
    "predict_seconds", "cpu_seconds", "digest", "error",
)  # fmt: skip
ABOUT = ("fit_seconds", "predict_seconds", "cpu_seconds", "digest", "error")
"""What is kept of a fit beside its decisions."""
NOTHING = 255
"""Instead of a decision, where a method failed or was not run."""


@dataclass(frozen=True, eq=False)
class Block:
    """All decisions on one table under one set of costs."""

    table: str
    costs_name: str
    methods: tuple[str, ...]
    decisions: NDArray[np.uint8]  # methods x tested rows
    labels: NDArray[np.int64]
    rows: NDArray[np.int64]
    fits: NDArray[np.int64]
    units: NDArray[np.int64]
    costs: Costs
    n_classes: int


def row_costs(block: Block, method: str) -> NDArray[np.float64] | None:
    """Return what every test sample cost under a method; None where it failed or was not run on some."""
    if method not in block.methods:
        return None
    said = block.decisions[block.methods.index(method)]
    return None if (said == NOTHING).any() else paid(block.labels, said.astype(np.int64), block.costs)


class Work:
    """The folder of a run under way: a file for each fit, so that nothing finished is lost."""

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "settings.json"
        if not kept.exists():
            draft = folder / f".settings.{os.getpid()}"
            draft.write_text(json.dumps(settings))
            draft.replace(kept)  # several runs may share the folder
        if json.loads(kept.read_text()) != settings:
            raise SystemExit(
                f"{folder} holds a run with other settings ({kept.read_text()}), asked are {json.dumps(settings)}: "
                "give the same ones, or another --work folder"
            )

    def _path(self, table: str, method: str, split: int) -> Path:
        return self.folder / f"{table}+{method}+{split}.npz"

    def read(self, table: str, method: str, split: int) -> dict[str, Any] | None:
        """Return a finished fit, or None: what is kept of it, and its decisions by the name of the costs."""
        path = self._path(table, method, split)
        if not path.exists():
            return None
        with np.load(path, allow_pickle=False) as file:
            kept = {name: file[name].item() for name in (*ABOUT, "versions")}
            decisions = {name[1:]: file[name] for name in file.files if name.startswith(" ")}
        return kept | {"decisions": decisions}

    def write(self, table: str, method: str, split: int, decisions: dict[str, Any], **about: Any) -> None:
        """Keep a finished fit, at once and whole."""
        path = self._path(table, method, split)
        draft = path.with_name(f".{path.stem}.{os.getpid()}.npz")
        np.savez_compressed(draft, **about, **{f" {name}": own for name, own in decisions.items()})
        draft.replace(path)

    def forget(self, table: str, method: str, split: int) -> None:
        """Let a fit be run again."""
        self._path(table, method, split).unlink(missing_ok=True)


# what is published


def write_results(path: Path, lines: list[dict[str, Any]], blocks: list[Block], meta: dict[str, Any]) -> None:
    """Write the three files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(lines)
    arrays: dict[str, Any] = {}
    for block in blocks:
        where = f"{block.table}/{block.costs_name}/"
        arrays |= {where + "methods": np.asarray(block.methods), where + "decisions": block.decisions}
        for name in ("rows", "units"):
            arrays[where + name] = getattr(block, name).astype(np.uint32)
        for name in ("labels", "fits"):
            arrays[where + name] = getattr(block, name).astype(np.uint8)
        arrays[where + "costs"] = np.asarray(block.costs, dtype=np.float32)
        arrays[where + "n_classes"] = np.asarray(block.n_classes)
    np.savez_compressed(path.with_suffix(".npz"), **arrays)
    path.with_suffix(".meta.json").write_text(json.dumps(meta, indent=2) + "\n")


def read_results(path: Path) -> tuple[list[dict[str, Any]], list[Block], dict[str, Any]]:
    """Read what :func:`write_results` wrote."""
    if not path.exists():
        raise SystemExit(f"there are no results {path}: run python -m benchmarks.quality.peers.run first")
    with path.open(newline="") as file:
        lines: list[dict[str, Any]] = list(csv.DictReader(file))
    with np.load(path.with_suffix(".npz"), allow_pickle=False) as file:
        arrays = dict(file)
    keys = dict.fromkeys(tuple(name.split("/")[:2]) for name in arrays)
    meta = json.loads(path.with_suffix(".meta.json").read_text())
    return lines, [_block(table, costs, arrays) for table, costs in keys], meta


def take_up(path: Path, work: Work, settings: dict[str, Any]) -> None:
    """Go on from published results: put the fits that the work folder lacks into it, if they were made alike."""
    if not path.exists():
        return
    lines, blocks, meta = read_results(path)
    if any(meta.get(name) != value for name, value in settings.items()):
        return
    fits: dict[tuple[str, str, int], dict[str, Any]] = {}
    for line in lines:
        fits.setdefault((line["table"], line["method"], int(line["split"])), line)
    for (table, method, split), line in fits.items():
        if work.read(table, method, split) is None:
            own = [block for block in blocks if block.table == table]
            decisions = {
                block.costs_name: block.decisions[block.methods.index(method)][block.fits == split] for block in own
            }
            seconds = {name: float(line[name]) for name in ABOUT[:3]}
            versions = json.dumps(meta["methods"][method]["versions"])
            work.write(
                table, method, split, decisions, digest=line["digest"], error=line["error"], versions=versions,
                **seconds,
            )  # fmt: skip


def _block(table: str, costs_name: str, arrays: dict[str, NDArray[Any]]) -> Block:
    def get(name: str) -> NDArray[Any]:
        return arrays[f"{table}/{costs_name}/{name}"]

    numbers = {name: get(name).astype(np.int64) for name in ("labels", "rows", "fits", "units")}
    costs, k = get("costs").astype(np.float64), int(get("n_classes"))
    return Block(
        table, costs_name, tuple(get("methods").tolist()), get("decisions"), **numbers,
        costs=costs if costs.shape == (k, k) else Prices(*costs), n_classes=k,
    )  # fmt: skip
