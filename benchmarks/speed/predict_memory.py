"""`adacsl predict` on tables of very different length: seconds, rows per second, and peak memory, which must not grow.

python -m benchmarks.speed.predict_memory
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.harness import metadata

NUMBERS, CHUNK = 20, 10**6
SHOPS, LANDS = np.array(["web", "city", "mall", "phone"]), np.array([f"land-{i:02d}" for i in range(40)])
GROWTH = 1.10
"""The long table may take this many times the memory of the short one: buffers of the file formats vary a little."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**7, help="rows of the long table")
    parser.add_argument("--short", type=int, default=10**6, help="rows of the short table")
    parser.add_argument("--batch-rows", type=int, default=65_536, help="rows held in memory")
    parser.add_argument("--format", choices=("parquet", "csv"), default="parquet")
    parser.add_argument("--json", type=Path, default=None, help="write result and metadata to this file")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        results = measure(Path(name), args)
    growth = results[1]["peak_mb"] / results[0]["peak_mb"]
    met = growth <= GROWTH
    for row in results:
        print(
            f"{row['rows']:>12,} rows, {row['file_mb']:,.0f} MB of {args.format}: {row['seconds']:.1f} s, "
            f"{row['rows_per_second']:,} rows/s, peak {row['peak_mb']:,.0f} MB"
        )
    print(f"peak memory, long / short: {growth:.3f} (bar {GROWTH}: {'yes' if met else 'NO'})")
    if args.json is not None:
        info = {"title": "adacsl predict in bounded memory", **metadata(), "batch_rows": args.batch_rows}
        document = {**info, "format": args.format, "tables": results, "growth": growth, "bar": GROWTH, "met": met}
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    return int(not met)


def measure(folder: Path, args: argparse.Namespace) -> list[dict[str, Any]]:
    train = folder / "train.parquet"
    write_table(train, 5_000, seed=1)
    model = folder / "model"
    costs = ("--target", "y", "--fn", "8", "--fp", "1", "--epochs", "3", "--out", str(model), "--quiet")
    subprocess.run([*adacsl(), "train", str(train), *costs], check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    results = []
    for rows in (args.short, args.rows):
        need = rows * (NUMBERS * 9 + 40) * (2 if args.format == "csv" else 1)
        if shutil.disk_usage(folder).free < 1.5 * need:
            raise OSError(f"{rows:,} rows need about {need / 1e9:.0f} GB in {folder}")
        path = folder / f"rows.{args.format}"
        write_table(path, rows, seed=2)
        results.append(predict(model, path, rows, args.batch_rows))
        path.unlink()
    return results


def predict(model: Path, path: Path, rows: int, batch_rows: int) -> dict[str, Any]:
    out = path.with_name("predictions.parquet")
    options = ["--out", str(out), "--batch-rows", str(batch_rows), "--json"]
    command = [*adacsl(), "predict", str(model), str(path), *options]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)  # noqa: S603
    answer = json.loads(process.stdout.read()) if process.stdout else {}
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - started
    assert status == 0 and answer["rows"] == rows == pq.ParquetFile(out).metadata.num_rows  # noqa: PT018
    out.unlink()
    return {
        "rows": rows,
        "file_mb": path.stat().st_size / 1e6,
        "seconds": seconds,
        "predicting_seconds": answer["seconds"],
        "rows_per_second": answer["rows_per_second"],
        "peak_mb": usage.ru_maxrss / 1024,  # Linux counts in kB
    }


def adacsl() -> list[str]:
    return [sys.executable, "-m", "adacsl.cli"]


def write_table(path: Path, rows: int, *, seed: int) -> None:
    """Write numbers, categories and a label, a million rows at a time."""
    rng = np.random.default_rng(seed)
    writer = None
    for start in range(0, rows, CHUNK):
        table = draw(rng, min(CHUNK, rows - start))
        if writer is None:
            open_ = pa.csv.CSVWriter if path.suffix == ".csv" else pq.ParquetWriter
            writer = open_(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def draw(rng: np.random.Generator, n: int) -> pa.Table:
    X = rng.normal(size=(NUMBERS, n))
    X[1] = np.exp(X[1])
    X[2, rng.random(n) < 0.05] = np.nan
    y = (X[0] + X[3] * X[4] + rng.normal(size=n) > 1.5).astype(np.int64)
    columns: dict[str, Any] = {f"x{i}": column.astype(np.float32) for i, column in enumerate(X)}
    columns |= {"shop": SHOPS[rng.integers(0, len(SHOPS), n)], "land": LANDS[rng.integers(0, len(LANDS), n)], "y": y}
    return pa.table(columns)


if __name__ == "__main__":
    sys.exit(main())
