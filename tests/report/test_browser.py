"""The page in a real Chromium: its numbers are Python's, and nothing leaves it."""

import itertools
import math
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.intervals import Interval
from adacsl.report import explorer
from adacsl.report.apportionment import whole
from adacsl.report.data import Outcome, Saved
from adacsl.report.sections.sensitivity import with_ratio
from adacsl.thresholds.search import find_threshold
from tests.report.conftest import HOSTILE, MOVE, check_contrast, check_nothing_ran, check_width, luminance, until

VIEW = ("breast-cancer", 8.0)
FEW = ["net", "gbm-tuned", "adacsl-cv"]


def saved(report, view):
    """What is saved against net."""
    costs = report.summary_of(view).set_index("method")["cost"]
    each = costs["net"] - costs[report.recommended_of(view)]
    today = Interval(costs["net"], costs["net"] * 0.8, costs["net"] * 1.2)
    percent = Interval(*(100 * each * end / costs["net"] for end in (1, 0.5, 1.5)))
    return Saved(
        "deciding at 0.5", percent, Interval(each, each / 2, each * 1.5), today, report.outcomes[(*view, "net")]
    )


@pytest.fixture(scope="module")
def report(report):
    """The report with all that a comparison adds to it."""
    seen = [
        {"code": f"code-{kind}", "severity": kind, "text": "A finding. " * 9, "page": "https://a.b"}
        for kind in ("error", "warning", "info")
    ]
    lines = {"made for": "Deciding which patients are malignant. " * 4, "digest of the data": "0123456789abcdef" * 4}
    views = report.views
    return replace(
        report, savings={view: saved(report, view) for view in views}, volume=50_000, people="patients",
        checks={view[0]: seen for view in views}, model=dict.fromkeys(views, lines),
    )  # fmt: skip


@pytest.fixture(scope="module")
def page(opened, report):
    return opened(report)


@pytest.fixture(autouse=True)
def fresh(request):
    """Tests that share a page find it as it was opened."""
    if "page" in request.fixturenames:
        shared = request.getfixturevalue("page")
        shared.select_option("#choose-ratio", label="8")
        shared.click("#reset")


DRAWN = "[...document.querySelectorAll('.view:not([hidden]) .plot')].every(p => p.dataset.drawn === '{}')"


def shown_text(page, text):
    """Tell whether the visible view has a text."""
    return text in " ".join(page.locator(".view:visible").inner_text().split())


def shown(page, rule):
    """Read a row of the explorer's table, exactly."""
    script = """([rule]) => Object.fromEntries([...document.querySelectorAll(`[data-rule="${rule}"] [data-field]`)]
        .map(cell => [cell.dataset.field, cell.dataset.value]))"""
    values = page.evaluate(script, [rule])
    return {
        name: float("nan") if text in ("NaN", "null", "undefined") else float(text) for name, text in values.items()
    }


def matrix(page):
    script = """() => Object.fromEntries([...document.querySelectorAll('[data-cell]')]
        .map(cell => [cell.dataset.cell, [Number(cell.dataset.count), Number(cell.dataset.money)]]))"""
    return {name: tuple(values) for name, values in page.evaluate(script).items()}


def expected(outcome, costs, decisions, threshold):
    labels = outcome.labels
    return {
        "threshold": threshold,
        "mean": costs.mean(labels, decisions),
        "total": costs.total(labels, decisions) / outcome.repeats,
        "normalized": costs.normalized(labels, decisions),
        "savings": costs.savings(labels, decisions),
    }


def above(outcome, threshold):
    return (outcome.scores.astype(float) > threshold).astype(int)


def check(page, outcome, ratio, threshold):
    """Compare everything the explorer shows with what Python computes; None is what the method did."""
    costs = with_ratio(outcome, ratio)
    best = find_threshold(outcome.scores, outcome.labels, costs)
    ran = outcome.decisions, math.nan if outcome.threshold is None else outcome.threshold
    decided = {
        "yours": ran if threshold is None else (above(outcome, threshold), threshold),
        "cheapest": (above(outcome, best.value), best.value),
        "decided": ran,
        "trusted": (costs.decide(outcome.scores), math.nan if outcome.own_costs else costs.threshold),
    }
    for rule, (decisions, at) in decided.items():
        assert shown(page, rule) == pytest.approx(expected(outcome, costs, decisions, at), rel=1e-12, nan_ok=True), rule
    assert shown(page, "cheapest")["threshold"] == best.value  # to the last bit
    assert shown(page, "cheapest")["total"] == pytest.approx(best.total_cost / outcome.repeats, rel=1e-12)
    decisions = decided["yours"][0]
    incurred = costs.incurred(outcome.labels, decisions)
    for name, actual, called in (("tp", 1, 1), ("fn", 1, 0), ("fp", 0, 1), ("tn", 0, 0)):
        here = (outcome.labels == actual) & (decisions == called)
        money = pytest.approx(incurred[here].sum() / outcome.repeats, rel=1e-12)
        assert matrix(page)[name] == (here.sum() / outcome.repeats, money), name


# numbers


def test_page_opens_with_the_recommended_method_as_it_decided(page, report):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    check(page, outcome, 8.0, outcome.threshold)


@pytest.mark.parametrize(
    ("ratio", "threshold"), [(8, 0.5), (0.25, 0.9), (100, 0.01), (3.7, 0.123456), (1e6, 0), (1, 1)]
)
def test_typed_ratio_and_threshold_give_pythons_numbers(page, report, ratio, threshold):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    page.fill("#ratio-text", str(ratio))
    page.fill("#threshold-text", str(threshold))
    check(page, outcome, float(ratio), float(threshold))


def choose(page, method):
    labels = page.locator("#method option").all_text_contents()
    page.select_option("#method", label=next(text for text in labels if text.startswith(f"{method}:")))


def test_every_method_can_be_chosen(page, report):
    for name, outcome in report.outcomes_of(VIEW).items():
        choose(page, name)
        check(page, outcome, 8.0, outcome.threshold)


def test_another_method_leaves_the_costs_where_they_are(page, report):
    page.fill("#ratio-text", "3")
    choose(page, "net")
    check(page, report.outcomes[(*VIEW, "net")], 3.0, 0.5)
    assert float(page.input_value("#ratio-text")) == 3


def test_back_to_what_was_run_is_no_threshold_of_hindsight(page, report):
    """Each split tuned a threshold of its own: no single one stands for what was run."""
    outcome = report.outcomes[(*VIEW, "net-tuned")]
    assert outcome.threshold is None
    choose(page, "net-tuned")
    page.fill("#ratio-text", "3")
    page.fill("#threshold-text", "0.9")
    page.click("#reset")
    check(page, outcome, 8.0, None)
    assert page.input_value("#threshold-text") == ""
    assert page.get_attribute("#threshold", "aria-valuetext") == "as the method predicted"
    until(
        page,
        "document.querySelector('#explorer-summary').textContent.startsWith('As net-tuned predicted, the mean cost "
        "is')",
    )
    until(page, "document.querySelector('#explorer-plot').data[1].name === 'as predicted'")
    mean = outcome.costs.mean(outcome.labels, outcome.decisions)
    assert page.evaluate("[...document.querySelector('#explorer-plot').data[1].y]") == [pytest.approx(mean)] * 2
    page.focus("#threshold")
    page.keyboard.press("ArrowRight")  # from the cheapest one, where the slider waits
    check(page, outcome, 8.0, float(page.input_value("#threshold")))


def test_sliders_move_the_numbers(page, report):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    for position in (-0.5, 0.3, 1.77):
        at = page.evaluate(MOVE, ["ratio", position])
        ratio = float(f"{10**at:.3g}")
        assert float(page.input_value("#ratio-text")) == ratio
        check(page, outcome, ratio, outcome.threshold)
    for position in (0.0, 0.25, 0.731, 1.0):
        at = page.evaluate(MOVE, ["threshold", position])
        check(page, outcome, ratio, at)


def test_keyboard_moves_the_sliders_and_a_screen_reader_hears_it(page, report):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    page.focus("#threshold")
    before = shown(page, "yours")["threshold"]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    after = shown(page, "yours")["threshold"]
    assert after == pytest.approx(before + 0.002, abs=0.001)
    assert page.get_attribute("#threshold", "aria-valuetext") == f"{after:.4g}"
    page.keyboard.press("Home")
    check(page, outcome, 8.0, 0.0)
    page.focus("#ratio")
    page.keyboard.press("ArrowLeft")
    assert float(page.input_value("#ratio-text")) < 8
    assert page.get_attribute("#ratio", "aria-valuetext").endswith("to 1")
    page.keyboard.press("End")
    ratio = float(page.input_value("#ratio-text"))
    check(page, outcome, ratio, 0.0)
    until(page, "document.querySelector('#explorer-summary').textContent.includes('At threshold 0, ')")
    assert page.get_attribute("#explorer-summary", "aria-live") == "polite"


def test_recommended_threshold_is_one_click_away(page, report):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    page.fill("#ratio-text", "20")
    page.click("#use-cheapest")
    best = find_threshold(outcome.scores, outcome.labels, with_ratio(outcome, 20.0))
    check(page, outcome, 20.0, best.value)
    until(page, "document.querySelector('#explorer-summary').textContent.includes('No single threshold costs less')")


def test_nonsense_is_not_computed_with(page):
    before = shown(page, "yours")
    for field, text in (("#ratio-text", "-3"), ("#ratio-text", ""), ("#threshold-text", "1.5"), ("#ratio-text", "0")):
        page.fill(field, text)
        assert page.get_attribute(field, "aria-invalid") == "true"
        assert shown(page, "yours") == before
        page.press(field, "Tab")
        assert page.get_attribute(field, "aria-invalid") is None
        assert float(page.input_value(field)) > 0  # what is computed with stands there again


def test_curve_is_redrawn_with_both_points(page, report):
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    page.fill("#ratio-text", "2")
    page.fill("#threshold-text", "0.6")
    costs = with_ratio(outcome, 2.0)
    mean = costs.mean(outcome.labels, above(outcome, 0.6))
    until(page, "Math.abs(document.querySelector('#explorer-plot').data[1].x[0] - 0.6) < 1e-9")
    until(page, f"Math.abs(document.querySelector('#explorer-plot').data[1].y[0] - {mean}) < 1e-9")
    drawn = page.evaluate("document.querySelector('#explorer-plot').data.map(t => [Array.from(t.x), Array.from(t.y)])")
    best = find_threshold(outcome.scores, outcome.labels, costs)
    assert drawn[2] == [[best.value], [pytest.approx(best.cost)]]
    for x, y in list(zip(*drawn[0], strict=True))[1::97]:
        assert y == pytest.approx(costs.mean(outcome.labels, above(outcome, x)))


def test_rows_with_costs_of_their_own(opened, made):
    report = made(own_costs=True, rows=120, ratios=(8.0,), methods=FEW)
    page = opened(report, "own")
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    assert page.text_content("#ratio-label") == "Cost ratio, times"
    check(page, outcome, 1.0, None)  # as it was run, not with hindsight
    page.fill("#ratio-text", "2.5")
    page.fill("#threshold-text", "0.3")
    check(page, outcome, 2.5, 0.3)
    assert page.log == [("request", page.address)]


def test_ties_are_cut_as_python_cuts_them(opened, made):
    report = made(decimals=1, ratios=(8.0,), rows=60, methods=FEW)
    page = opened(report, "ties")
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    for ratio in (0.5, 1, 4, 9, 99):
        page.fill("#ratio-text", str(ratio))
        for threshold in (0, 0.1, 0.3, 0.5):
            page.fill("#threshold-text", str(threshold))
            check(page, outcome, float(ratio), threshold)


def random_case(rng):
    n = int(rng.integers(1, 40))
    kind = ("f4", "f8")[rng.integers(2)]
    scores = rng.integers(0, 11, n) / 10 if rng.random() < 0.6 else rng.random(n)
    labels = (rng.random(n) < rng.choice([0.0, 0.1, 0.5, 1.0], p=[0.05, 0.3, 0.6, 0.05])).astype(int)
    size = float(10.0 ** rng.integers(-9, 10))
    tp, tn = (0.0, 0.0) if rng.random() < 0.5 else (-0.5 * size, 0.25 * size)
    fp, fn = tn + size, tp + size * float(rng.choice([0.1, 1.0, 8.0]))
    if rng.random() < 0.5:
        fn = tp + (fn - tp) * rng.integers(0, 4, n) + 0.0
        fn[0] = tp + size
    return {"kind": kind, "scores": scores.astype(kind), "labels": labels, "fp": fp, "fn": fn, "tp": tp, "tn": tn}


def test_arithmetic_of_the_page_is_that_of_the_core(page):
    """300 random cases: ties, scores of 0 and 1, one class, benefits, per-sample costs, costs from 1e-9 to 1e9."""
    rng = np.random.default_rng(1)
    cases = [random_case(rng) for _ in range(300)]
    # 0.1 + 0.2 and 0.3 are not the same number, but the same cost: the cut nearest 0.5 is taken
    prices = {"fp": 0.3, "fn": np.array([0.1, 0.2, 9.0, 9.0]), "tp": 0.0, "tn": 0.0}
    cases.append({"kind": "f8", "scores": np.array([0.2, 0.4, 0.7, 0.9]), "labels": np.array([1, 1, 0, 1]), **prices})
    script = """cases => cases.map(({kind, scores, labels, decisions, costs, ownCosts, threshold, weights}) => {
        const kinds = {f4: Float32Array, f8: Float64Array};
        const price = value => typeof value === 'number' ? value : Float64Array.from(value);
        const sample = adacsl.prepare({kind, scores: kinds[kind].from(scores), labels, decisions, ownCosts, weights,
            costs: Object.fromEntries(Object.entries(costs).map(([name, value]) => [name, price(value)]))});
        const {chosen, cheapest, best} = adacsl.explore(sample, ownCosts ? 1 : null, threshold);
        const {total, normalized, savings} = chosen;
        return {...cheapest, total, normalized, savings, best: best.total};
    })"""
    asked, answers = [], []
    for case in cases:
        prices = {name: case[name] for name in ("fp", "fn", "tp", "tn")}
        own = not isinstance(case["fn"], float)
        threshold = float(rng.integers(0, 11) / 10)
        costs = CostMatrix(**prices)
        weights = [1.0, 1.0] if rng.random() < 0.7 or case is cases[-1] else [3.5, 1.25]
        weight = np.asarray(weights)[case["labels"]]
        decisions = (case["scores"].astype(float) > threshold).astype(int)
        best = find_threshold(case["scores"], case["labels"], costs, sample_weight=weight)

        def tried(measure, labels=case["labels"], decisions=decisions, weight=weight):
            try:
                return measure(labels, decisions, sample_weight=weight)
            except ValueError:  # undefined: the page shows a dash
                return None

        answers.append(
            (
                best,
                costs.total(case["labels"], decisions, sample_weight=weight),
                tried(costs.normalized),
                tried(costs.savings),
            )
        )
        asked.append({
            "kind": case["kind"], "scores": case["scores"].astype(float).tolist(), "labels": case["labels"].tolist(),
            "decisions": decisions.tolist(), "ownCosts": own, "threshold": threshold, "weights": weights,
            "costs": {name: value if isinstance(value, float) else value.tolist() for name, value in prices.items()},
        })  # fmt: skip
    # class-wide costs are taken as they are: give the ratio that leads to them
    script = script.replace("ownCosts ? 1 : null", "ownCosts ? 1 : (costs.fn - costs.tp) / (costs.fp - costs.tn)")
    close = {"rel": 1e-11, "abs": 1e-22}
    for got, (best, total, normalized, savings) in zip(page.evaluate(script, asked), answers, strict=True):
        assert got["value"] == best.value
        assert (got["low"], got["high"]) == (best.low, best.high)
        assert got["cost"] == pytest.approx(best.total_cost, **close)
        assert got["best"] == pytest.approx(best.total_cost, **close)
        assert got["total"] == pytest.approx(total, **close)
        for name, value in (("normalized", normalized), ("savings", savings)):
            undefined = got[name] is None or math.isnan(got[name])
            assert undefined if value is None else got[name] == pytest.approx(value, rel=1e-9, abs=1e-12)


def test_page_counts_whole_people_as_python_does(page):
    rng = np.random.default_rng(2)
    cases = [(rng.integers(0, 40, rng.integers(2, 6)) / rng.integers(1, 4), int(rng.integers(2))) for _ in range(200)]
    cases = [(amounts + (round(amounts.sum()) - amounts.sum()) / len(amounts), last) for amounts, last in cases]
    cases = [(amounts.clip(0), last) for amounts, last in cases]
    script = "cases => cases.map(([amounts, last]) => adacsl.whole(amounts, last))"
    result = page.evaluate(script, [[amounts.tolist(), last] for amounts, last in cases])
    for got, (amounts, last) in zip(result, cases, strict=True):
        assert got == whole(amounts, round(amounts.sum()), last=last).tolist()


def test_subsample_is_weighted_back_and_reported_to_be_one(opened, made, monkeypatch):
    monkeypatch.setattr(explorer, "EMBEDDED_SAMPLES", 300)
    report = made(ratios=(8.0,), methods=FEW)
    page = opened(report, "sample")
    outcome = report.outcomes[(*VIEW, report.recommended_of(VIEW))]
    assert "300 of 1,200 test samples" in page.text_content("#sample-note")
    assert page.is_visible("#sample-note")
    rows, weights = explorer.drawn_rows(outcome.labels, 300)
    weight = np.asarray(weights)[outcome.labels[rows]]
    best = find_threshold(outcome.scores[rows], outcome.labels[rows], outcome.costs, sample_weight=weight)
    assert shown(page, "cheapest")["threshold"] == best.value
    assert shown(page, "cheapest")["total"] == pytest.approx(best.total_cost)
    decisions = above(outcome, outcome.threshold)[rows]
    assert shown(page, "yours")["mean"] == pytest.approx(
        outcome.costs.mean(outcome.labels[rows], decisions, sample_weight=weight)
    )
    assert sum(count for count, _ in matrix(page).values()) == pytest.approx(outcome.n)


# views


def test_another_ratio_is_another_view(page, report):
    page.select_option("#choose-ratio", label="32")
    assert page.locator(".view:visible").count() == 1
    assert shown_text(page, report.recommendations[("breast-cancer", 32.0)])
    outcome = report.outcomes[("breast-cancer", 32.0, report.recommended_of(("breast-cancer", 32.0)))]
    check(page, outcome, 32.0, outcome.threshold)
    until(page, DRAWN.format("light"))


@pytest.mark.weekly
def test_many_data_sets_have_a_chooser(opened, made):
    report = made(data=("alpha", "beta", "gamma"), ratios=(2.0, 8.0), rows=60, methods=FEW)
    page = opened(report, "many")
    page.select_option("#choose-ratio", label="2")
    page.select_option("#choose-data", label="gamma")
    assert shown_text(page, report.recommendations[("gamma", 2.0)])  # the ratio stays
    assert page.log == [("request", page.address)]


# safety


def test_nothing_is_reported_to_the_console_and_nothing_leaves_the_page(page):
    until(page, "document.querySelectorAll('.view:not([hidden]) .plot .main-svg').length > 10")
    assert page.log == [("request", page.address)]


def test_hostile_words_do_nothing(opened, made):
    report = made(
        data=(HOSTILE, "b", "c"), ratios=(8.0,), rows=60, seeds=2, methods=FEW, text=lambda value: value + HOSTILE
    )
    page = opened(report, "hostile")
    for place in page.locator(".plot:visible").all()[:3]:
        place.hover()
    page.fill("#ratio-text", "3")
    page.wait_for_timeout(300)
    check_nothing_ran(page)
    assert HOSTILE in page.text_content("h1")
    assert HOSTILE in page.locator("#method option").first.text_content()
    assert "onerror" in page.locator(".plot:visible .ytick text").first.text_content()


# surroundings


@pytest.fixture(scope="module")
def phone(opened, report):
    size = {"width": 320, "height": 700}
    return opened(report, viewport=size, has_touch=True, is_mobile=True, reduced_motion="reduce")


@pytest.mark.parametrize("width", [320, 390])
def test_phone_shows_the_page_without_scrolling_sideways(phone, width):
    phone.set_viewport_size({"width": width, "height": 700})
    until(phone, f"document.querySelector('.plot .main-svg').clientWidth <= {width}")
    check_width(phone, width)


def test_calm_readers_get_no_movement(phone, page):
    moving = (
        "[...document.querySelectorAll('main *')].filter(e => getComputedStyle(e).transitionDuration !== '0s').length"
    )
    assert phone.evaluate(moving) == 0
    assert page.evaluate(moving) > 0


@pytest.fixture(scope="module")
def dark_page(opened, report):
    return opened(report, color_scheme="dark")


def test_dark_surroundings_make_a_dark_page_and_dark_plots(dark_page):
    page = dark_page
    background = "getComputedStyle(document.body).backgroundColor"
    paper = "document.querySelector('.view:not([hidden]) .plot .main-svg').style.background"
    assert luminance(page.evaluate(background)) < 0.05
    assert luminance(page.evaluate(paper)) < 0.05
    page.emulate_media(color_scheme="light")
    until(page, DRAWN.format("light"))
    assert luminance(page.evaluate(background)) > 0.8
    assert luminance(page.evaluate(paper)) > 0.8
    page.emulate_media(color_scheme="dark")
    until(page, DRAWN.format("dark"))


@pytest.mark.parametrize("scheme", ["page", "dark_page"])
def test_text_stands_out_from_its_background(request, scheme):
    check_contrast(request.getfixturevalue(scheme), "body *")


def test_print_is_light_and_has_no_sliders(opened, report):
    page = opened(report, color_scheme="dark", folded=True)
    page.emulate_media(media="print")
    until(page, DRAWN.format("light"))
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    for hidden in (".controls", ".chooser", "#use-cheapest"):
        assert not page.is_visible(hidden), hidden
    pdf = page.pdf(format="A4", print_background=True)
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 10


def test_first_printed_page_has_the_summary_and_many_methods_fit(opened, report):
    rows = report.summary[report.summary["method"] == "net-weighted"]
    more = pd.concat([report.summary, *(rows.assign(method=f"method-{i}") for i in range(14))], ignore_index=True)
    size = {"width": 688, "height": 1017}  # A4 less margins
    page = opened(replace(report, summary=more), "print", folded=True, viewport=size)
    assert page.locator("details:not([open])").count() > 5
    page.emulate_media(media="print")
    until(page, "document.querySelector('.view:not([hidden]) .plot .main-svg').clientHeight <= 460")
    until(page, DRAWN.format("light"))  # also of what was folded
    assert page.locator("details.part:not([open])").count() == 0
    box = "document.querySelector('.view:not([hidden]) {}').getBoundingClientRect()"
    assert 400 < page.evaluate(box.format(".summary") + ".bottom") < 940  # of US letter too
    before, after = page.evaluate(
        "[...document.querySelectorAll('.view:not([hidden]) [id*=-people-]')].map(c => c.getBoundingClientRect().top)"
    )
    assert before == after  # side by side
    assert page.evaluate("document.documentElement.scrollWidth") <= 688  # what is wider makes everything small
    names = page.locator(".view:visible .plot >> nth=0 >> .ytick text").all_text_contents()
    assert len(names) == 22  # none is left out for want of room
    assert page.evaluate("getComputedStyle(document.querySelector('.whole')).breakInside") == "avoid"
    page.emulate_media(media="screen")
    until(page, "document.querySelectorAll('details:not([open])').length > 5")


def test_the_summary_fills_a_screen_and_details_open_and_draw(opened, report):
    page = opened(report, "folded", folded=True)
    words = len(page.inner_text("main").split())
    assert 100 < words <= 1200
    assert page.evaluate("document.querySelector('.view:not([hidden]) .summary').getBoundingClientRect().bottom") < 950
    assert page.locator(".plot[data-drawn]").count() == 1
    errors = page.locator(".view:visible details[id$='-probabilities']")
    assert not errors.locator(".plot").first.is_visible()
    errors.locator("> summary").click()
    until(page, "document.querySelectorAll('.view:not([hidden]) [id$=-probabilities] .plot[data-drawn]').length === 3")
    page.click(".view:visible .notice a")
    assert page.locator(".view:visible details[id$='-data'][open]").count() == 1
    page.set_viewport_size({"width": 700, "height": 900})
    until(page, "document.querySelector('.view:not([hidden]) .plot .main-svg').clientWidth < 700")
    assert page.log == [("request", page.address)]


def test_page_can_be_read_without_scripts(opened, report):
    page = opened(report, java_script_enabled=False)
    text = page.inner_text("main")
    words = " ".join(text.split())
    for view in report.views:
        assert report.recommendations[view] in words
    assert "Scripts are off" in text
    assert not page.is_visible("#explorer")
    assert page.locator("table:visible").count() == len(report.views)  # the costs of each view
    page.locator("#view-0-errors > summary").click()  # the browser opens details without scripts
    assert page.locator("#view-0-errors table:visible").count() == 3


# for screen readers


def test_every_field_has_a_label_and_every_figure_words(page):
    assert page.evaluate("""() => [...document.querySelectorAll('input, select, button, output')]
        .filter(e => !e.labels?.length && !e.getAttribute('aria-labelledby') && !e.textContent.trim()
            && e.id !== 'explorer-summary').map(e => e.id)""") == []  # fmt: skip
    assert page.evaluate("[...document.querySelectorAll('figure')].filter(f => !f.ariaLabel).length") == 0
    assert (
        page.evaluate("[...document.querySelectorAll('.plot')].filter(f => !f.ariaLabel || f.role !== 'img').length")
        == 0
    )
    assert (
        page.evaluate("[...document.querySelectorAll('.scroll')].filter(f => !f.ariaLabel || f.tabIndex !== 0).length")
        == 0
    )
    assert page.evaluate("[...document.querySelectorAll('th')].filter(t => !t.scope).length") == 0


def test_headings_are_in_order_and_landmarks_are_there(page):
    levels = page.evaluate("""() => [...document.querySelectorAll('h1, h2, h3, h4, h5')]
        .filter(h => h.checkVisibility()).map(h => Number(h.tagName[1]))""")
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    for landmark in ("header", "main", "footer", "section[aria-label]"):
        assert page.locator(landmark).count() >= 1
    assert page.get_attribute("html", "lang") == "en"


def test_focus_can_be_seen(page):
    for field in ("#method", "#ratio", "#threshold-text", "#use-cheapest"):
        page.focus(field)
        page.keyboard.press("Shift")  # the keyboard is in use: focus shows
        assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none", field


def test_outcome_in_double_precision_is_embedded_as_such_and_counted_per_repeat(opened, made):
    report = made(ratios=(8.0,), rows=40, seeds=2, methods=FEW)
    prices = {"fp": 2.0, "fn": 16.0, "tp": -1.0, "tn": 0.5}
    outcomes = {
        key: Outcome(np.linspace(0, 1, o.n) ** 2, o.labels, o.decisions, o.seeds, **prices, repeats=2)
        for key, o in report.outcomes.items()
    }
    report = made(ratios=(8.0,), rows=40, seeds=2, methods=FEW, outcomes=outcomes)
    page = opened(report, "double")
    outcome = outcomes[(*VIEW, report.recommended_of(VIEW))]
    check(page, outcome, outcome.costs.ratio, None)
    page.fill("#threshold-text", "0.25")
    page.fill("#ratio-text", "4")
    check(page, outcome, 4.0, 0.25)
    cases = sum(float(text.removesuffix(" samples")) for text in page.locator("[data-cell] .count").all_text_contents())
    assert cases == 40
    until(page, "document.querySelector('#explorer-plot').data[1].x[0] === 0.25")
    costs = with_ratio(outcome, 4.0)
    first = page.evaluate("document.querySelector('#explorer-plot').data[0].y[0]")  # everything is positive
    assert first == pytest.approx(costs.mean(outcome.labels, np.ones_like(outcome.labels)))
