"""Report sections for two classes: costs, thresholds, errors, calibration, training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from adacsl.base.extras import requires
from adacsl.report import figures as draw
from adacsl.report import frames, tables
from adacsl.report.card import GUIDES, Card, arranged, card
from adacsl.report.data import Outcome, ReportData, Saved
from adacsl.report.formatting import show, show_percent, with_unit
from adacsl.report.sections import constraints
from adacsl.report.sections.about import about_sections
from adacsl.report.sections.money import money_sections, money_tile
from adacsl.report.sections.segments import driver_card, segment_cards
from adacsl.report.style import COLORED
from adacsl.report.tables import Table

with requires("compare"):
    import pandas as pd


def tiles(data: ReportData, view: tuple[str, float]) -> list[tuple[str, str, str]]:
    """Return the headline's numbers: name, value, and a word about it."""
    rows = data.summary_of(view)
    name = data.recommended_of(view)
    row = rows[rows["method"] == name].iloc[0]
    interval = f"95 % interval {show(row['low'], 3)} to {show(row['high'], 3)}" if np.isfinite(row["low"]) else ""
    if not data.recommends(view):
        return [("Lowest mean cost", with_unit(row["cost"], data.unit, 3), f"{name}; {interval}".strip("; "))]
    found = [
        ("Recommended" if len(rows) > 1 else "Method", name, data.titles.get(name, "")),
        ("Cost per case", with_unit(row["cost"], data.unit, 3), interval),
    ]
    known = data.savings.get(view)
    if known is not None and np.isfinite(known.percent.estimate):
        found.append(_saving_tile(known))
    elif "savings" in rows.columns:
        found.append(("Saved", show_percent(row["savings"]), "of what the best constant decision costs"))
    found += filter(None, [money_tile(data, view)])
    if "standing" in rows.columns:
        counts = rows["standing"].value_counts()
        words = {"probably worse": "probably", "not told apart": "not told apart from the cheapest"}
        others = ["other methods", *(f"{counts[kind]} {text}" for kind, text in words.items() if kind in counts)]
        found.append(("Clearly dearer", f"{counts.get('clearly worse', 0)} of {len(rows) - 1}", "; ".join(others)))
    return found


def _saving_tile(known: Saved) -> tuple[str, str, str]:
    against, saved = known.against, known.percent
    estimate, *ends = saved if saved.estimate >= 0 else (-saved.estimate, -saved.high, -saved.low)
    words = f"; 95 % CI {show(ends[0], 2)} to {show(ends[1], 2)} %" if np.isfinite(saved.low) else ""
    name, than = ("Saved", "against") if saved.estimate >= 0 else ("Costs more", "than")
    both = f"; {known.other} costs {show(known.other_cost, 3)}" if known.other else ""
    return name, f"{show(estimate, 2)} %", f"{than} {against}{words}{both}"


def parts(data: ReportData, view: Any, key: str) -> list[dict[str, Any]]:
    """Return all sections of a view: id, title, guide, and rows of one or several cards."""
    sections: dict[str, list[list[Card | None]]] = {
        **money_sections(data, view, key),
        "costs": [[cost_card(data, view, key)]],
        "columns": [[driver_card(data, view, key)]],
        "segments": segment_cards(data, view, key),
        "ratios": [[constraints.regret_card(data, view, key)], [_ratio_card(data, view, key)]],
        "ways": [constraints.way_cards(data, view, key)],
        "errors": _error_rows(data, view, key),
        "training": _training_rows(data, view, key),
        "probabilities": [_probability_cards(data, view, key)],
        **about_sections(data, view, key),
    }
    return arranged(sections, key)


def highlighted(data: ReportData, view: tuple[str, float], *, scores: bool = False) -> list[str]:
    """Return the methods to colour: the recommended and the next cheapest; with ``scores``, of different scores."""
    outcomes = data.outcomes_of(view)
    first = data.recommended_of(view)
    names = [first, *(name for name in data.summary_of(view)["method"] if name != first)]
    if not scores:
        return names[:COLORED]
    seen: dict[bytes, str] = {}
    for name in names:
        if name in outcomes and np.ptp(outcomes[name].scores) > 0:
            seen.setdefault(outcomes[name].scores.tobytes(), name)
    return list(seen.values())[:COLORED]


def cost_card(data: ReportData, view: Any, key: str) -> Card:
    """Return the costs of all methods."""
    rows, name = data.summary_of(view), data.recommended_of(view)
    first, last = rows.iloc[0], rows.iloc[-1]
    taken = name if data.recommends(view) else ""
    figure = draw.cost_figure(rows, recommended=taken, unit=data.unit)
    said = f" Recommended: {name}." if taken else ""
    alt = (
        f"Mean cost of {len(rows)} methods, from {show(first['cost'])} ({first['method']}) to {show(last['cost'])} "
        f"({last['method']}).{said} The table below has all numbers."
    )
    return card(key, "cost", alt=alt, figure=figure, tables=[tables.cost_table(data, rows, taken)])


def _ratio_card(data: ReportData, view: Any, key: str) -> Card | None:
    ran = frames.ratio_table(data.results_of(view[0]))
    outcomes = data.outcomes_of(view)
    names = highlighted(data, view)
    anew = _redecided(view, {name: outcomes[name] for name in names if name in outcomes}, ran)
    if len(ran["ratio"].unique()) < 2 and anew.empty:
        return None
    figure = draw.ratio_figure(ran, anew, highlight=names)
    wide = ran.pivot_table(index="method", columns="ratio", values="normalized_cost", sort=False)
    wide = wide.reindex([name for name in data.summary_of(view)["method"] if name in wide.index])
    alt = (
        f"Normalised cost of {', '.join(names)} against the cost ratio; 1 is the best constant decision. "
        "The table below has the ratios that ran."
    )
    table = tables.wide_table("Normalised cost at each ratio that ran", "method", wide, marked=names[0])
    return card(key, "ratio", alt=alt, figure=figure, folded=[table])


def _redecided(view: tuple[str, float], outcomes: Mapping[str, Outcome], ran: pd.DataFrame) -> pd.DataFrame:
    known = [view[1], *ran["ratio"].tolist()]
    around = np.geomspace(min(known) / 4, max(known) * 4, 41)
    own = any(outcome.own_costs for outcome in outcomes.values())
    # with prices of each row the ratio is a mean: what can be moved is a factor on every miss
    frame = frames.redecided_table(outcomes, around / view[1] if own else around)
    return frame.assign(ratio=frame["ratio"] * view[1]) if own else frame


def _error_rows(data: ReportData, view: tuple[str, float], key: str) -> list[list[Card | None]]:
    outcomes = data.outcomes_of(view)
    if not outcomes:
        return []
    name = data.recommended_of(view)
    name = name if name in outcomes else next(iter(outcomes))
    outcome = outcomes[name]
    matrix = Card(
        f"{key}-matrix",
        title=f"Errors of {name}, in money",
        guide=f"{outcome.cases} The darker an error, the more it costs in total.",
        matrix=tables.cost_matrix(data, outcome),
    )
    groups = card(key, "groups", tables=[tables.group_table(data, name, frames.subgroup_table(outcome))])
    thresholds = card(key, "thresholds", tables=[tables.threshold_table(data, outcomes, name)])
    return [[matrix, groups], [thresholds]]


def _training_rows(data: ReportData, view: Any, key: str) -> list[list[Card | None]]:
    epochs = frames.epoch_table(data.histories_of(view))
    row = [_lambda_card(data, view, key, epochs), history_card(data, view, key, epochs)]
    return [row, [optimism_card(data, view, key)]]


def _lambda_card(data: ReportData, view: Any, key: str, epochs: pd.DataFrame) -> Card | None:
    known = frames.rows_with(epochs, "lambda")
    if known.empty:
        return None
    figure = draw.lambda_figure(known, highlight=highlighted(data, view))
    alt = f"Cheapest validation threshold and lambda by epoch for {', '.join(dict.fromkeys(known['method']))}."
    table = tables.epoch_table("Threshold and lambda by epoch", known, ["threshold", "lambda"])
    return card(key, "lambda", alt=alt, figure=figure, folded=[table])


def history_card(data: ReportData, view: Any, key: str, epochs: pd.DataFrame) -> Card | None:
    """Return the costs by epoch of the methods to highlight."""
    known = frames.rows_with(epochs, "val_cost")
    if known.empty:
        return None
    names = [name for name in highlighted(data, view) if name in set(known["method"])][:2] or list(known["method"][:1])
    known = known[known["method"].isin(names)]
    figure = draw.history_figure(known, highlight=names, unit=data.unit)
    alt = f"Training and validation cost by epoch for {', '.join(names)}."
    table = tables.epoch_table("Cost by epoch", known, ["val_cost", "train_cost"])
    return card(key, "history", alt=alt, figure=figure, folded=[table])


def optimism_card(data: ReportData, view: Any, key: str) -> Card | None:
    """Return what validation promised and what the test cost."""
    results = data.results_of(view[0])
    table = frames.optimism_table(results[results["ratio"] == view[1]] if "ratio" in results.columns else results)
    if table.empty:
        return None
    figure = draw.optimism_figure(table, unit=data.unit)
    folded = tables.optimism_table(table, data.recommended_of(view))
    alt = "Validation and test cost of each method; the table has the numbers."
    return card(key, "optimism", alt=alt, figure=figure, folded=[folded])


def _probability_cards(data: ReportData, view: Any, key: str) -> list[Card | None]:
    outcomes = data.outcomes_of(view)
    names = highlighted(data, view, scores=True)
    if not names:
        return []
    shown = {name: outcomes[name] for name in names}
    calibration, brier = frames.calibration_table(shown), frames.brier_table(shown)
    decision = frames.decision_table(shown)
    brier_rows = tables.curve_table("Brier curve", "cost proportion", brier, "proportion", "loss")
    decision_rows = tables.curve_table("Decision curve", "threshold", decision, "threshold", "net_benefit")
    told = (
        ("calibration", "Share of positives against mean score", calibration, tables.calibration_table(calibration)),
        ("brier", "Loss over all cost proportions", brier, brier_rows),
        ("decision", "Net benefit at thresholds from 0.01 to 0.99", decision, decision_rows),
    )
    pictures = {"calibration": draw.calibration_figure, "brier": draw.brier_figure, "decision": draw.decision_figure}
    listed = ", ".join(names)
    return [
        card(key, name, alt=f"{alt} for {listed}.", figure=pictures[name](frame, highlight=names), folded=[table])
        for name, alt, frame, table in told
    ]


def rank_card(data: ReportData) -> Card | None:
    """Return the card of average ranks over many data sets."""
    if data.ranks is None or data.ranks.empty:
        return None
    rows = data.ranks.sort_values("rank", kind="stable")
    first = rows.iloc[0]
    gap = show(draw.critical_difference(data.ranks))
    alt = f"Average ranks, from {show(first['rank'])} ({first['method']}); critical difference {gap}."
    body = [[str(row.method), show(row.rank)] for row in tables.records(rows)]
    table = Table("Average ranks", ["method", "rank"], body)
    return Card("ranks-card", alt=alt, figure=draw.rank_figure(data.ranks), tables=[table], **GUIDES["ranks"])
