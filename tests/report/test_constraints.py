"""Cards about other costs, a third way out and a limited number of checks, against the core's own decisions."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adacsl import CostMatrix
from adacsl.comparison.cost_sensitivity import find_regret
from adacsl.comparison.statistics import RowCosts
from adacsl.decision.policy import limit_action
from adacsl.report.comparison import render_report, report_page
from adacsl.report.data import Outcome
from adacsl.report.page import cards_of
from adacsl.report.sections.constraints import (
    break_even,
    capacity_figure,
    capacity_table,
    constrained,
    referral_figure,
    referral_table,
)
from adacsl.report.sections.sensitivity import regret_figure, rivals

VIEW = ("breast-cancer", 8.0)


def rows(seed=0, n=60, *, own=False, k=2, right=0.0, decimals=None):
    """Test rows of one method; ``decimals`` makes ties, ``right`` costs being right."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, k, n)
    if k > 2:
        scores = rng.dirichlet(np.ones(k), n)
        table = rng.lognormal(0, 1, (n, k, k) if own else (k, k))
        table[..., np.arange(k), np.arange(k)] = -right
        matrix = CostMatrix.from_array(table, rows="predicted", classes=[f"c{j}" for j in range(k)])
        return Outcome(scores, labels, matrix.decide(scores), np.zeros(n), matrix=matrix)
    scores = rng.beta(1 + 2 * labels, 2)
    scores = scores if decimals is None else scores.round(decimals)
    prices = {"fp": 1.0, "fn": rng.lognormal(1, 1, n) if own else 4.0, "tp": -right, "tn": 0.25 * right}
    return Outcome(scores, labels, CostMatrix(**prices).decide(scores), np.zeros(n), **prices)


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([2, 3]), st.sampled_from([0.0, 0.5]))
def test_referral_is_one_more_action_of_the_matrix(seed, own, k, right):
    outcome = rows(seed, own=own, k=k, right=right)
    table = referral_table(outcome, points=9)
    for _, row in table.iloc[1:].iterrows():
        costs = outcome.costs.with_referral(row["referral_cost"])
        decided = costs.decide(outcome.scores)
        assert row["referred"] == pytest.approx(np.mean(decided == k))
        assert row["cost"] == pytest.approx(costs.mean(outcome.labels, decided))


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([None, 1]))
def test_checks_go_to_those_whom_a_limited_action_serves(seed, own, decimals):
    outcome = rows(seed, own=own, decimals=decimals)
    table = capacity_table(outcome, points=7)
    expected = outcome.costs.expected_of_each(outcome.scores)
    for _, row in table.iterrows():
        limited = limit_action(expected, 1, round(row["checked"] * outcome.n))
        assert limited.used == round(row["checked"] * outcome.n)
        assert row["cost"] == pytest.approx(outcome.costs.mean(outcome.labels, limited.actions))
    assert round(table["checked"].iloc[-1] * outcome.n) == limit_action(expected, 1, outcome.n).used


def test_by_probability_is_the_same_unless_samples_have_costs():
    same, other = capacity_table(rows(1)), capacity_table(rows(1, own=True))
    np.testing.assert_allclose(same["cost"], same["by_probability"])
    assert not np.allclose(other["cost"], other["by_probability"])


@pytest.mark.parametrize(("own", "k"), [(False, 2), (True, 2), (False, 4)])
def test_break_even_is_where_a_referral_stops_saving(own, k):
    outcome = rows(5, n=4000, own=own, k=k)
    table = referral_table(outcome)
    even = break_even(outcome, table)
    alone = outcome.costs.mean(outcome.labels, outcome.decisions)
    before = table[table["referral_cost"] < even]["cost"]
    assert (before < alone * 0.9901).all()
    if even < table["referral_cost"].iloc[-1]:
        assert table[table["referral_cost"] > even]["cost"].iloc[0] >= alone * 0.9899


def test_few_costly_samples_save_more_than_all_others():
    one = rows(3, n=500)
    fn = np.where(np.arange(500) < 4, 1e6, 4.0)
    labels = np.where(np.arange(500) < 4, 1, one.labels)
    blind = Outcome(np.where(np.arange(500) < 4, 0.3, one.scores), labels, one.scores > 2, np.zeros(500), fn=fn)
    table = referral_table(blind)
    assert break_even(blind, table) == np.inf
    assert len(referral_figure(table, even=np.inf).layout.shapes) == 0


def test_no_saving_is_worth_no_cost():
    flawless = Outcome([0.0, 1.0, 0.0], [0, 1, 0], [0, 1, 0], np.zeros(3), fp=1.0, fn=8.0)
    table = referral_table(flawless)
    assert break_even(flawless, table) == 0.0
    assert (table["referred"] == 0).all()


# cards


@pytest.fixture(scope="module")
def priced(made):
    """Reports with ranges, of costs for all and of each row."""

    def entries(outcomes):
        seeds = next(iter(outcomes.values())).seeds
        rows = np.arange(len(seeds))
        return RowCosts(tuple(outcomes), np.zeros((len(outcomes), len(rows))), rows, seeds, rows)

    def make(**options):
        report = made(ratios=(8.0,), seeds=3, **options)
        regrets = {
            view: find_regret(
                report.outcomes_of(view), (0.5, 2.5), ratio=view[1], entries=entries(report.outcomes_of(view)),
                recommended=report.recommended_of(view),
            )
            for view in report.views
        }  # fmt: skip
        return made(ratios=(8.0,), seeds=3, **options, regrets=regrets)

    return {own: make(own_costs=own) for own in (False, True)}


@pytest.mark.parametrize("own", [False, True])
def test_the_page_shows_what_other_costs_mean(priced, own):
    report = priced[own]
    page = render_report(report)
    for part in ("Extra cost if the costs are different", "Capacity constraint", "Reject option"):
        assert part in page
    cards = shown_cards(report)
    regret = cards["regret"]
    assert regret.result.replace("\u00a0", " ") == report.regrets[VIEW].words
    assert [row[0] for row in regret.folded[0].rows] == report.regrets[VIEW].table["method"].tolist()
    assert regret.folded[1].rows[-1][1] == report.regrets[VIEW].cheapest["method"].iloc[-1]
    assert "of the samples as positive: mean cost" in cards["capacity"].result.replace("\u00a0", " ")
    assert cards["referral"].result.startswith("Referrals pay up to about")
    assert len(cards["capacity"].folded[0].rows) <= 13


def shown_cards(report):
    return {card.id: card for _, card in cards_of(report_page(report))}


def test_without_ranges_and_without_samples_the_cards_are_left_out(made):
    assert "regret" not in shown_cards(made(ratios=(8.0,), seeds=2))
    assert not {"capacity", "referral"} & set(shown_cards(made(ratios=(8.0,), seeds=2, outcomes={})))


def test_of_more_than_two_classes_there_is_a_reject_option_only(made_classes):
    view = report_page(made_classes.made_class_report()).views[0]
    (section,) = [section for section in view.sections if section.id == "ways"]
    assert section.title == "Reject option"
    assert [card.id for row in section.rows for card in row] == ["referral"]


def test_constant_scores_have_no_reject_option(made):
    report = made(ratios=(8.0,), seeds=2)
    only = {name: one for name, one in report.outcomes_of(VIEW).items() if name == "always-negative"}
    assert constrained(only, "always-negative") is None
    assert constrained(report.outcomes_of(VIEW), "always-negative").method != "always-negative"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_figures_draw_what_the_frames_say(priced, theme):
    result, outcome = priced[True].regrets[VIEW], rows(own=True)
    names = rivals(result, "net")
    assert names[0] == "net"
    figure = regret_figure(result, "net", theme=theme)
    lines = {trace.name: trace for trace in figure.data}
    own = result.curve[result.curve["method"] == "net"].sort_values("ratio")
    np.testing.assert_allclose(lines["net"].y, own["percent"])
    assert set(lines) == set(result.table["method"])
    assert (figure.layout.shapes[0].x0, figure.layout.shapes[0].x1) == (result.low, result.high)
    table = capacity_table(outcome)
    assert [trace.name for trace in capacity_figure(table, theme=theme).data] == [
        "by probability",
        "by expected saving",
    ]
    table = referral_table(outcome)
    figure = referral_figure(table, even=1.0, theme=theme)
    np.testing.assert_allclose(figure.data[1].y, 100 * table["referred"])


def test_where_the_lowest_cost_costs_nothing_money_is_drawn(priced):
    result = priced[False].regrets[VIEW]
    free = result._replace(curve=result.curve.assign(percent=np.inf))
    assert "per sample [EUR]" in regret_figure(free, "net", unit="EUR").layout.yaxis.title.text


# in a browser


@pytest.mark.parametrize(
    ("own", "look"), [(True, {"color_scheme": "dark"}), (False, {"viewport": {"width": 400, "height": 800}})]
)
def test_cards_are_drawn_and_fit(priced, opened, own, look):
    page = opened(priced[own], f"prices-{own}", **look)
    theme = look.get("color_scheme", "light")
    for name in ("regret", "capacity", "referral"):
        card = page.locator(f"#view-0-{name}")
        card.scroll_into_view_if_needed()
        page.wait_for_selector(f"#view-0-{name} .plot[data-drawn='{theme}']")
        assert card.locator(".result").inner_text()
        box, plot = card.bounding_box(), card.locator(".plot").bounding_box()
        assert box["x"] <= plot["x"]
        assert plot["x"] + plot["width"] <= box["x"] + box["width"]
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert [entry for entry in page.log if entry[0] in ("error", "dialog")] == []
    assert {entry[1] for entry in page.log if entry[0] == "request"} == {page.address}
