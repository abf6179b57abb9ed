"""The page about serving shows what was measured, and the Dockerfile names files and commands that are there."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.speed import serving

ROOT = Path(__file__).resolve().parents[2]


def test_the_table_of_the_page_is_what_was_measured():
    run = json.loads((ROOT / "benchmarks/results/serving.json").read_text())
    assert serving.block(run) in (ROOT / "benchmarks/results/serving.md").read_text(encoding="utf-8")
    timed = [case for case in run["cases"] if "p50_ms" in case]
    assert all(case["p99_ms"] >= case["p95_ms"] >= case["p50_ms"] > 0 for case in timed)


def test_percentiles_speed_and_ratios():
    times = [0.001 * number for number in range(1, 101)]
    seen = [serving.Load(times[::2], 2.0, 0.3), serving.Load(times[1::2], 3.0, 0.1)]
    result = serving.numbers(serving.Case(1000, "JSON", 2), seen)
    assert [result[f"p{share}_ms"] for share in (50, 95, 99)] == pytest.approx([50, 95, 99])
    assert (result["rows_per_second"], result["cpu_ms"]) == (100 * 1000 / 5, pytest.approx(4))
    both = serving.compared({"new": result, "reference": {name: 2 * value for name, value in result.items()}})
    assert {both[f"{name}_ratio"] for name in result} == {0.5}
    assert serving.compared({"new": result}) == result


def test_the_dockerfile_copies_what_the_build_may_see():
    text = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")
    seen = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = {word for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE) for word in line.split()[:-1]}
    assert {name.removeprefix("./") for name in copied} == seen
    assert all((ROOT / name).exists() for name in seen)
    steps = [line.split()[0] for line in text.splitlines() if re.match(r"[A-Z]+ ", line)]
    assert steps.index("USER") < steps.index("ENTRYPOINT")
    assert {"HEALTHCHECK", "EXPOSE", "STOPSIGNAL"} <= set(steps)


def test_its_command_is_one_that_adacsl_takes():
    from adacsl.cli.app import build

    text = (ROOT / "Dockerfile").read_text()
    program, *words = json.loads(re.search(r"^ENTRYPOINT (.+)$", text, re.MULTILINE)[1])
    command, bound, _ = build().parse_args(words, exit_on_error=False, print_error=False)
    assert (program, command.__name__) == ("adacsl", "serve")
    assert bound.arguments["host"] == "0.0.0.0"  # noqa: S104
    check = json.loads(re.search(r"^HEALTHCHECK .*\\\n +CMD (.+)$", text, re.MULTILINE)[1])
    compile(check[-1], "healthcheck", "exec")
    assert f":{bound.arguments['port']}/ready" in check[-1]
