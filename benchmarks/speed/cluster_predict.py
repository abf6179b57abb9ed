"""`adacsl predict --backend ray` on a Ray cluster of two nodes, one of which is killed: every row is predicted once.

python -m benchmarks.speed.cluster_predict                 10^7 rows
python -m benchmarks.speed.cluster_predict --n 200000 --files 8

Draws rows with numbers of their own into Parquet files, predicts them on this machine into one file, then on a local
cluster of two nodes (one core each) into a folder; one node is killed as soon as a third of the files is done. Checks
that every number is there once and that both ways say the same, bit for bit.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.harness import metadata

SEED, FEATURES = 5, 6
SHARE = 1 / 3
"""A node is killed when so many of the files are done."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000_000, help="rows")
    parser.add_argument("--files", type=int, default=40)
    parser.add_argument("--json", type=Path, default=None, help="write result and metadata to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        result = measure(Path(name), args.n, args.files)
    print(f"{args.n:,} rows in {args.files} files; every row once: {result['every_row_once']}")
    print(f"the same as predicted here, bit for bit: {result['equal']}")
    for where in ("here", "cluster"):
        print(f"{where}: {result[where]['seconds']:.1f} s, {result[where]['rows_per_second']:,} rows/s")
    print(
        f"node killed when {result['files_done_when_killed']} files were done, "
        f"{result['open_when_killed']} being written"
    )
    if args.json is not None:
        info = {"title": "adacsl predict on a cluster, a node killed", **metadata(), "n": args.n, "files": args.files}
        args.json.write_text(json.dumps({**info, "seed": SEED, **result}, indent=2) + "\n")
    return int(not (result["every_row_once"] and result["equal"]))


def measure(folder: Path, n: int, files: int) -> dict[str, Any]:
    draw(folder / "train.parquet", np.random.default_rng(SEED), 0, 5_000)
    rng = np.random.default_rng(SEED + 1)
    edges = np.linspace(0, n, files + 1).astype(int)
    (folder / "data").mkdir()
    for number, (start, stop) in enumerate(itertools.pairwise(edges)):
        draw(folder / f"data/part-{number:04d}.parquet", rng, int(start), int(stop))
    words = ("--target", "y", "--drop", "id", "--fn", "8", "--fp", "1", "--method", "logistic", "--quiet")
    adacsl("train", folder / "train.parquet", *words, "--out", folder / "model")
    common = ("predict", folder / "model", folder / "data", "--keep", "id", "--json")
    here = json.loads(adacsl(*common, "--out", folder / "here.parquet", OMP_NUM_THREADS="1"))
    there, killed_after, drafts = on_cluster([*common, "--out", folder / "there"], folder / "there", files)
    ids, probability = columns(pq.read_table(folder / "there", columns=["id", "probability"]))
    order = np.argsort(ids, kind="stable")
    own_ids, own = columns(pq.read_table(folder / "here.parquet", columns=["id", "probability"]))
    return {
        "every_row_once": bool(len(ids) == n and np.array_equal(ids[order], np.arange(n))),
        "equal": bool(np.array_equal(own_ids, np.arange(n)) and np.array_equal(probability[order], own)),
        "here": {name: here[name] for name in ("rows", "seconds", "rows_per_second")},
        "cluster": {name: there[name] for name in ("rows", "files", "failed", "seconds", "rows_per_second")},
        "files_done_when_killed": killed_after, "open_when_killed": drafts,
    }  # fmt: skip


def on_cluster(words: list[Any], out: Path, files: int) -> tuple[dict[str, Any], int, int]:
    """Predict on two nodes and kill one; return the answer, the files done by then, and those being written."""
    from ray.cluster_utils import Cluster  # noqa: PLC0415

    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    doomed = cluster.add_node(num_cpus=1)
    try:
        where = ("--backend", "ray", "--address", cluster.address)
        command = [*map(str, (sys.executable, "-m", "adacsl.cli", *words, *where))]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
        while len(list(out.glob("part-*.parquet"))) < max(1, int(files * SHARE)):
            assert run.poll() is None, "it was done before the node could be killed"
            time.sleep(0.05)
        cluster.remove_node(doomed, allow_graceful=False)
        done = len(list(out.glob("part-*.parquet")))
        drafts = len(list(out.glob(".*.draft")))
        answer = run.communicate()[0]
        assert run.returncode == 0, answer
        return json.loads(answer), done, drafts
    finally:
        cluster.shutdown()


def columns(table: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    return table["id"].to_numpy(), table["probability"].to_numpy()


def adacsl(*words: Any, **environment: str) -> str:
    command = [*map(str, (sys.executable, "-m", "adacsl.cli", *words))]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | environment)  # noqa: S603
    return done.stdout


def draw(path: Path, rng: np.random.Generator, start: int, stop: int) -> None:
    X = rng.normal(size=(FEATURES, stop - start)).astype(np.float32)
    y = (X[0] - X[1] / 2 + rng.normal(size=stop - start) > 1).astype(np.int64)
    table = {"id": np.arange(start, stop), **{f"x{i}": column for i, column in enumerate(X)}, "y": y}
    pq.write_table(pa.table(table), path)


if __name__ == "__main__":
    sys.exit(main())
