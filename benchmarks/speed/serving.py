"""How fast a served model answers, against plain ``model.predict`` in the same run.

    python -m benchmarks.speed.serving
    python -m benchmarks.speed.serving --page     # only write the results that are there into the page

A server of its own process (``adacsl serve``, one worker) on the loopback, and a generator of load in this one: so many
connections, each of which asks again when it is answered, for some seconds. Between the cases the same rows are
predicted here, without a server; the ratio is that of the medians. Before anything is timed, the decisions of both are
compared. German credit, 1,000 rows of 20 columns, most of them text. Writes benchmarks/results/serving.json and the
table in benchmarks/results/serving.md.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import json
import re
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from benchmarks.harness import metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pandas as pd

ROOT = Path(__file__).resolve().parents[2]
RESULTS, PAGE = ROOT / "benchmarks/results/serving.json", ROOT / "benchmarks/results/serving.md"
BLOCK = re.compile(r"<!-- serving: made by .*?<!-- serving: end -->", re.DOTALL)
ARROW = "application/vnd.apache.arrow.stream"
METHODS = ("logistic", "gbm-bayes", "ensemble")
WARM = 10


class Case(NamedTuple):
    """Requests of so many rows, written so, over so many connections."""

    rows: int
    form: str
    connections: int


CASES = (Case(1, "JSON", 1), Case(1, "JSON", 16), Case(1000, "JSON", 1), Case(1000, "Arrow", 1), Case(1000, "Arrow", 4))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load for each case")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="what is fitted and served")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        info = metadata()
        cases = [case for method in options.methods for case in measure(method, options.seconds)]
        # what the machine had to do besides is that before the run: afterwards it is our own load
        document = {"title": "a served model", **info, "seconds": options.seconds, "cases": cases}
        RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    if PAGE.exists():
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BLOCK.sub(lambda _: block(json.loads(RESULTS.read_text())), text), encoding="utf-8")
    return 0


def measure(method: str, seconds: float) -> list[dict[str, Any]]:
    """Fit, serve, check that both sides decide alike, and time every case."""
    from adacsl import method as make  # noqa: PLC0415  the page alone needs none of this
    from adacsl.datasets.loading import load_task  # noqa: PLC0415

    task = load_task("german-credit")
    model = make(method, task.costs, random_state=0, device="cpu").fit(task.X, task.y)
    result = []
    with tempfile.TemporaryDirectory() as place, served(model.save(Path(place) / "model")) as (host, port):
        rows = task.X.reset_index(drop=True)
        check(host, port, rows, model.predict(rows).tolist())
        for case in CASES:
            some = rows[: case.rows]
            before = predicting(model, some, seconds / 4)
            times, spent = asyncio.run(load(host, port, request(some, case.form), case.connections, seconds))
            alone = statistics.median(before + predicting(model, some, seconds / 4))
            result.append({"method": method} | case._asdict() | numbers(case, times, spent, alone))
            print(json.dumps(result[-1]), flush=True)
    return result


def numbers(case: Case, times: list[float], spent: float, alone: float) -> dict[str, Any]:
    """Return what is published of one case."""
    ordered = sorted(times)
    middle = statistics.median(ordered)
    speed = case.rows * len(times) / spent
    return {
        "requests": len(times), "p50_ms": 1e3 * middle, "p99_ms": 1e3 * ordered[int(0.99 * (len(ordered) - 1))],
        "rows_per_second": speed, "predict_ms": 1e3 * alone, "p50_ratio": middle / alone,
        "speed_ratio": speed / (case.rows / alone),
    }  # fmt: skip


def predicting(model: Any, rows: pd.DataFrame, seconds: float) -> list[float]:
    """Predict here for a while; return how long each time took."""
    model.predict(rows)
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        model.predict(rows)
        times.append(time.perf_counter() - started)
    return times


@contextmanager
def served(folder: Path) -> Iterator[tuple[str, int]]:
    """Serve a model from another process; yield where."""
    command = [sys.executable, "-m", "adacsl.cli", "serve", str(folder), "--port", "0", "--device", "cpu"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)  # noqa: S603
    try:
        line = process.stderr.readline() if process.stderr else ""
        address = re.search(r"http://([\d.]+):(\d+)", line)
        if address is None:
            raise RuntimeError(f"the server did not start: {line}")
        host, port = address[1], int(address[2])
        wait_for(host, port)
        yield host, port
    finally:
        process.terminate()
        process.wait()


def wait_for(host: str, port: int) -> None:
    for _ in range(600):
        try:
            connection = http.client.HTTPConnection(host, port, timeout=5)
            connection.request("GET", "/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server does not answer")


def request(rows: pd.DataFrame, form: str) -> bytes:
    """Return a whole HTTP request."""
    if form == "JSON":
        body, kind = json.dumps({"rows": json.loads(rows.to_json(orient="records"))}).encode(), "application/json"
    else:
        import pyarrow as pa  # noqa: PLC0415

        table, sink = pa.Table.from_pandas(rows, preserve_index=False), pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        body, kind = bytes(sink.getvalue()), ARROW
    head = f"POST /predict HTTP/1.1\r\nhost: here\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def load(host: str, port: int, asked: bytes, connections: int, seconds: float) -> tuple[list[float], float]:
    """Ask over some connections for a while; return the seconds of each answer, and of all."""
    lines = [await asyncio.open_connection(host, port) for _ in range(connections)]
    for reader, writer in lines:
        for _ in range(max(1, WARM // connections)):
            await ask(reader, writer, asked)
    times: list[float] = []
    started = time.perf_counter()

    async def go_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while time.perf_counter() - started < seconds:
            begun = time.perf_counter()
            await ask(reader, writer, asked)
            times.append(time.perf_counter() - begun)

    await asyncio.gather(*(go_on(*line) for line in lines))
    spent = time.perf_counter() - started
    for _, writer in lines:
        writer.close()
    return times, spent


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> bytes:
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(body[:500].decode())
    return body


def check(host: str, port: int, rows: pd.DataFrame, decided: list[Any]) -> None:
    """Refuse to time a server that decides otherwise."""

    async def once() -> bytes:
        reader, writer = await asyncio.open_connection(host, port)
        try:
            return await ask(reader, writer, request(rows, "JSON"))
        finally:
            writer.close()

    result = [row["decision"] for row in json.loads(asyncio.run(once()))["rows"]]
    if result != decided:
        raise RuntimeError("the server decides otherwise than the model")


# the page


def block(run: dict[str, Any]) -> str:
    """Return the table of the page."""
    lines = [
        "<!-- serving: made by benchmarks/speed/serving.py from benchmarks/results/serving.json: do not edit -->",
        "| model | request | connections | p50 | p99 | rows per second | `predict` alone "
        "| p50 over `predict` | rows per second over `predict` |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in run["cases"]:
        rows = "1 row" if case["rows"] == 1 else f"{case['rows']:,} rows"
        lines.append(
            f"| `{case['method']}` | {rows}, {case['form']} | {case['connections']} | {case['p50_ms']:.1f} ms "
            f"| {case['p99_ms']:.1f} ms | {case['rows_per_second']:,.0f} | {case['predict_ms']:.1f} ms "
            f"| {case['p50_ratio']:.2f} | {case['speed_ratio']:.2f} |"
        )
    busy = (run["load_at_start"] or 0) > int(run["device"].rpartition(", ")[2].split()[0]) / 2
    shown = "; **other work kept this machine busy**, so that only the ratios mean something" if busy else ""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items() if version != "none")
    lines.append(
        f"\n`{run['command']}`, {run['date']}; {run['device']}, which the generator of load shares; {versions}; load "
        f"average {run['load_at_start']} before{shown}; {run['seconds']:g} s of load for each case."
    )
    return "\n".join([*lines, "\n<!-- serving: end -->"])


if __name__ == "__main__":
    raise SystemExit(main())
