"""Every figure in the words of README.md and docs is what the committed results say, or is named as a setting."""

import importlib.util
import json
import re
from pathlib import Path

import pandas as pd
import pytest

from benchmarks.quality import adacsl_defaults, claims_page, ensemble, estimate, savings
from benchmarks.speed import scale_plan

ROOT = Path(__file__).resolve().parents[2]


def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


figures = load(ROOT / "tests/docs/figures.py")
PAGES = figures.pages()


def claims_of(page):
    return [claim for claim in figures.TABLE["claim"] if claim["page"] == page]


@pytest.mark.parametrize("page", sorted({claim["page"] for claim in figures.TABLE["claim"]}))
def test_claims_are_what_the_results_say(page):
    words, names = figures.read(page).text, figures.sources(page)
    for claim in claims_of(page):
        output = "".join(part.text for part in figures.render(claim, names))
        assert output in words, f"{page} does not say what the results do: {output}"


@pytest.mark.parametrize("page", PAGES)
def test_no_figure_stands_unchecked(page):
    result = list(figures.unchecked(figures.read(page), figures.sources(page)))
    assert not result, f"{page}: put it into tests/docs/figures.toml, or leave the figure out:\n" + "\n".join(result)


def test_every_claim_and_setting_is_used():
    assert {claim["page"] for claim in figures.TABLE["claim"]} <= set(PAGES)
    texts = {name: figures.read(name).words for name in PAGES}
    for setting in figures.TABLE["setting"]:
        assert setting["why"]
        own = [text for name, text in texts.items() if name.startswith(setting.get("page", ""))]
        assert any(re.search(setting["like"], text) for text in own), f"no page says {setting['like']}"


def test_a_wrong_figure_is_found(monkeypatch):
    claim = {"page": "a.md", "says": "costs {{two() * 3 | .1f}} % less ({{two() / 4 | bare2}})"}
    monkeypatch.setitem(figures.TABLE, "claim", [claim])
    monkeypatch.setitem(figures.TABLE, "setting", [{"like": "95 %", "why": "level"}])
    names = {"two": lambda: 2}

    def unchecked(text):
        return list(figures.unchecked(figures.Page("a.md", text, text, text), names))

    assert unchecked("It costs 6.0 % less (.50), 95 %.") == []
    assert len(unchecked("It costs 6.1 % less (.50), 95 %.")) == 2
    assert unchecked("It costs 6.0 % less (.50) in 7 s.") == ["'7 s' in: It costs 6.0 % less (.50) in 7 s."]


def test_only_arithmetic_is_evaluated():
    assert figures.evaluate("-[1, 4][1] / 8 + 1", {}) == 0.5
    for output in ("__import__('os')", "().__class__", "[x for x in [1]]", "open('a')"):
        with pytest.raises(ValueError, match="is no arithmetic"):
            figures.evaluate(output, {"mean": sum})


def test_figures_are_shown_as_they_are_printed():
    assert figures.shown([0.1234, 0.05], "bare2") == ".12 / .05"
    assert figures.shown([-0.2, -3.04, 2.66], "interval1") == "-0.2 % (-3.0 to 2.7)"
    assert figures.shown(-0.04, ".1f") == "0.0"


# pages that are not checked by their words are checked as a whole: they are what their generators write


def committed(name):
    return (ROOT / name).read_text(encoding="utf-8")


def test_the_page_of_ensembles_is_that_of_the_committed_files():
    page = ensemble.page(ROOT / "benchmarks/results")
    assert page == committed("benchmarks/results/ensemble.md"), "run python -m benchmarks.quality.ensemble --page"


def test_the_page_of_base_estimators_is_that_of_the_committed_file():
    base_estimators = pytest.importorskip("benchmarks.quality.base_estimators")
    page = base_estimators.page(base_estimators.RESULTS)
    assert page == committed("benchmarks/results/base_estimators.md"), (
        "run python -m benchmarks.quality.base_estimators --page"
    )


def test_the_table_of_savings_is_that_of_the_committed_files():
    files = [ROOT / f"benchmarks/results/{name}.csv" for name in ("savings", "savings_peers")]
    assert savings.table(files) in committed("benchmarks/results/savings.md")


def test_the_table_of_estimates_is_that_of_the_committed_file():
    document = json.loads(committed("benchmarks/results/cpu_estimate.json"))
    assert estimate.table(document) in committed("benchmarks/results/estimate.md")


def test_the_table_of_ways_to_decide_is_that_of_the_committed_file():
    result = pd.read_csv(ROOT / "benchmarks/results/adacsl_defaults.csv")
    assert adacsl_defaults.show(result) in committed("benchmarks/results/adacsl_defaults.md")


def test_the_page_of_a_billion_rows_is_that_of_the_committed_file():
    assert scale_plan.page(scale_plan.committed()) == committed("benchmarks/results/scale_plan.md"), (
        "run python -m benchmarks.speed.scale_plan --page"
    )


PARTS = {"smaller validation set": "validation", "wrong labels": "noise", "images enlarged": "enlarged"}


def again(method, against, where, k):
    """Compute a cell of the page of claims by the interval as written down in figure_sources.py."""
    data, forms, *setting = where.split("; ")
    part, value = setting[0].rsplit(", ", 1) if setting else ("", "")
    file = {"HAM10K": "claims", "PV-D": "claims_pv"}[data]
    ours, theirs = (forms.split(" / ") * 2)[:2]
    places = [(PARTS[part] if part else "crossed" if form[:4] == "five" else "main", form) for form in (ours, theirs)]
    return figures.sources("")["contrast"](file, *places, method, against, k, value)


def test_intervals_of_claims_are_those_of_the_committed_decisions():
    rows = re.findall(
        r"^\| \d+ \| ([\w-]+) \| ([\w-]+) \| ([^|]+) \| (.*) \|$",
        committed("benchmarks/results/claims.md"),
        re.MULTILINE,
    )
    checked = 0
    for method, against, where, cells in rows:
        for k, cell in zip((1, 3, 5), cells.split("|"), strict=True):
            if cell.strip() and "positives x" not in where:  # another prevalence weighs the rows: weekly, below
                middle, low, high = again(method, against, where, k)
                assert cell.strip() == f"{middle:+.1f} ({low:.1f} to {high:.1f})", (where, k)
                checked += 1
    assert checked > 60


@pytest.mark.weekly
def test_the_page_of_claims_is_that_of_the_committed_decisions():
    made = claims_page
    assert made.page() == committed("benchmarks/results/claims.md"), (
        "run python -m benchmarks.quality.claims_page benchmarks/results/claims.md"
    )
    assert made.costs_page() == committed("benchmarks/results/claims_costs.md"), (
        "run python -m benchmarks.quality.claims_page benchmarks/results/claims.md"
    )


@pytest.mark.weekly
def test_examples_still_give_what_was_stored():
    stored = json.loads(figures.EXAMPLES.read_text(encoding="utf-8"))["pages"]
    for page, result in json.loads(json.dumps(figures.run_examples(), default=float)).items():
        for expression, value in result.items():
            wanted = stored[page][expression]
            assert value == (wanted if isinstance(wanted, str) else pytest.approx(wanted, rel=0.02)), expression
