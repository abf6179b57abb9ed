"""Simulated time and cost of 10^9 rows: parts measured on this machine, a cluster simulated from them.

python -m benchmarks.speed.scale_plan --json benchmarks/results/cpu_scale_plan.json     measure and simulate
python -m benchmarks.speed.scale_plan --page benchmarks/results/scale_plan.md  the page, from the committed result

What computes is measured in seconds of processor time of one thread, which other work on the machine disturbs little.
The simulation: files wait in one queue, each core takes the next; some files take longer, machines are lost with
what they were doing and replaced. What is assumed, not measured, stands in ``ASSUMED`` and on the page.
"""

from __future__ import annotations

import argparse
import heapq
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"  # before anything computes

import numpy as np
import pyarrow.parquet as pq

from benchmarks.harness import metadata
from benchmarks.speed.predict_memory import write_table

RESULTS = Path(__file__).resolve().parents[1] / "results"
METHODS = {
    "logistic regression": ("--method", "logistic"),
    "net (five cross-fitted)": ("--method", "adacsl-cv"),
    "gradient boosting": ("--method", "gbm-bayes"),
    "ensemble": ("--method", "ensemble"),
}
CORES = (1, 8, 64, 512)
ASSUMED: dict[str, float] = {
    "rows": 1e9, "rows_of_a_file": 1e6, "cores_of_a_machine": 8, "price_of_a_core_hour": 0.05,
    "hours_between_losses": 100, "seconds_until_noticed": 30, "seconds_until_replaced": 300,
    "spread": 0.1, "slow_share": 0.02, "slow_factor": 3, "storage_bytes_per_second": 1e9,
}  # fmt: skip
SEED, DRAWS, REPEATS = 7, 100, 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=65_536, help="rows of the file that is predicted")
    parser.add_argument("--folder", type=Path, default=None, help="keep trained models here, and take those that are")
    parser.add_argument("--without", nargs="*", default=[], choices=METHODS, help="models to leave out")
    parser.add_argument("--price", type=float, default=ASSUMED["price_of_a_core_hour"], help="of a core for an hour")
    parser.add_argument("--json", type=Path, default=None, help="measure, and write result and metadata to this file")
    parser.add_argument("--page", type=Path, default=None, help="write the page of the committed result to this file")
    args = parser.parse_args()
    if args.page is not None:
        args.page.write_text(page(committed()), encoding="utf-8")
        return 0
    for name in args.without:
        del METHODS[name]
    with tempfile.TemporaryDirectory() as name:
        parts = measure(Path(name), args.folder or Path(name), args.rows)
    assumed = ASSUMED | {"price_of_a_core_hour": args.price}
    info = {"title": "10^9 rows on paper", **metadata(), "seed": SEED, "draws": DRAWS, "assumed": assumed}
    document = {**info, "parts": parts, "plans": plans(parts, assumed)}
    print(page(document))
    if args.json is not None:
        args.json.write_text(json.dumps(document, indent=2) + "\n")
    return 0


def committed() -> dict[str, Any]:
    """Return the result that is published: a quiet machine's, where there is one."""
    result = [RESULTS / f"{name}.json" for name in ("cpu_scale_plan", "cpu_busy_scale_plan")]
    document: dict[str, Any] = json.loads(next(path for path in result if path.exists()).read_text())
    return document


# what is measured


def processor_seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Return the median of the processor time of some calls, after one that does not count."""
    seconds = []
    for _ in range(repeats + 1):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return statistics.median(seconds[1:])


def measure(folder: Path, models_in: Path, rows: int) -> dict[str, Any]:
    write_table(folder / "train.parquet", 4_000, seed=1)
    (folder / "data").mkdir()
    write_table(folder / "data/rows.parquet", rows, seed=2)
    models = {name: one_model(folder, models_in, words, rows) for name, words in METHODS.items()}
    table = pq.read_table(folder / "data/rows.parquet")
    size, made = (folder / "data/rows.parquet").stat().st_size, folder / "again.parquet"
    read = processor_seconds(lambda: pq.read_table(folder / "data/rows.parquet", use_threads=False))
    written = processor_seconds(lambda: pq.write_table(table, made))
    return {
        "rows": rows, "columns": table.num_columns, "models": models, "bytes_of_a_row": size / rows,
        "read_mb_per_second": size / 1e6 / read, "write_mb_per_second": made.stat().st_size / 1e6 / written,
        "histogram_rows_per_second": histogram(), "start_seconds": start_seconds(models_in / "model-adacsl-cv"),
        "ray_seconds_of_a_file": ray_seconds(),
    }  # fmt: skip


def one_model(folder: Path, models_in: Path, words: tuple[str, ...], rows: int) -> dict[str, Any]:
    """Train a model and predict a file with it, from file to file, as a worker of a cluster does."""
    from adacsl import load  # noqa: PLC0415
    from adacsl.decision.policy import Policy  # noqa: PLC0415
    from adacsl.estimators.partitioned_predict import Request, make_plan, predict_unit  # noqa: PLC0415

    model = models_in / f"model-{words[-1]}"
    costs = ("--target", "y", "--fn", "8", "--fp", "1", "--out", str(model), "--quiet")
    command = [sys.executable, "-m", "adacsl.cli", "train", str(folder / "train.parquet"), *words, *costs]
    if not model.exists():
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
    classifier = load(model, device="cpu")
    request = Request(classifier.costs_, Policy(), [], 65_536)
    out = folder / f"out-{words[-1]}"
    plan, (unit,) = make_plan(classifier, model, str(folder / "data"), out, request, None, "cpu")

    def work() -> None:
        (out / unit.name).unlink(missing_ok=True)
        report = predict_unit(classifier, plan, unit)
        assert report.failed is None, report.failed

    seconds = processor_seconds(work, 3)
    return {
        "rows_per_second": rows / seconds,
        "load_seconds": processor_seconds(lambda: load(model, device="cpu"), 3),
        "bytes_of_a_prediction": (out / unit.name).stat().st_size / rows,
    }


def histogram(n: int = 1_000_000) -> float:
    """Return how many scores CostHistogram counts in a second."""
    from adacsl import CostHistogram  # noqa: PLC0415

    rng = np.random.default_rng(SEED)
    scores, labels = rng.random(n, dtype=np.float32), rng.random(n) < 0.2
    return n / processor_seconds(lambda: CostHistogram().update(scores, labels))


def start_seconds(model: Path) -> float:
    """Return the processor time of a process until it holds a model."""
    code = "import sys; from adacsl import load; load(sys.argv[1], device='cpu')"
    process = subprocess.Popen([sys.executable, "-c", code, str(model)])  # noqa: S603
    _, status, usage = os.wait4(process.pid, 0)
    assert status == 0
    return usage.ru_utime + usage.ru_stime


class Idle:
    """A worker that does nothing."""

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Return what came."""
        return batch


def ray_seconds(many: int = 120, few: int = 20) -> float:
    """Return what Ray Data takes for each file beside the work itself, in seconds that pass."""
    import ray  # noqa: PLC0415
    import ray.data  # noqa: PLC0415

    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    ray.data.DataContext.get_current().enable_progress_bars = False

    def wall(n: int) -> float:
        files = ray.data.from_items([{"unit": i} for i in range(n)], override_num_blocks=n)
        pool = ray.data.ActorPoolStrategy(size=1)
        start = time.perf_counter()
        assert len(list(files.map_batches(Idle, batch_size=1, num_cpus=1, compute=pool).iter_rows())) == n
        return time.perf_counter() - start

    wall(few)
    seconds = (wall(many) - wall(few)) / (many - few)
    ray.shutdown()
    return seconds


# what is simulated


def plans(parts: dict[str, Any], assumed: dict[str, float]) -> list[dict[str, Any]]:
    return [plan(name, cores, parts, assumed) for name in parts["models"] for cores in CORES]


def plan(name: str, cores: int, parts: dict[str, Any], assumed: dict[str, float]) -> dict[str, Any]:
    """Return how long 10^9 rows take on so many cores, over many simulations, and what they cost."""
    model = parts["models"][name]
    moved = (parts["bytes_of_a_row"] + model["bytes_of_a_prediction"]) * model["rows_per_second"]
    fed = max(1, min(cores, int(assumed["storage_bytes_per_second"] / moved)))  # more find nothing to read
    seconds = assumed["rows_of_a_file"] / model["rows_per_second"] + parts["ray_seconds_of_a_file"]
    start, files = parts["start_seconds"], int(assumed["rows"] / assumed["rows_of_a_file"])
    rng = np.random.default_rng(SEED)
    took = [simulate(files, fed, seconds, start, assumed, rng) for _ in range(DRAWS)]
    low, middle, high = np.quantile(took, [0.025, 0.5, 0.975])
    return {
        "model": name, "cores": cores, "seconds": middle, "low": low, "high": high,
        "ideal_seconds": files * seconds / fed, "fed": fed,
        "cost": middle * cores / 3600 * assumed["price_of_a_core_hour"],
    }  # fmt: skip


def simulate(
    files: int, cores: int, seconds: float, start: float, assumed: dict[str, float], rng: np.random.Generator
) -> float:
    """Return when the last of the files is done."""
    size = int(min(cores, assumed["cores_of_a_machine"]))
    life = assumed["hours_between_losses"] * 3600
    sizes = [size] * (cores // size) + ([cores % size] if cores % size else [])
    machines = len(sizes)
    events: list[tuple[float, int, str, int, int]] = []
    age, running, idle, waiting, done, now, count = [0] * machines, [0] * machines, list[int](), files, 0, 0.0, 0

    def then(when: float, what: str, machine: int, number: int) -> None:
        nonlocal count
        count += 1  # ties are taken in their order
        heapq.heappush(events, (when, count, what, machine, number))

    for machine in range(machines):
        then(start, "there", machine, 0)
        then(rng.exponential(life), "lost", machine, 0)
    while done < files:
        now, _, what, machine, number = heapq.heappop(events)
        if what == "there":
            idle += [machine] * sizes[machine]
        elif what == "noticed":
            waiting += number
        elif what == "done" and number == age[machine]:
            done, running[machine] = done + 1, running[machine] - 1
            idle.append(machine)
        elif what == "lost":
            then(now + assumed["seconds_until_noticed"], "noticed", machine, running[machine])
            back = now + assumed["seconds_until_replaced"]
            then(back + start, "there", machine, 0)
            then(back + start + rng.exponential(life), "lost", machine, 0)
            age[machine], running[machine], idle = age[machine] + 1, 0, [other for other in idle if other != machine]
        while waiting and idle:
            machine = idle.pop()
            waiting, running[machine] = waiting - 1, running[machine] + 1
            slow = assumed["slow_factor"] if rng.random() < assumed["slow_share"] else 1
            took = seconds * slow * rng.lognormal(0, assumed["spread"]) if assumed["spread"] else seconds * slow
            then(now + took, "done", machine, age[machine])
    return now


# the page

HEAD = """\
<!-- plan: made by benchmarks/speed/scale_plan.py: do not edit -->

# Simulated time for a billion rows

How long {rows} rows take to [predict on a cluster](../../docs/guide/scale/predict-on-cluster.md), and what that
costs: **simulated**, not run. The parts are measured ({date}, {device}; `{command}`), the cluster is assumed.

## Time

Median of {draws} simulations, and the range that holds 95 % of them.

"""

FIGURE = """
![time by cores, one line for each model; an ideal cluster is dashed](../../docs/_static/figures/scale-light.svg)
"""


def page(document: dict[str, Any]) -> str:
    """Return the page of a result."""
    parts, assumed = document["parts"], document["assumed"]
    head = HEAD.format(rows="10^9", draws=document["draws"], **{k: document[k] for k in ("date", "device", "command")})
    lines = [
        head,
        table(document, lambda each: f"{span(each['seconds'])} ({span(each['low'])} to {span(each['high'])})"),
    ]
    lines += [FIGURE, "\n## Cost\n\n", f"At {assumed['price_of_a_core_hour']:g} a core-hour, "]
    lines += [
        "which is an **example**: put in your own with `--price`. Every core is paid until the last file is done.\n\n"
    ]
    lines += [table(document, lambda each: f"{each['cost']:.2f}")]
    fed = {each["model"]: each["fed"] for each in document["plans"] if each["fed"] < each["cores"]}
    if fed:
        most = ", ".join(f"{name} {cores}" for name, cores in fed.items())
        lines += [f"\nMore cores than the storage can feed do not help, and are paid all the same. It feeds: {most}.\n"]
    lines += ["\n## Measurements\n\n", measured(parts), "\n## Assumptions\n\n", assumptions(assumed)]
    return "".join(lines) + "\n<!-- plan: end -->\n"


def table(document: dict[str, Any], shown: Callable[[dict[str, Any]], str]) -> str:
    lines = ["| model | " + " | ".join(f"{cores} core{'s' if cores > 1 else ''}" for cores in CORES) + " |\n"]
    lines += ["|---|" + "--:|" * len(CORES) + "\n"]
    for name in document["parts"]["models"]:
        cells = [shown(each) for each in document["plans"] if each["model"] == name]
        lines += [f"| {name} | {' | '.join(cells)} |\n"]
    return "".join(lines)


def measured(parts: dict[str, Any]) -> str:
    lines = [f"On {parts['rows']:,} rows of {parts['columns']} columns, one thread, seconds of processor time:\n\n"]
    lines += ["| part | figure |\n|---|--:|\n"]
    for name, model in parts["models"].items():
        lines += [f"| {name}, from Parquet file to Parquet file | {rounded(model['rows_per_second'])} rows/s |\n"]
    for name, model in parts["models"].items():
        lines += [f"| {name}, loading the model | {model['load_seconds'] * 1e3:.1f} ms |\n"]
    lines += [
        f"| a process until it holds a model (the networks) | {parts['start_seconds']:.1f} s |\n",
        f"| reading Parquet | {parts['read_mb_per_second']:.0f} MB/s |\n",
        f"| writing Parquet | {parts['write_mb_per_second']:.0f} MB/s |\n",
        f"| a row of the data, and of the predictions | {parts['bytes_of_a_row']:.0f} + "
        f"{max(model['bytes_of_a_prediction'] for model in parts['models'].values()):.0f} bytes |\n",
        "| `CostHistogram.update`, first pass only, scores in memory | "
        f"{rounded(parts['histogram_rows_per_second'])} rows/s |\n",
        f"| Ray Data, for each file, in seconds that pass | {parts['ray_seconds_of_a_file']:.3f} s |\n",
    ]
    return "".join(lines)


def assumptions(assumed: dict[str, float]) -> str:
    files = assumed["rows"] / assumed["rows_of_a_file"]
    return (
        f"- {files:,.0f} files of {assumed['rows_of_a_file']:,.0f} rows, on storage "
        f"that all machines share and that moves {assumed['storage_bytes_per_second'] / 1e9:g} GB/s in all.\n"
        f"- Machines of {assumed['cores_of_a_machine']:.0f} cores, each as fast as the one that was measured.\n"
        f"- A file takes its time give or take {assumed['spread']:.0%}; {assumed['slow_share']:.0%} of them take "
        f"{assumed['slow_factor']:g} times as long.\n"
        f"- A machine is lost once in {assumed['hours_between_losses']:g} hours, with the files it was at; that is "
        f"noticed after {assumed['seconds_until_noticed']:g} s, and another takes its place after "
        f"{assumed['seconds_until_replaced']:g} s. What it had finished stays.\n"
    )


def rounded(value: float) -> str:
    """Return a number with two digits that count."""
    return f"{float(f'{value:.2g}'):,.0f}"


def span(seconds: float) -> str:
    """Return a time in the unit that suits it."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
