"""The page of more than two classes in a real Chromium: its numbers are Python's, and nothing leaves it."""

import re

import numpy as np
import pytest

from adacsl.costs.matrix import CostMatrix
from adacsl.report import explorer
from adacsl.report.explorer import class_rows, rule_of
from adacsl.report.sections.multiclass import confusion_cells
from tests.report.conftest import HOSTILE, MOVE, check_contrast, check_nothing_ran, check_width, until

VIEW = ("lesions", 1.0)


@pytest.fixture(scope="module")
def report(made_classes):
    return made_classes.made_class_report(repeats=3)


@pytest.fixture(scope="module")
def page(opened, report):
    return opened(report)


@pytest.fixture(autouse=True)
def fresh(request):
    """Tests that share a page find it as it was opened."""
    if "page" in request.fixturenames:
        request.getfixturevalue("page").click("#class-reset")


def choose(page, decided, actual, price=None):
    page.select_option("#class-decided", str(decided))
    page.select_option("#class-actual", str(actual))
    if price is not None:
        page.fill("#class-price-text", str(price))


def shown(page):
    """Read the table of methods, exactly and in its order."""
    rows = page.evaluate("""() => [...document.querySelectorAll('#class-methods tbody tr')].map(row =>
        [row.dataset.method, Object.fromEntries([...row.querySelectorAll('[data-field]')]
            .map(cell => [cell.dataset.field, Number(cell.dataset.value)]))])""")  # fmt: skip
    return dict(rows)


def heat(page, k):
    """Read the live confusion matrix, decided x actual: counts and money."""
    result = np.full((2, k, k), np.nan)
    names = ["decided", "actual", "count", "money"]
    cells = """names => [...document.querySelectorAll('#class-heat td[data-decided]')]
        .map(cell => names.map(name => Number(cell.dataset[name])))"""
    for i, j, count, money in page.evaluate(cells, names):
        result[:, int(i), int(j)] = count, money
    return result


def redecided(outcome, costs):
    return costs.decide(outcome.scores.astype(float)) if rule_of(outcome) == "cheapest" else outcome.decisions


def check(page, report, matrix, method=None):
    """Compare everything the explorer shows with what Python computes at these costs."""
    costs = CostMatrix.from_array(matrix, rows="predicted")
    outcomes, result = report.outcomes_of(VIEW), shown(page)
    assert set(result) == set(outcomes)
    means = [row["mean"] for row in result.values()]
    assert means == sorted(means)
    assert [row["rank"] for row in result.values()] == list(range(1, len(result) + 1))
    for name, outcome in outcomes.items():
        decided = redecided(outcome, costs)
        expected = {
            "mean": costs.mean(outcome.labels, decided),
            "before": outcome.costs.mean(outcome.labels, outcome.decisions),
            "normalized": costs.normalized(outcome.labels, decided),
            "savings": costs.savings(outcome.labels, decided),
            "changed": int((decided != outcome.decisions).sum()) / outcome.repeats,
        }
        assert {key: result[name][key] for key in expected} == pytest.approx(expected, rel=1e-10), name
    method = method or report.recommended_of(VIEW)
    outcome, k = outcomes[method], len(matrix)
    decided = redecided(outcome, costs)
    counts = np.zeros((k, k))
    np.add.at(counts, (decided, outcome.labels), 1)
    live = heat(page, k)
    assert np.allclose(live[0], counts / outcome.repeats)
    assert np.allclose(live[1], costs.confusion(outcome.labels, decided) / outcome.repeats)


# numbers


def test_explorer_starts_with_what_was_run_and_the_costliest_error(page, report):
    matrix = report.outcomes[(*VIEW, "net")].costs.to_array()
    check(page, report, matrix)
    page.reload()
    page.wait_for_selector("html[data-ready]", state="attached")
    page.evaluate("document.querySelectorAll('details').forEach((part) => (part.open = true))")
    name = report.recommended_of(VIEW)
    cells = confusion_cells(report.outcomes[(*VIEW, name)]).query("actual != decided")
    first = cells.loc[cells["total_cost"].idxmax()]
    assert int(page.input_value("#class-decided")) == first["decided"]
    assert int(page.input_value("#class-actual")) == first["actual"]
    assert float(page.input_value("#class-price-text")) == pytest.approx(
        matrix[int(first["decided"]), int(first["actual"])]
    )
    assert page.locator("#class-heat td.chosen").count() == 1


def test_every_cost_moves_every_method(page, report):
    matrix = report.outcomes[(*VIEW, "net")].costs.to_array()
    for decided, actual, price in ((1, 0, 40), (5, 4, 0), (4, 5, 0.001), (2, 6, 7.25)):
        choose(page, decided, actual, price)
        matrix[decided, actual] = price
        check(page, report, matrix)
    page.select_option("#class-method", "net-bayes")
    check(page, report, matrix, "net-bayes")
    until(page, "document.querySelector('#class-summary').textContent.includes(' of 200 predictions.')")
    page.select_option("#class-method", "net")
    until(page, "document.querySelector('#class-summary').textContent.includes('net ignores the costs')")
    page.select_option("#class-method", report.recommended_of(VIEW))
    page.click("#class-reset")
    check(page, report, report.outcomes[(*VIEW, "net")].costs.to_array())


def test_slider_and_keyboard_set_the_cost(page, report):
    matrix = report.outcomes[(*VIEW, "net")].costs.to_array()
    scale = matrix[matrix > 0].mean()
    choose(page, 0, 4)
    for position in (-1.5, 0.3, 2.0):
        at = page.evaluate(MOVE, ["class-price", position])
        matrix[0, 4] = float(f"{scale * 10**at:.3g}")
        assert float(page.input_value("#class-price-text")) == pytest.approx(matrix[0, 4], rel=1e-5)
        check(page, report, matrix)
    page.focus("#class-price")
    page.keyboard.press("Home")
    matrix[0, 4] = 0.0
    check(page, report, matrix)
    page.keyboard.press("End")
    assert float(page.get_attribute("#class-price", "aria-valuetext").replace(",", "")) == pytest.approx(
        scale * 1000, rel=0.01
    )
    assert page.get_attribute("#class-summary", "aria-live") == "polite"


def test_a_cell_is_chosen_by_a_click_and_shows_what_it_is(page, report):
    page.click("#class-heat td[data-decided='3'][data-actual='6']")
    assert page.input_value("#class-decided") == "3"
    assert page.input_value("#class-actual") == "6"
    card = page.locator(".has-heat")
    card.locator("td[data-decided='4'][data-actual='0']").hover()
    assert card.locator(".heat-say").text_content().startswith("actual akiec, predicted mel: ")


def test_an_error_never_costs_less_than_a_correct_prediction(opened, made_classes):
    matrix = made_classes.made_prices(3) + 2.0
    np.fill_diagonal(matrix, 1.0)
    report = made_classes.made_class_report(names="abc", matrix=matrix, rows=80)
    page = opened(report, "priced")
    choose(page, 0, 1)
    for text in ("0.5", "-3", ""):
        page.fill("#class-price-text", text)
        assert page.get_attribute("#class-price-text", "aria-invalid") == "true"
        check(page, report, matrix)
    page.press("#class-price-text", "Tab")
    assert page.get_attribute("#class-price-text", "aria-invalid") is None
    page.evaluate(MOVE, ["class-price", -3])
    matrix[0, 1] = 1.0  # as costly as being right
    check(page, report, matrix)
    choose(page, 2, 2, -4)
    matrix[2, 2] = -4.0
    check(page, report, matrix)
    page.evaluate(MOVE, ["class-price", 3])
    matrix[2, 2] = min(matrix[0, 2], matrix[1, 2])
    check(page, report, matrix)


def test_arithmetic_of_the_page_is_that_of_the_core(page):
    """200 random cases: ties, benefits, absent classes, weights."""
    rng = np.random.default_rng(3)
    asked, answers = [], []
    for _ in range(200):
        k, n = int(rng.integers(3, 9)), int(rng.integers(1, 40))
        matrix = rng.integers(1, 5, (k, k)) * float(10.0 ** rng.integers(-6, 7))
        np.fill_diagonal(matrix, rng.choice([0.0, matrix.min() / 2, -matrix.max()]))
        scores = rng.integers(0, 4, (n, k)) + 0.25 if rng.random() < 0.5 else rng.random((n, k))
        scores = (scores / scores.sum(axis=1, keepdims=True)).astype(np.float32)
        labels, weights = rng.integers(0, k, n), rng.choice([[1.0] * k, rng.uniform(1, 9, k)])
        costs, weight = CostMatrix.from_array(matrix, rows="predicted"), np.asarray(weights)[labels]
        decided = costs.decide(scores.astype(float))

        def tried(measure, labels=labels, decided=decided, weight=weight):
            try:
                return measure(labels, decided, sample_weight=weight)
            except ValueError:  # undefined: the page shows a dash
                return None

        answers.append((decided, tried(costs.mean), tried(costs.normalized), tried(costs.savings)))
        asked.append({"n": n, "scores": scores.ravel().tolist(), "labels": labels.tolist(), "rule": "cheapest",
                      "weights": list(weights), "decisions": [0] * n, "matrix": matrix.tolist()})  # fmt: skip
    script = """cases => cases.map(({matrix, ...sample}) => {
        const called = adacslClasses.decide(sample, matrix);
        const {mean, normalized, savings} = adacslClasses.evaluate(sample, matrix, called);
        return {called: [...called], mean, normalized, savings};
    })"""
    for got, (decided, mean, normalized, savings) in zip(page.evaluate(script, asked), answers, strict=True):
        assert got["called"] == decided.tolist()
        assert got["mean"] == pytest.approx(mean, rel=1e-10, abs=1e-12)
        for name, value in (("normalized", normalized), ("savings", savings)):
            undefined = got[name] is None or np.isnan(got[name])
            assert undefined if value is None else got[name] == pytest.approx(value, rel=1e-8, abs=1e-10)


def test_subsample_is_weighted_back_and_reported_to_be_one(opened, made_classes, monkeypatch):
    monkeypatch.setattr(explorer, "EMBEDDED_SAMPLES", 150)
    report = made_classes.made_class_report()
    page = opened(report, "sample")
    assert "150 of 600 test samples" in page.text_content("#class-sample-note")
    outcome = report.outcomes[(*VIEW, "net-weighted")]
    rows, weights = class_rows(outcome.labels, 7, 150)
    weight = np.asarray(weights)[outcome.labels[rows]]
    mean = outcome.costs.mean(outcome.labels[rows], outcome.decisions[rows], sample_weight=weight)
    assert shown(page)["net-weighted"]["mean"] == pytest.approx(mean)
    assert heat(page, 7)[0].sum() == pytest.approx(outcome.n)


def test_two_and_more_classes_have_an_explorer_each(opened, made, made_classes):
    import pandas as pd

    few = ["net", "net-weighted"]
    many = made_classes.made_class_report(methods={name: made_classes.METHODS[name] for name in few})
    two = made(ratios=(8.0,), methods=few, seeds=3)
    names = ("recommendations", "outcomes", "histories", "recommended")
    joined = {name: getattr(two, name) | getattr(many, name) for name in names}
    joined |= {name: pd.concat([getattr(two, name), getattr(many, name)]) for name in ("results", "summary")}
    page = opened(made(ratios=(8.0,), methods=few, seeds=3, **joined), "both")
    assert page.is_visible("#explorer")
    assert not page.is_visible("#class-explorer")
    page.select_option("#choose-data", label="lesions")
    assert page.locator("#choose-ratio option").all_text_contents() == ["as given"]
    assert not page.is_visible("#explorer")
    check(page, many, many.outcomes[(*VIEW, "net")].costs.to_array())
    page.select_option("#choose-data", label="breast-cancer")
    assert page.is_visible("#explorer")
    assert page.log == [("request", page.address)]


# safety and surroundings


def test_nothing_is_reported_to_the_console_and_nothing_leaves_the_page(page):
    until(page, "document.querySelectorAll('.view:not([hidden]) .plot .main-svg').length > 3")
    assert set(page.log) == {("request", page.address)}


def test_hostile_names_do_nothing(opened, made_classes):
    page = opened(made_classes.made_class_report(text=lambda value: value + HOSTILE, rows=60), "hostile")
    page.fill("#class-price-text", "9")
    page.click("#class-heat td[data-decided='0'][data-actual='2']")
    page.locator(".has-heat td[data-decided='1'][data-actual='0']").hover()
    for place in page.locator(".plot:visible").all()[:3]:
        place.hover()
    until(page, "document.querySelector('#class-summary').textContent.includes('onerror')")
    check_nothing_ran(page)
    assert HOSTILE in page.locator("#class-actual option").first.text_content()
    assert HOSTILE in page.locator(".heat-say").first.text_content()


@pytest.mark.parametrize(("kind", "widths"), [("few", [320]), ("some", [400]), ("most", [320, 1280])])
def test_no_width_scrolls_sideways(opened, made_classes, report, kind, widths):
    names = (
        [f"Tomato___with_disease_number_{j}" for j in range(38)] if kind == "most" else [f"class_{j}" for j in "012"]
    )
    methods = {name: made_classes.METHODS[name] for name in ("net", "adacsl-cv")}
    shown = made_classes.made_class_report(names=names, rows=400, seeds=2, methods=methods)
    page = opened(report if kind == "some" else shown, f"wide-{kind}", viewport={"width": widths[0], "height": 800})
    for width in widths:
        page.set_viewport_size({"width": width, "height": 800})
        check_width(page, width)
        clipped = "e => e.checkVisibility() && e.scrollWidth > e.clientWidth + 1"
        texts = f"[...document.querySelectorAll('.heat td:not(.none) span')].filter({clipped}).map(e => e.textContent)"
        assert page.evaluate(texts) == []  # what stands in a cell can be read


def test_text_stands_out_from_its_cell(opened, report):
    page = opened(report, reduced_motion="reduce")
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        check_contrast(page, ".heat *, #class-explorer *")


def test_print_shows_the_matrix_and_no_sliders(opened, report):
    page = opened(report, color_scheme="dark")
    page.emulate_media(media="print")
    drawn = "[...document.querySelectorAll('.plot')].every(p => p.closest('[hidden]') || p.dataset.drawn === 'light')"
    until(page, drawn)
    assert not page.is_visible("#class-price")
    assert page.is_visible(".has-heat .heat")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", page.pdf(format="A4", print_background=True))) <= 12


def test_page_can_be_read_without_scripts(opened, report):
    page = opened(report, java_script_enabled=False)
    assert not page.is_visible("#class-explorer")
    page.locator("#view-0-errors > summary").click()
    assert page.is_visible(".has-heat .heat")
    assert "Errors by class" in page.inner_text("main")


def test_every_field_has_a_label(page):
    assert page.evaluate("""() => [...document.querySelectorAll('#class-explorer :is(input, select, button)')]
        .filter(e => !e.labels?.length && !e.getAttribute('aria-labelledby') && !e.textContent.trim()).map(e => e.id)
    """) == []  # fmt: skip
    assert page.evaluate("[...document.querySelectorAll('th')].filter(t => !t.scope).length") == 0
