"""``adacsl explain``: permutation importance of each column in cost."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

from adacsl.cli.console import PLAIN, Answer, Screen, listing, stoppable
from adacsl.cli.model_folder import load_labelled, load_model
from adacsl.cli.options import (
    COST_DEFAULTS,
    DATA_DEFAULTS,
    MOST_SPLITS,
    CostOptions,
    DataOptions,
    Device,
    Module,
    Seed,
    interval_text,
    within,
)
from adacsl.cli.policy import POLICY_DEFAULTS, PolicyOptions, timed_by
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
"""Number of columns that are printed."""


def explain(
    model: Path,
    data: str | None = None,
    *,
    source: DataOptions = DATA_DEFAULTS,
    cost_options: CostOptions = COST_DEFAULTS,
    policy_options: PolicyOptions = POLICY_DEFAULTS,
    time_column: str | None = None,
    repeats: Annotated[int, within(1, MOST_SPLITS)] = 5,
    out: Path | None = None,
    html: Path | None = None,
    seed: Seed = 0,
    device: Device = "auto",
    module: Module = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Measure the permutation importance of each column: the increase in mean cost when the column is shuffled.

    Use samples that did not train the model. Costs, target column and policy (reject option, capacity) are those of the
    training, unless others are given.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`).
    data
        Table (CSV, Parquet, Excel, ...) with labels, or the name of a built-in data set (`adacsl data`); or --sql.
    time_column
        Column with the time of each sample; needed by --per.
    repeats
        Number of shuffles per column.
    out
        Write the importance of all columns to this file (.csv, .parquet); `adacsl report --explain` shows it.
    html
        Write an HTML page about the model on these samples.
    seed
        Random seed of the shuffles.
    device
        Device: auto, cpu, cuda, cuda:1 or mps.
    module
        Factory of the model's network, where that is one of your own, module:factory: a function of a module in the
        working directory or an installed one.

    Examples
    --------
    adacsl explain model/ test.csv --target default
    adacsl explain model/ test.csv --repeats 20 --out columns.csv --html columns.html
    """
    if out is not None:
        check_table_file(out)
    if html is not None:
        check_file(html)
    classifier, target, cost_options = load_model(model, device=device, given=cost_options, module=module)
    from adacsl.estimators.inputs import n_classes, takes_images  # noqa: PLC0415  pandas

    if takes_images(classifier):
        raise ValueError("the model was trained on images, which have no columns: explain is for tables")
    if n_classes(classifier) > 2 and cost_options.given:
        raise ValueError(f"other costs need a model of two classes, but this one has {n_classes(classifier)}")
    with stoppable("nothing was written; start the command again"):
        task, inputs = load_labelled(classifier, data, source, target, cost_options)
        policy = _timed(policy_options.policy(classifier.policy, time_column), task)
        importance = _explained(classifier, task, inputs, policy, repeats, seed)
        if html is not None:
            from adacsl.report.comparison import write_report  # noqa: PLC0415  plotly only for those who look

            write_report(_page(classifier, task, inputs, importance, model.resolve().name, policy), html)
        if out is not None:
            _write(out, importance)
    document = importance.attrs | {"columns": importance.to_dict("records"), "written": out, "report": html}
    return Answer(document, (*_shown(importance), *(f"written: {path}" for path in (out, html) if path is not None)))


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
        known |= _costs(task)
    from adacsl.estimators.inputs import labels_of  # noqa: PLC0415  pandas

    return classifier.permutation_cost(inputs, labels_of(classifier, task.y), repeats=repeats, **known)


def _costs(task: Task) -> dict[str, Any]:
    return {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}


def _write(path: Path, importance: pd.DataFrame) -> None:
    import pyarrow as pa  # noqa: PLC0415

    with writing_table(path, {name: pa.float64() for name in importance.columns} | {"column": pa.string()}) as write:
        write({str(name): values for name, values in importance.items()})


def _shown(importance: pd.DataFrame) -> list[Any]:
    known, rest = importance.attrs, importance["cost"][SHOWN:]
    table = listing("column", right=("increase in cost", "95 % interval", "share of the saving"))
    for name, cost, low, high, share in importance[:SHOWN].itertuples(index=False):
        table.add_row(name, f"{cost:.4g}", interval_text(low, high), "" if np.isnan(share) else f"{100 * share:.1f} %")
    shown = f"{known['rows']} samples; mean cost {known['base_cost']:.4g}, of the better constant baseline "
    shown += f"{known['constant_cost']:.4g}; increase if a column is shuffled ({known['repeats']} repeats):"
    return [shown, "", table, *([f"{len(rest)} further columns: {rest.sum():.4g} in all"] if len(rest) else [])]


def _describe(policy: Policy) -> str:
    """Return the settings of a policy as text."""
    settings = ("refer", "errors", "capacity", "action", "per", "prior")
    named = [f"{name} {value}" for name in settings if (value := getattr(policy, name)) is not None]
    return ", ".join([*named, *(["other actions"] if policy.actions is not None else [])])


def _base_estimators(classifier: CostSensitiveClassifier) -> dict[str, str]:
    """Return the base estimators of an ensemble as text."""
    board = getattr(classifier, "leaderboard_", None)
    if board is None:
        return {}
    used = board[board["left_out"] == ""]
    names = [f"{row.estimator} (weight {row.weight:.2f}, own cost {row.cost:.3g})" for row in used.itertuples()]
    return {"estimators": ", ".join(names)}


def _page(
    classifier: CostSensitiveClassifier, task: Task, inputs: Any, importance: pd.DataFrame, name: str, policy: Policy
) -> ReportData:
    """Return a report of one model on these rows."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.comparison.fits import measure  # noqa: PLC0415  torch
    from adacsl.comparison.protocol import choose_ratios, named_costs  # noqa: PLC0415
    from adacsl.decision.policy import decide, ordered_labels  # noqa: PLC0415
    from adacsl.report.data import Outcome, ReportData  # noqa: PLC0415

    decision, first, view = classifier.decision_, importance.iloc[0], (task.name, choose_ratios(task.costs, None)[0])
    scores = classifier.decision_probabilities(inputs, costs=task.costs)
    decided = decide(scores, decision, ordered_labels(classifier), costs=task.costs).actions
    two = len(task.classes) == 2
    costs = _costs(task) if two else {"matrix": named_costs([task.costs], task.classes), "rule": decision.decide}
    outcome = Outcome(scores, task.y, decided, 0 * task.y, **costs, threshold=decision.threshold_for(task.costs))
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
            **_base_estimators(classifier),
            **(
                {}
                if policy.empty
                else {"policy": f"{_describe(policy)}; the predictions shown are among the classes alone"}
            ),
            "shuffles": str(importance.attrs["repeats"]),
        },
        results=pd.DataFrame(),
        summary=pd.DataFrame([row | measure(decided == 1 if two else decided, task.y, task.costs)]),
        outcomes={(*view, name): outcome},
        classes=(task.classes[0], task.classes[1]),
        explained={view: importance},
    )
