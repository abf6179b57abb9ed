"""Latency and throughput of a served model, against another checkout of adacsl in the same run.

    git worktree add /tmp/before 0.2.0
    python -m benchmarks.speed.serving --reference /tmp/before/src
    python -m benchmarks.speed.serving --page     # only write the results that are there into the page

A model is fitted and saved once, and served by two processes of their own (``adacsl serve``, one worker): by this
checkout and by the reference. A generator of load in this process sends the same requests to both in turns: so many
connections, each of which sends its next request when it has an answer, for some seconds. Before anything is timed, the
decisions of both servers for all rows are compared with those of ``model.predict``. Seconds of a CPU that a server
spends on one request are read from /proc: on a busy machine they say more than the wall clock. ``--core`` pins each
server to one core. German credit, 1,000 rows of 20 columns, most of them text. Writes benchmarks/results/serving.json
and the table in benchmarks/results/serving.md.
"""

from __future__ import annotations

import argparse
import asyncio
import functools
import http.client
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
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
METHODS = ("logistic", "adacsl-cv", "ensemble")
WARM = 10
TURNS = 4
"""How often the servers take turns in each case."""


class Case(NamedTuple):
    """Requests of so many rows, written so, over so many connections."""

    rows: int
    form: str
    connections: int


CASES = (
    Case(1, "JSON", 1), Case(1, "JSON", 8), Case(1, "JSON", 32), Case(100, "JSON", 1), Case(1000, "Arrow", 1),
)  # fmt: skip
PREDICT = """
import sys, time
import adacsl
from adacsl.datasets.loading import load_task
model, rows = adacsl.load(sys.argv[1], device="cpu"), load_task("german-credit").X
spent = []
for turn in range(int(sys.argv[2]) + 10):
    row = rows[turn % 500 : turn % 500 + 1]
    start = time.process_time()
    model.predict(row)
    spent.append(time.process_time() - start)
print(sorted(spent[10:])[len(spent[10:]) // 2])
"""
"""Prints the median CPU seconds of ``predict`` for one row of a data frame."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0, help="of load for each case and server")
    parser.add_argument("--methods", nargs="+", default=list(METHODS), help="what is fitted and served")
    parser.add_argument("--reference", type=Path, help="src folder of the checkout to compare with")
    parser.add_argument("--core", type=int, help="the core that each server is pinned to")
    parser.add_argument("--page", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.page:
        info = metadata()  # of before the run: afterwards the load is our own
        commit = None if options.reference is None else head_of(options.reference)
        document: dict[str, Any] = {"title": "a served model", **info, "seconds": options.seconds}
        document |= {"reference": commit, "pinned": options.core is not None, "cases": []}
        for method in options.methods:
            document["cases"] += measure(method, options)
            RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    if PAGE.exists():
        text = PAGE.read_text(encoding="utf-8")
        PAGE.write_text(BLOCK.sub(lambda _: block(json.loads(RESULTS.read_text())), text), encoding="utf-8")
    return 0


def head_of(folder: Path) -> str:
    """Return the commit of a checkout."""
    command = ["git", "-C", str(folder), "rev-parse", "--short=8", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()  # noqa: S603


def measure(method: str, options: argparse.Namespace) -> list[dict[str, Any]]:
    """Fit, serve, check that all sides decide alike, and time every case."""
    from adacsl import method as make  # noqa: PLC0415  the page alone needs none of this
    from adacsl.datasets.loading import load_task  # noqa: PLC0415

    task = load_task("german-credit")
    model = make(method, task.costs, random_state=0, device="cpu").fit(task.X, task.y)
    sources = {"new": ROOT / "src"} | ({} if options.reference is None else {"reference": options.reference.resolve()})
    result, rows = [], task.X.reset_index(drop=True)
    with tempfile.TemporaryDirectory() as place, ExitStack() as stack:
        folder = model.save(Path(place) / "model")
        servers = {name: stack.enter_context(served(folder, source, options.core)) for name, source in sources.items()}
        for server in servers.values():
            check(server, rows, model.predict(rows).tolist())
        for case in CASES:
            sent = request(rows[: case.rows], case.form)
            seen: dict[str, list[Load]] = {name: [] for name in servers}
            for turn in range(TURNS):
                for name, server in list(servers.items())[:: 1 if turn % 2 else -1]:
                    seen[name].append(put_load(server, sent, case.connections, options.seconds / TURNS))
            result.append(
                {"method": method} | case._asdict() | compared({n: numbers(case, x) for n, x in seen.items()})
            )
            print(json.dumps(result[-1]), flush=True)
        spent = {name: predicting(folder, source) for name, source in sources.items()}
        result.append({"method": method, "rows": 1, "form": "predict", "connections": 0} | compared(spent))
        print(json.dumps(result[-1]), flush=True)
    return result


class Served(NamedTuple):
    """A server: where it listens, and its process."""

    host: str
    port: int
    pid: int


class Load(NamedTuple):
    """Seconds of each answer, of all of them together, and CPU seconds of the server."""

    times: list[float]
    spent: float
    cpu: float


def put_load(server: Served, sent: bytes, connections: int, seconds: float) -> Load:
    """Send requests for a while."""
    before = cpu_seconds(server.pid)
    times, spent, warm = asyncio.run(load(server.host, server.port, sent, connections, seconds))
    used = cpu_seconds(server.pid) - before
    return Load(times, spent, used * len(times) / (len(times) + warm))


def cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process so far; NaN where there is no /proc."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        return float("nan")
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def numbers(case: Case, seen: list[Load]) -> dict[str, float]:
    """Return what is published of one case and server."""
    ordered = sorted(time for each in seen for time in each.times)
    last, spent = len(ordered) - 1, sum(each.spent for each in seen)
    at = {f"p{share}_ms": 1e3 * ordered[int(share / 100 * last)] for share in (50, 95, 99)}
    return at | {
        "rows_per_second": case.rows * len(ordered) / spent,
        "cpu_ms": 1e3 * sum(each.cpu for each in seen) / len(ordered),
    }


def compared(by_server: dict[str, dict[str, float]]) -> dict[str, Any]:
    """Return the numbers of this checkout, those of the reference, and their ratios."""
    new, old = by_server["new"], by_server.get("reference")
    ratios = {} if old is None else {f"{name}_ratio": value / old[name] for name, value in new.items()}
    return new | ({} if old is None else {"reference": old}) | ratios


def predicting(folder: Path, source: Path, repeats: int = 300) -> dict[str, float]:
    """Return the median CPU milliseconds of ``model.predict`` for one row, in a process of its own."""
    command = [sys.executable, "-c", PREDICT, str(folder), str(repeats)]
    done = subprocess.run(command, env=environment(source), capture_output=True, text=True, check=True)  # noqa: S603
    return {"cpu_ms": 1e3 * float(done.stdout)}


def environment(source: Path) -> dict[str, str]:
    """Return the environment of a process that imports adacsl from a checkout."""
    return {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}


@contextmanager
def served(folder: Path, source: Path = ROOT / "src", core: int | None = None) -> Iterator[Served]:
    """Serve a model from another process; yield where."""
    command = [sys.executable, "-m", "adacsl.cli", "serve", str(folder), "--port", "0", "--device", "cpu"]
    pin = None if core is None else functools.partial(os.sched_setaffinity, 0, {core})
    process = subprocess.Popen(  # noqa: S603
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environment(source),
        preexec_fn=pin,  # noqa: PLW1509  no threads yet
    )  # fmt: skip
    try:
        line = process.stderr.readline() if process.stderr else ""
        address = re.search(r"http://([\d.]+):(\d+)", line)
        if address is None:
            raise RuntimeError(f"the server did not start: {line}")
        host, port = address[1], int(address[2])
        wait_for(host, port)
        yield Served(host, port, process.pid)
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


async def load(host: str, port: int, asked: bytes, connections: int, seconds: float) -> tuple[list[float], float, int]:
    """Ask over some connections for a while; return the seconds of each answer, of all, and the requests before."""
    lines = [await asyncio.open_connection(host, port) for _ in range(connections)]
    warm = max(1, WARM // connections)
    for reader, writer in lines:
        for _ in range(warm):
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
    return times, spent, warm * connections


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, asked: bytes) -> bytes:
    writer.write(asked)
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    body = await reader.readexactly(int(length[1]) if length else 0)
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(body[:500].decode())
    return body


def check(server: Served, rows: pd.DataFrame, decided: list[Any]) -> None:
    """Refuse to time a server that decides otherwise."""

    async def once() -> bytes:
        reader, writer = await asyncio.open_connection(server.host, server.port)
        try:
            return await ask(reader, writer, request(rows, "JSON"))
        finally:
            writer.close()

    result = [row["decision"] for row in json.loads(asyncio.run(once()))["rows"]]
    if result != decided:
        raise RuntimeError("the server decides otherwise than the model")


# the page

COLUMNS = (
    ("p50_ms", "{:.1f} ms"), ("p95_ms", "{:.1f} ms"), ("p99_ms", "{:.1f} ms"), ("rows_per_second", "{:,.0f}"),
    ("cpu_ms", "{:.1f} ms"), ("p50_ms_ratio", "{:.2f}"), ("rows_per_second_ratio", "{:.2f}"),
    ("cpu_ms_ratio", "{:.2f}"),
)  # fmt: skip


def number(case: dict[str, Any], name: str, form: str) -> str:
    """Return a figure of a case; a dash where it was not measured."""
    return form.format(case[name]) if name in case else "-"


def block(run: dict[str, Any]) -> str:
    """Return the table of the page."""
    lines = [
        "<!-- serving: made by benchmarks/speed/serving.py from benchmarks/results/serving.json: do not edit -->",
        "| model | request | connections | p50 | p95 | p99 | rows per second | CPU per request | p50, ratio "
        "| rows per second, ratio | CPU, ratio |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for case in run["cases"]:
        rows = "1 row" if case["rows"] == 1 else f"{case['rows']:,} rows"
        figures = [number(case, name, form) for name, form in COLUMNS]
        connections = case["connections"] or "-"
        what = f"{rows}, {'`model.predict`, data frame' if case['form'] == 'predict' else case['form']}"
        lines.append(f"| `{case['method']}` | {what} | {connections} | {' | '.join(figures)} |")
    busy = (run["load_at_start"] or 0) > int(run["device"].rpartition(", ")[2].split()[0]) / 2
    busy_note = "; **other work kept this machine busy**: read CPU times and ratios, not the clock" if busy else ""
    against = "" if run["reference"] is None else f"; ratios to commit {run['reference']} in the same run"
    pinned = ", each server on one core" if run["pinned"] else ""
    versions = ", ".join(f"{name} {version}" for name, version in run["versions"].items() if version != "none")
    lines.append(
        f"\n`{run['command']}`, {run['date']}; {run['device']}, which the generator of load shares{pinned}; "
        f"{versions}; load average {run['load_at_start']} before{busy_note}; {run['seconds']:g} s of load for each "
        f"case and server{against}."
    )
    return "\n".join([*lines, "\n<!-- serving: end -->"])


if __name__ == "__main__":
    raise SystemExit(main())
