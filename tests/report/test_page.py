"""The page as a file: complete, small, safe, and written whole or not at all."""

import base64
import errno
import gzip
import html.parser
import json
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from adacsl.metrics.intervals import Interval
from adacsl.report import comparison
from adacsl.report.comparison import render_report, report_page, write_report
from adacsl.report.data import Outcome, ReportData, Saved
from adacsl.report.explorer import drawn_rows
from adacsl.report.page import cards_of
from adacsl.report.sections import calibration, errors

ROOT = Path(__file__).resolve().parents[2]
HOSTILE = "</script><img src=x onerror=\"alert('x')\">&<b>\u2028\u2029<!--"


class Parsed(html.parser.HTMLParser):
    """Elements, their attributes, and the text of scripts."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.ids, self.scripts, self.text = [], [], {}, ""
        self._open = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.ids += [value for name, value in attrs if name == "id"]
        self._open = dict(attrs).get("id", "script") if tag in ("script", "style") else None

    def handle_endtag(self, tag):
        self._open = None

    def handle_data(self, data):
        if self._open:
            self.scripts[self._open] = self.scripts.get(self._open, "") + data
        else:
            self.text += data


@pytest.fixture(scope="module")
def small(made):
    return made(ratios=(8.0,), rows=30, seeds=2, methods=["net", "adacsl-cv"])


@pytest.fixture(scope="module")
def text(report):
    return render_report(report)


@pytest.fixture(scope="module")
def parsed(text):
    return Parsed(text)


def payload(text):
    return json.loads(Parsed(text).scripts["report-data"])


# what is in it


def test_page_is_small_and_complete(text, parsed):
    assert len(text.encode()) < 6_000_000
    sources = [attrs for tag, attrs in parsed.elements for name in ("src", "href") if attrs.get(name, "#")[0] != "#"]
    assert sources == []
    assert not [tag for tag, _ in parsed.elements if tag in ("link", "iframe", "img", "object")]


def test_ids_are_unique_and_links_lead_somewhere(parsed):
    assert len(parsed.ids) == len(set(parsed.ids))
    goals = {attrs["href"][1:] for tag, attrs in parsed.elements if tag == "a"}
    assert goals <= set(parsed.ids)
    named = [
        attrs[key]
        for _, attrs in parsed.elements
        for key in ("aria-labelledby", "aria-describedby", "for")
        if attrs.get(key)
    ]
    assert {name for names in named for name in names.split()} <= set(parsed.ids)


def test_verdicts_and_all_numbers_are_there_without_scripts(report, parsed):
    words = " ".join(parsed.text.split())
    for view in report.views:
        assert " ".join(report.recommendations[view].split()) in words
    for name, value in report.facts.items():
        assert name in words
        assert value in words
    assert "1,200 test samples" in words
    assert "Scripts are off" in words


def test_every_figure_has_words_and_a_table(text, parsed):
    figures = json.loads(gzip.decompress(base64.b64decode(parsed.scripts["report-figures"])))
    drawn = {attrs["data-figure"] for _, attrs in parsed.elements if "data-figure" in attrs}
    assert drawn == {name for name in figures if not name.endswith("-threshold")}
    for _, attrs in parsed.elements:
        if "plot" in attrs.get("class", "").split():
            assert attrs["role"] == "img"
            assert len(attrs["aria-label"]) > 30


def test_worth_of_columns_is_a_card_of_its_view_with_a_table(small):
    worth = pd.DataFrame({"column": ["age", HOSTILE], "cost": [0.1, 0.25], "low": [-0.01, 0.2], "high": [0.2, 0.3]})
    text = render_report(replace(small, explained={small.views[0]: worth.assign(share=[0.125, np.nan])}))
    parsed = Parsed(text)
    words = " ".join(parsed.text.split())
    assert "age0.100 (−0.010 to 0.200)12.5 %" in words  # noqa: RUF001
    assert words.index("onerror=") < words.index("age0.100 (")
    assert not [tag for tag, _ in parsed.elements if tag == "img"]
    assert "view-0-worth" in parsed.ids
    with pytest.raises(ValueError, match=r"needs the columns \['low'\]"):
        replace(small, explained={small.views[0]: worth.assign(low="?")})


def test_policy_lets_only_our_scripts_run(text, parsed):
    policy = next(attrs["content"] for tag, attrs in parsed.elements if attrs.get("http-equiv"))
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe-inline" not in policy.split("style-src")[0]
    assert "connect-src" not in policy


def test_embedded_rows_are_the_test_rows(report, text):
    result = payload(text)
    view = report.views.index(("breast-cancer", 8.0))
    sample = next(s for s in result["views"][view]["samples"] if s["name"] == "adacsl-cv")
    outcome = report.outcomes[("breast-cancer", 8.0, "adacsl-cv")]
    packed = result["arrays"][sample["scores"]]
    assert packed["kind"] == "f4"
    scores = np.frombuffer(base64.b64decode(packed["data"]), dtype="<f4")
    np.testing.assert_array_equal(scores, outcome.scores)
    assert sample["costs"] == {"fp": 1.0, "fn": 8.0, "tp": 0.0, "tn": 0.0}
    # net, net-bayes and net-tuned have the same scores, also at other ratios: written once
    plain = ("net", "net-bayes", "net-tuned")
    shared = {s["scores"] for v in result["views"] for s in v["samples"] if s["name"] in plain}
    assert len(shared) == 1


def test_rendering_twice_gives_the_same_page(small):
    assert render_report(small) == render_report(small)


def test_the_smallest_report_has_a_recommendation_and_a_summary(report):
    rows = report.summary[["data", "ratio", "method", "n", "cost", "low", "high"]]
    bare = ReportData("Bare", {("breast-cancer", 8.0): "Take net."}, {}, report.results.iloc[:0], rows)
    words = Parsed(render_report(bare)).text
    assert "Take net." in words
    assert "Errors and thresholds" not in words


def test_costs_without_intervals_stand_alone(report):
    rows = report.summary.assign(low=np.nan, high=np.nan, percent_low=np.nan, percent_high=np.nan)
    words = Parsed(render_report(ReportData("One", dict(report.recommendations), {}, report.results, rows))).text
    assert "nan" not in words
    assert "\u2013 to" not in words
    assert "95 % intervals:" not in words


def test_intervals_name_their_method_once_in_each_view(report):
    result = "95 % intervals: Student's t on paired row costs"
    words = " ".join(Parsed(render_report(replace(report, facts={**report.facts, "intervals": result}))).text.split())
    assert words.count(f"{result}.") == len(report.views)
    assert words.count(result) == len(report.views) + 1  # and where the numbers come from


# the methods


def summary(data):
    """Return the words of the summary."""
    text = render_report(data)
    return " ".join(
        Parsed(text[text.index('<section class="summary"') : text.index('<section class="details"')]).text.split()
    )


def test_saving_is_the_headline_and_one_of_the_numbers(small):
    (view,) = small.views
    saved = Saved("your current decisions", Interval(23.4, 11.06, 34.2), other="always sick", other_cost=0.5)
    words = summary(replace(small, savings={view: saved}))
    assert "23 % lower cost (95 % CI 11-34 %) than your current decisions" in words
    assert "Saved23 %against your current decisions; 95 % CI 11-34 %" in words
    assert "constant baseline" not in words
    dearer = replace(small, savings={view: Saved("threshold 0.5", Interval(-2.0, -9.0, 5.0))})
    words = summary(dearer)
    assert "2 % higher cost (95 % CI −5 to 9 %) than threshold 0.5: no significant difference" in words  # noqa: RUF001
    assert "Costs more2 %than threshold 0.5" in words
    free = Saved("your current decisions", Interval(np.nan, np.nan, np.nan), Interval(0.25, 0.125, 0.5))
    words = summary(replace(small, savings={view: free}))  # the baseline costs nothing
    assert "Saves 0.250 EUR per sample (95 % CI 0.125 to 0.500) against your current decisions" in words
    assert "against the best constant baseline" in words
    same = Saved("threshold 0.5", Interval(0.0, 0.0, 0.0), Interval(0.0, 0.0, 0.0))
    assert "The same cost as threshold 0.5" in summary(replace(small, savings={view: same}))


def test_a_default_page_shows_few_words_and_the_rest_is_folded(made):
    report = made(ratios=(8.0,))
    text = render_report(report)
    shown = re.sub(r"<(script|style)\b.*?</\1>", "", text[text.index("<body") :], flags=re.DOTALL)
    head, inside = r"<summary>(?:(?!</summary>).)*</summary>", r"(?:(?!</?details).)*"
    folded = re.compile(rf"<details(?![^>]* open)[^>]*>\s*({head}){inside}</details>", re.DOTALL)
    while folded.search(shown):
        shown = folded.sub(r"\1", shown)
    assert "Cost of each method, lowest first" in shown
    assert "Reliability diagram" in text
    assert "Reliability diagram" not in shown
    assert 100 < len(Parsed(shown).text.split()) <= 1200


def test_fit_time_stands_beside_the_cost(small):
    words = " ".join(Parsed(render_report(small)).text.split())
    assert "fit time" in words
    assert "0.45 s" in words  # the mean of 0.4 and 0.5


def test_table_has_the_excess_of_each_method_with_its_interval_and_marks_two(small):
    summary = small.summary.replace({"method": {"net": "baseline"}}).assign(
        percent=[44.4, 0.0], percent_low=[-3.2, 0.0], percent_high=[91.7, 0.0]
    )
    summary["cost"] = [1.444, 1.0]
    report = replace(small, summary=summary, recommended={small.views[0]: "adacsl-cv"})
    cards = {card.id: card for _, card in cards_of(report_page(report))}
    (table,) = cards["methods"].tables
    result = [dict(zip(table.headers, row, strict=True)) for row in table.rows]
    assert [row["method"] for row in result] == ["adacsl-cv", "baseline"]
    assert [row["above the lowest"] for row in result] == ["0 %", "44 % (\u22123.2 to 92 %)"]
    assert (table.marked, table.badges) == ("adacsl-cv", {"adacsl-cv": "recommended", "baseline": "current decisions"})
    assert "your current decisions" in {trace.name for trace in cards["cost"].figure.data}
    text = render_report(report)
    assert text.count('class="badge">recommended') == 1
    assert text.count('class="badge">current decisions') == 1


# what stands last


def test_findings_are_summed_up_above_and_listed_below(small):
    (view,) = small.views
    seen = [
        {"code": "few-rows", "severity": "info", "text": "60 rows.", "page": "docs/guide/diagnose/checks.md#few-rows"},
        {"code": "target-leakage", "severity": "error", "text": f"Drop {HOSTILE}.", "page": "https://a.b/#c"},
    ]
    parsed = Parsed(render_report(replace(small, checks={view[0]: seen})))
    words = " ".join(parsed.text.split())
    result = "1 finding of the data checks to review before using these results; at least one may invalidate them."
    assert words.count(result) == 2
    assert words.index("target-leakage") < words.index("few-rows")
    assert {"href": "#view-0-data"} in [attrs for tag, attrs in parsed.elements if tag == "a"]
    assert "view-0-data" in parsed.ids
    outside = [attrs for tag, attrs in parsed.elements if tag == "a" and attrs["href"][0] != "#"]
    assert outside == [{"href": "https://a.b/#c", "rel": "noreferrer"}]
    assert not [tag for tag, _ in parsed.elements if tag == "img"]
    clean = Parsed(render_report(replace(small, checks={view[0]: []}))).text
    assert "No findings." in clean
    assert "to review before" not in clean


def test_model_card_is_listed_line_by_line(small):
    (view,) = small.views
    words = " ".join(
        Parsed(render_report(replace(small, model={view: {"made for": f"Deciding {HOSTILE}"}}))).text.split()
    )
    assert "made forDeciding </script>" in words


# repeats


def test_cases_are_counted_per_repeat(small):
    """Four rows, each tested in two repeats: three of eight decisions are wrong."""
    labels, decisions = np.array([0, 0, 1, 1] * 2), np.array([1, 0, 0, 1, 0, 0, 0, 1])
    scores, splits = np.linspace(0.1, 0.9, 8), np.arange(8) // 2
    twice = Outcome(scores, labels, decisions, splits, fp=1.0, fn=8.0, threshold=0.5, repeats=2)
    table = errors.confusion_table(twice).set_index("outcome")
    assert table["count"].to_dict() == {"tp": 1, "fn": 1, "fp": 0.5, "tn": 1.5}
    assert table["total_cost"].to_dict() == {"tp": 0, "fn": 8, "fp": 0.5, "tn": 0}
    assert table["mean_cost"].to_dict() == {"tp": 0, "fn": 8, "fp": 1, "tn": 0}
    groups = errors.subgroup_table(twice)
    assert groups[["n", "positives"]].sum().tolist() == [4, 2]
    assert groups["cost"].sum() == 8.5
    points = errors.threshold_points(twice)
    np.testing.assert_allclose(points["total_cost"], 4 * points["cost"])
    assert calibration.calibration_table({"a": twice})["n"].sum() == 4
    report = replace(small, outcomes={(*small.views[0], "net"): twice}, recommended={small.views[0]: "net"})
    text = render_report(report)
    words = " ".join(Parsed(text).text.split())
    assert "All 4 samples, each tested once in 2 repeats; means of the repeats, rounded." in words
    assert "0.5 samples" not in words  # half a case is decided wrongly in one of two repeats: it counts as an error
    assert "8 EUR1 samples" in words
    assert "0.5 EUR1 samples" in words
    assert "Counts and totals are means of the 2 repeats." in words
    assert payload(text)["views"][0]["samples"][0]["weights"] == [0.5, 0.5]


def test_random_splits_of_old_runs_are_counted_as_they_are(small):
    outcome = next(iter(small.outcomes.values()))
    assert outcome.counted == "All 60 test samples of 2 splits."
    assert replace(outcome, seeds=np.zeros(60)).counted == "All 60 test samples."


def test_a_long_recommendation_is_a_headline_and_the_rest(report):
    view = report.views[0]
    data = ReportData(
        "Long", {view: "Take net. It costs 0.2 per case; others are worse."}, {}, report.results, report.summary
    )
    words = " ".join(Parsed(render_report(data)).text.split())
    assert "Take net. It costs 0.2 per case; others are worse." in words


# rows


def test_few_rows_are_all_stored():
    rows, weights = drawn_rows(np.array([0, 1, 0]), 3)
    assert rows.tolist() == [0, 1, 2]
    assert weights == (1.0, 1.0)


@pytest.mark.parametrize(("positives", "limit"), [(10, 100), (900, 100), (500, 100), (0, 50), (1000, 50)])
def test_drawn_rows_stand_for_all_rows_of_their_class(positives, limit):
    labels = np.random.default_rng(0).permutation(np.arange(1000) < positives).astype(int)
    rows, weights = drawn_rows(labels, limit)
    assert len(rows) <= limit
    assert len(set(rows.tolist())) == len(rows)
    counts = np.bincount(labels[rows], minlength=2) * np.array(weights)
    assert counts == pytest.approx(np.bincount(labels, minlength=2))
    if 0 < positives <= limit // 2:
        assert labels[rows].sum() == positives  # rare positives are never thrown away
    again, _ = drawn_rows(labels, limit)
    assert rows.tolist() == again.tolist()


def test_many_methods_share_the_room(made, monkeypatch):
    report = made(ratios=(8.0,), rows=400)
    whole = len(render_report(report).encode())
    monkeypatch.setattr(comparison, "PAGE_BYTES", whole - 20_000)
    smaller = render_report(report)
    assert len(smaller.encode()) <= whole - 20_000
    samples = payload(smaller)["views"][0]["samples"]
    assert all(sample["all"] == 2000 for sample in samples)
    assert all(sample["weights"] != [1.0, 1.0] for sample in samples)


# untrusted input' words


def test_hostile_names_stay_words(made):
    report = made(ratios=(8.0,), rows=40, seeds=2, data=(HOSTILE, "a", "b"), text=lambda value: value + HOSTILE)
    text = render_report(report)
    parsed = Parsed(text)
    assert not [tag for tag, _ in parsed.elements if tag in ("img", "b")]
    assert not [attrs for _, attrs in parsed.elements if "onerror" in attrs]
    assert text.count("<script") == 4
    assert text.lower().count("</script") == 4
    embedded = parsed.scripts["report-data"]
    assert not re.search("[<>&\u2028\u2029]", embedded)
    assert payload(text)["classes"] == ["benign" + HOSTILE, "malignant" + HOSTILE]


# writing


def test_report_is_written_into_new_folders(small, tmp_path):
    report = small
    path = write_report(report, tmp_path / "new" / "folder" / "report.html")
    assert path.read_text(encoding="utf-8") == render_report(report)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert path.stat().st_mode == plain.stat().st_mode
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]


def test_folder_is_no_place_for_a_report(small, tmp_path):
    with pytest.raises(IsADirectoryError, match=r"is a folder; name a file such as report\.html"):
        write_report(small, tmp_path)


@pytest.mark.parametrize(
    ("number", "kind", "words"),
    [(errno.EACCES, PermissionError, "Permission denied"), (errno.ENOSPC, OSError, "No space left on device")],
)
def test_failed_write_is_one_line_and_leaves_the_old_page(small, tmp_path, monkeypatch, number, kind, words):
    path = tmp_path / "report.html"
    path.write_text("old")

    def fail(handle):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(kind, match=rf"^cannot write the report .*report.html: {words}; free space or choose another"):
        write_report(small, path)
    assert [p.name for p in tmp_path.iterdir()] == ["report.html"]
    assert path.read_text() == "old"


def test_file_where_a_folder_should_be(small, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match=r"^cannot write the report"):
        write_report(small, tmp_path / "file" / "report.html")


def test_templates_are_part_of_the_package():
    hatchling = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed")
    builder = hatchling.WheelBuilder(str(ROOT))
    result = {file.distribution_path for file in builder.recurse_included_files()}
    assert {f"adacsl/report/templates/{name}" for name in ("page.html.j2", "page.css", "page.js")} <= result
