"""What the benchmarks share: interleaved timing, metadata, one table, one JSON file."""

from __future__ import annotations

import argparse
import csv
import datetime
import importlib.metadata
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

Work = Callable[[], object]

LOAD_AT_START = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Return a parser with the options every benchmark has."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--repeats", type=int, default=None, help="timed repeats (default: set by each benchmark)")
    parser.add_argument("--json", type=Path, default=None, help="write result and metadata to this file")
    return parser


def interleave(works: dict[str, Work], *, repeats: int, warmup: int = 2, device: str = "cpu") -> dict[str, list[float]]:
    """Time several pieces of work in turns, so that a busy machine slows all of them alike; seconds per repeat.

    The order is reversed every other round, so that none always follows the same neighbour.
    """
    clock = cuda_seconds if device == "cuda" else wall_seconds
    for work in works.values():
        for _ in range(warmup):
            clock(work)
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for turn in range(repeats):
        names = list(works) if turn % 2 == 0 else list(reversed(works))
        for name in names:
            seconds[name].append(clock(works[name]))
    return seconds


def wall_seconds(work: Work) -> float:
    """Return the wall-clock time of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def cuda_seconds(work: Work) -> float:
    """Return the time of one call on the GPU, from an idle device to an idle device, between two CUDA events."""
    import torch  # noqa: PLC0415  most benchmarks need no torch

    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    torch.cuda.synchronize()
    start.record()
    work()
    end.record()
    torch.cuda.synchronize()
    return float(start.elapsed_time(end)) / 1e3


def summary(seconds: list[float]) -> dict[str, Any]:
    """Return median, quartiles and minimum."""
    low, middle, high = statistics.quantiles(seconds, n=4, method="inclusive") if len(seconds) > 1 else seconds * 3
    return {"median_s": middle, "q1_s": low, "q3_s": high, "min_s": min(seconds), "repeats": len(seconds)}


def ratio_row(
    name: str, ours: list[float], theirs: list[float], *, bar: float | None, against: str, **more: Any
) -> dict[str, Any]:
    """Return one result: our time over theirs, as the median over the rounds they shared, and of the minimums.

    Where one side ran once only (it is that slow), the ratio is that of the medians.
    """
    mine, other = summary(ours), summary(theirs)
    ratio = mine["median_s"] / other["median_s"]
    if len(ours) == len(theirs):
        ratio = statistics.median(a / b for a, b in zip(ours, theirs, strict=True))
    return {
        "name": name,
        "against": against,
        "ours": mine,
        "theirs": other,
        "ratio": ratio,
        "ratio_of_minimums": mine["min_s"] / other["min_s"],
        "bar": bar,
        "met": None if bar is None else ratio <= bar,
        **more,
    }


def write_csv(results: list[dict[str, Any]], path: Path, keys: tuple[str, ...]) -> None:
    """Write everything there is so far, in order: nothing finished is lost when the rest is not."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, list(results[0]))
        writer.writeheader()
        writer.writerows(sorted(results, key=lambda result: [result[key] for key in keys]))


def metadata(device: str = "cpu") -> dict[str, Any]:
    """Return where, when and with which versions the figures were made."""
    versions = {"python": platform.python_version()}
    for package in ("numpy", "array-api-compat", "torch"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = "none" if package == "torch" else _version_of(package)
    versions["adacsl"] = _version_of("adacsl")
    script = Path(sys.argv[0]).name
    return {
        "date": datetime.datetime.now(tz=datetime.UTC).date().isoformat(),
        "command": " ".join(["python", f"benchmarks/{script}", *_shown_arguments()]),
        "device": _gpu() if device == "cuda" else f"{_cpu()}, {os.cpu_count()} cores",
        "host_cpu": f"{_cpu()}, {os.cpu_count()} cores",
        "load_at_start": LOAD_AT_START,
        "load_average_1min": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None,
        "versions": versions,
    }


def publish(title: str, rows: list[dict[str, Any]], args: argparse.Namespace, **extra: Any) -> int:
    """Print the table, write the JSON file if asked, and return 1 where a bar was missed."""
    info = metadata(getattr(args, "device", "cpu"))
    load = f"load {info['load_at_start']} before, {info['load_average_1min']} after"
    print(f"{title}\n{info['date']}, {info['device']}, {info['versions']}, {load}\n")
    width = max(len(row["name"]) for row in rows)
    print(f"{'':{width}}  {'median':>10} {'IQR':>10}  {'ratio':>9} {'of min.':>8} {'bar':>6}  met  against")
    for row in rows:
        print(_line(row, width))
    for key, value in extra.items():
        print(f"{key}: {value}")
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps({"title": title, **info, "results": rows, **extra}, indent=2) + "\n")
    return int(any(row["met"] is False for row in rows))


def _line(row: dict[str, Any], width: int) -> str:
    ours = row["ours"]
    met = {None: "-", True: "yes", False: "NO"}[row["met"]]
    bar = "-" if row["bar"] is None else f"{row['bar']:g}"
    spread = ours["q3_s"] - ours["q1_s"]
    return (
        f"{row['name']:{width}}  {ours['median_s'] * 1e3:>7.2f} ms {spread * 1e3:>7.2f} ms  {row['ratio']:>9.4g} "
        f"{row['ratio_of_minimums']:>8.4g} {bar:>6}  {met:<3}  {row['against']}"
    )


def _shown_arguments() -> list[str]:
    # where it was written to is of no interest
    words, places = sys.argv[1:], ("--json", "--csv", "--run", "--folder")
    shown = [w for i, w in enumerate(words) if w not in places and (i == 0 or words[i - 1] not in places)]
    return [w for w in shown if not w.startswith("--json=")]


def _version_of(package: str) -> str:
    try:
        return str(getattr(__import__(package.replace("-", "_")), "__version__", "unknown"))
    except ImportError:
        return "none"


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _gpu() -> str:
    import torch  # noqa: PLC0415

    return str(torch.cuda.get_device_name())
