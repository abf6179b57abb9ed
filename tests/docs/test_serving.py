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
    assert all(case["p99_ms"] >= case["p50_ms"] > 0 for case in run["cases"])


def test_percentiles_speed_and_ratios():
    times = [0.001 * number for number in range(1, 101)]
    result = serving.numbers(serving.Case(1000, "JSON", 2), times, spent=5.0, alone=0.01)
    assert result["p50_ms"] == pytest.approx(50.5)
    assert result["p99_ms"] == pytest.approx(99)
    assert result["rows_per_second"] == 100 * 1000 / 5
    assert result["p50_ratio"] == pytest.approx(5.05)
    assert result["speed_ratio"] == pytest.approx(20_000 / 100_000)


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
