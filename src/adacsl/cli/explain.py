"""``adacsl explain``: what each column is worth to a model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from adacsl.cli.console import PLAIN, Answer, Screen, listing, stoppable
from adacsl.cli.model_folder import load_labelled, load_model
from adacsl.cli.options import ANY, FREE, MOST_SPLITS, Prices, Seed, Source, interval_text, within
from adacsl.cli.policy import NONE, Limits, timed_by
from adacsl.metrics.intervals import cost_interval
from adacsl.storage.atomic import check_file
from adacsl.storage.tables import check_table_file, writing_table

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Policy
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.report.data import ReportData


SHOWN = 15
"""So many columns are printed."""


def explain(
    model: Path,
    data: str | None = None,
    *,
    source: Source = ANY,
    prices: Prices = FREE,
    limits: Limits = NONE,
    time_column: str | None = None,
    repeats: Annotated[int, within(1, MOST_SPLITS)] = 5,
    out: Path | None = None,
    html: Path | None = None,
    seed: Seed = 0,
    device: str = "auto",
    screen: Screen = PLAIN,
) -> Answer:
    """Say what each column is worth to a model: how much dearer its decisions get when the column is shuffled.

    Take rows that did not train the model. Costs, target column and policy (reject option, capacity) are those of the
    training, unless others are given.

    Parameters
    ----------
    model
        Folder that `adacsl train` wrote.
    data
        Table (CSV, Parquet, Excel, ...), or a name (`adacsl data`), with labels; or --sql.
    time_column
        With --per: the column with the date of each row.
    repeats
        How often each column is shuffled.
    out
        Write the worth of all columns to this file (.csv, .parquet); `adacsl report --explain` shows it.
    html
        Write a page about the model on these rows.
    seed
        Of the shuffles.
    device
        auto, cpu, cuda, cuda:1 or mps.

    Examples
    --------
    adacsl explain model/ test.csv --target default
    adacsl explain model/ test.csv --repeats 20 --out columns.csv --html columns.html
    """
    if out is not None:
        check_table_file(out)
    if html is not None:
        check_file(html)
    classifier, target, prices = load_model(model, device=device, given=prices)
    from adacsl.estimators.inputs import n_classes, takes_images  # noqa: PLC0415  pandas

    if takes_images(classifier):
        raise ValueError("the model was trained on pictures, which have no columns: explain is for tables")
    if n_classes(classifier) > 2 and prices.given:
        raise ValueError(f"other prices are for models of two classes, and this one has {n_classes(classifier)}")
    with stoppable("nothing was written; start the command again"):
        task, inputs = load_labelled(classifier, data, source, target, prices)
        policy = _timed(limits.policy(classifier.policy, time_column), task)
        found = _explained(classifier, task, inputs, policy, repeats, seed)
        if html is not None:
            from adacsl.report.comparison import write_report  # noqa: PLC0415  plotly only for those who look

            write_report(_page(classifier, task, inputs, found, model.resolve().name, policy), html)
        if out is not None:
            _write(out, found)
    document = found.attrs | {"columns": found.to_dict("records"), "written": out, "report": html}
    return Answer(document, (*_shown(found), *(f"written: {path}" for path in (out, html) if path is not None)))


def _timed(policy: Policy, task: Task) -> Policy:
    """Return the policy with the times of the rows in place of their column's name."""
    from adacsl.datasets.errors import check_column  # noqa: PLC0415  pandas

    when = timed_by(policy)
    if when is None:
        return policy
    check_column(when, task.X.columns, task.source)
    return replace(policy, time=task.X[when])


def _explained(
    classifier: CostSensitiveClassifier, task: Task, inputs: Any, policy: Policy, repeats: int, seed: int
) -> pd.DataFrame:
    columns = {str(name): [place] for place, name in enumerate(getattr(inputs, "columns", task.X.columns))}
    known: dict[str, Any] = {"columns": columns, "groups": task.groups, "random_state": seed, "policy": policy}
    # costs of the training say nothing about other actions, whose matrix then holds as a whole
    if len(task.classes) == 2 and (task.costs.n_instances is not None or task.costs != classifier.costs_):
        known |= _prices(task)
    from adacsl.estimators.inputs import labels_of  # noqa: PLC0415  pandas

    return classifier.permutation_cost(inputs, labels_of(classifier, task.y), repeats=repeats, **known)


def _prices(task: Task) -> dict[str, Any]:
    return {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}


def _write(path: Path, found: pd.DataFrame) -> None:
    import pyarrow as pa  # noqa: PLC0415

    with writing_table(path, {name: pa.float64() for name in found.columns} | {"column": pa.string()}) as write:
        write({str(name): values for name, values in found.items()})


def _shown(found: pd.DataFrame) -> list[Any]:
    known, rest = found.attrs, found["cost"][SHOWN:]
    table = listing("column", right=("dearer by", "95 % interval", "of the saving"))
    for name, cost, low, high, share in found[:SHOWN].itertuples(index=False):
        table.add_row(name, f"{cost:.4g}", interval_text(low, high), "" if np.isnan(share) else f"{share:.1%}")
    shown = f"{known['rows']} rows; cost per row {known['base_cost']:.4g}, of the cheaper constant decision "
    shown += f"{known['constant_cost']:.4g}; dearer by, if a column is shuffled (mean of {known['repeats']}):"
    return [shown, "", table, *([f"{len(rest)} further columns: {rest.sum():.4g} in all"] if len(rest) else [])]


def _told(policy: Policy) -> str:
    """Return which settings of a policy the columns were judged under."""
    said = ("refer", "errors", "capacity", "action", "per", "prior")
    named = [f"{name} {value}" for name in said if (value := getattr(policy, name)) is not None]
    return ", ".join([*named, *(["other actions"] if policy.actions is not None else [])])


def _members(classifier: CostSensitiveClassifier) -> dict[str, str]:
    """Return what an ensemble is made of, in words."""
    board = getattr(classifier, "leaderboard_", None)
    if board is None:
        return {}
    taken = board[board["left_out"] == ""]
    told = [f"{row.estimator} (weight {row.weight:.2f}, cost alone {row.cost:.3g})" for row in taken.itertuples()]
    return {"estimators": ", ".join(told)}


def _page(
    classifier: CostSensitiveClassifier, task: Task, inputs: Any, found: pd.DataFrame, name: str, policy: Policy
) -> ReportData:
    """Return a report of one model on these rows."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.comparison.fits import measure  # noqa: PLC0415  torch
    from adacsl.comparison.protocol import choose_ratios, named_costs  # noqa: PLC0415
    from adacsl.estimators.decisions import decide_probabilities  # noqa: PLC0415
    from adacsl.report.data import Outcome, ReportData  # noqa: PLC0415

    decision, first, view = classifier.decision_, found.iloc[0], (task.name, choose_ratios(task.costs, None)[0])
    scores = classifier.decision_probabilities(inputs, costs=task.costs)
    decided = decide_probabilities(classifier, scores, costs=task.costs).actions
    two = len(task.classes) == 2
    prices = _prices(task) if two else {"matrix": named_costs([task.costs], task.classes), "rule": decision.decide}
    outcome = Outcome(scores, task.y, decided, 0 * task.y, **prices, threshold=decision.threshold_for(task.costs))
    _, low, high = cost_interval(task.costs, task.y, decided, groups=task.groups)
    row = {"data": view[0], "ratio": view[1], "method": name, "n": 1, "low": low, "high": high}
    increase = f"{first['cost']:.3g} (95 % CI {first['low']:.3g} to {first['high']:.3g})"
    return ReportData(
        title=f"Permutation importance: {task.name}",
        recommendations={
            view: f"Most important column: “{first['column']}”. Shuffled, it adds {increase} to the mean cost."
        },
        facts={
            "data": f"{task.source}, {len(task.y):,} samples",
            "model": name,
            **_members(classifier),
            **(
                {}
                if policy.empty
                else {"policy": f"{_told(policy)}; the predictions shown are among the classes alone"}
            ),
            "shuffles": str(found.attrs["repeats"]),
        },
        results=pd.DataFrame(),
        summary=pd.DataFrame([row | measure(decided == 1 if two else decided, task.y, task.costs)]),
        outcomes={(*view, name): outcome},
        classes=(task.classes[0], task.classes[1]),
        explained={view: found},
    )
