"""Money paid and saved, and what happens to 1,000 samples."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_host
from adacsl.metrics.intervals import Interval
from adacsl.report.apportionment import money_texts, people_spoken_of, whole_confusion
from adacsl.report.content import Card, Matrix, MatrixCell, Section, Table, listed, section
from adacsl.report.data import Outcome, Saved, Terms
from adacsl.report.formatting import with_unit
from adacsl.report.sections.errors import confusion_table, in_order
from adacsl.report.sections.summary import amounts_of, saved_texts


@dataclass(frozen=True)
class Money:
    """What is paid and saved with a method.

    Parameters
    ----------
    method : str
        The recommended method.
    paid : Interval
        Its mean cost per sample.
    saved : Saved, optional
        Its saving against a baseline.
    outcome : Outcome, optional
        Its test samples.
    terms : Terms
        Words and units.
    """

    method: str
    paid: Interval
    saved: Saved | None = None
    outcome: Outcome | None = None
    terms: Terms = field(default_factory=Terms)

    @property
    def each(self) -> dict[str, Interval]:
        """Costs per sample of the baseline and the recommended method, and the saving; what is known."""
        return amounts_of(self.paid, self.saved)


def money_section(money: Money) -> Section | None:
    """Return money against the baseline, and both in whole samples of 1,000."""
    paid = None
    if "saved" in money.each:
        guide = (
            "The interval is about the mean: a single year also varies at random, and all of it holds as long as "
            "samples and costs stay like these."
        )
        paid = Card("paid", guide=guide, result=money_words(money), tables=[money_rows(money)])
    return section("money", f"Saving and errors among {money.terms.people}", listed(paid), people_cards(money))


def money_rows(money: Money) -> Table:
    """Return costs and saving per sample, and per year where that is asked for, as a table whose columns add up."""
    each, known, terms = money.each, money.saved, money.terms
    against = known.against if known else ""
    heads = {"baseline": against if against.startswith("your ") else f"baseline: {against}", "saved": "saved"}
    heads["recommended"] = money.method
    columns = {terms.head("per sample"): money_texts(each, 1)}
    if terms.volume is not None:
        columns[terms.head(f"a year, {terms.volume:,.0f} {terms.people}")] = money_texts(each, terms.volume)
    rows = [[heads[what], *(_spanned(*texts[what]) for texts in columns.values())] for what in each]
    return Table("Cost and saving (95 % interval)", ["", *columns], rows, "saved")


def _spanned(text: str, between: str) -> str:
    return f"{text} ({between})" if between else text


def money_words(money: Money) -> str:
    """Return the saving in a sentence, with its interval."""
    known, terms = money.saved, money.terms
    assert known is not None  # noqa: S101
    if known.nothing:
        return f"{money.method} costs the same as {known.against} for every sample."
    loss, count = known.each.estimate < 0, terms.volume or 1
    text, between = saved_texts(money.each, count)
    when = "per sample" if terms.volume is None else f"in a year of {terms.volume:,.0f} {terms.people}"
    verb, more = ("costs", " more") if loss else ("saves", "")
    words = f"{money.method} {verb} {terms.amount(text)}{more} {when} against {known.against}"
    words += f" (95 % CI {terms.amount(between)})." if between else "."
    if known.other:
        paid = money_texts({"saved": Interval(known.other_cost, math.nan, math.nan)}, count)["saved"][0]
        words += f" {known.other[0].upper()}{known.other[1:]} would cost {terms.amount(paid)}."
    return words + (" The difference is not significant." if known.each.low <= 0 <= known.each.high else "")


def people_cards(money: Money) -> list[Card]:
    """Return the outcomes of 1,000 samples (more, where a class is rare), with the baseline and the method."""
    outcome, known, terms = money.outcome, money.saved, money.terms
    if outcome is None:
        return []
    people = people_spoken_of(outcome)
    shown = [("after", money.method, outcome)]
    if known is not None and known.outcome is not None:
        shown = [("before", known.against, known.outcome), *shown]
    return [
        Card(
            f"people-{when}",
            title=f"Of {people:,} {terms.people}, with {name}",
            result=people_words(one, people, terms),
            matrix=people_matrix(one, people, terms) if one.n_classes == 2 else None,
        )
        for when, name, one in shown
    ]


def people_words(outcome: Outcome, people: int, terms: Terms) -> str:
    """Return the outcomes of so many samples in natural frequencies."""
    cells = whole_confusion(outcome, people)
    if outcome.n_classes > 2:
        return _wrong_words(outcome.class_names, cells)
    (true_negatives, false_positives), (false_negatives, true_positives) = cells.tolist()
    negative, positive = terms.classes
    return (
        f"{false_negatives + true_positives:,} of {people:,} are “{positive}”, {false_negatives:,} of them false "
        f"negatives. Of the {true_negatives + false_positives:,} that are “{negative}”, {false_positives:,} are false "
        "positives."
    )


def _wrong_words(names: list[str], cells: NDArray[np.int64]) -> str:
    """Return how many predictions are right, and the most frequent error."""
    errors = cells - np.diag(np.diag(cells))
    wrong = int(errors.sum())
    words = f"{cells.sum() - wrong:,} predictions are right, {wrong:,} wrong"
    if not wrong:
        return f"{words}."
    actual, predicted = np.unravel_index(errors.argmax(), errors.shape)
    return f"{words}; most often “{names[actual]}” is predicted as “{names[predicted]}”: {errors.max():,} times."


def people_matrix(outcome: Outcome, people: int, terms: Terms) -> Matrix:
    """Return a confusion matrix of so many samples, with the cost of each in a cell; totals stand beside."""
    cells = whole_confusion(outcome, people)
    costs = confusion_table(outcome).set_index("outcome")["mean_cost"]
    largest = float((costs * [cells[1, 1], cells[1, 0], cells[0, 1], cells[0, 0]]).abs().max()) or 1.0
    result = {}
    for name, actual, predicted in (("tp", 1, 1), ("fn", 1, 0), ("fp", 0, 1), ("tn", 0, 0)):
        cost, count = float(costs[name]), int(cells[actual, predicted])
        mean = " on average" if np.ptp(as_host(getattr(outcome, name))) else ""
        each = f"{with_unit(cost, terms.unit, 3)} each{mean}" if cost else "no cost"
        result[name] = MatrixCell(name, f"{count:,}", each, abs(cost) * count / largest)
    names = (f"{terms.classes[0]}: {cells[0].sum():,}", f"{terms.classes[1]}: {cells[1].sum():,}")
    heads = [f"predicted {terms.classes[k]}: {cells[:, k].sum():,}" for k in (1, 0)]
    return in_order(f"Whole {terms.people}, and the cost of each", names, result)._replace(headers=heads)
