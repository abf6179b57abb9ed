"""``adacsl monitor``: cost and drift of a deployed model, and whether to re-tune it."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import numpy as np
from cyclopts import Parameter

from adacsl.base.labels import label_name, same_label
from adacsl.cli.console import PLAIN, Answer, Screen, listing, next_command, stoppable
from adacsl.cli.model_folder import (
    check_model_folder,
    decision_costs,
    load_labelled,
    load_with_notes,
    noted_options,
    save_model,
)
from adacsl.cli.options import (
    ADVANCED_RESULTS,
    COST_DEFAULTS,
    DATA_DEFAULTS,
    READING_DEFAULTS,
    SCORE_DEFAULTS,
    CostOptions,
    Device,
    Module,
    ReadingOptions,
    ScoreOptions,
    as_words,
    predict_command,
    within,
)
from adacsl.costs.matrix import CostMatrix
from adacsl.storage.atomic import at_home, check_file

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.monitoring.report import MonitoringReport


CODES = {"keep": 0, "unresolved": 0, "review": 3, "retune": 4}
"""Exit codes for schedulers; 1 and 2 are failures, as in all commands."""


def monitor(
    model: Path,
    data: str | None = None,
    *,
    labels: str | None = None,
    id: str | None = None,  # noqa: A002
    time_column: str | None = None,
    group_column: str | None = None,
    cost_options: CostOptions = COST_DEFAULTS,
    tolerance: Annotated[float, Parameter(group=ADVANCED_RESULTS), within(0, 1e15)] = 0.05,
    level: Annotated[float, Parameter(group=ADVANCED_RESULTS), within(0.01, 0.9999)] = 0.95,
    html: Path | None = None,
    retuned: Path | None = None,
    reference: ScoreOptions = SCORE_DEFAULTS,
    device: Device = "auto",
    module: Module = None,
    files: ReadingOptions = READING_DEFAULTS,
    screen: Screen = PLAIN,
) -> Answer:
    """Monitor a deployed model: current cost, tests for drift, and whether re-tuning its threshold would pay.

    Exit codes: 0 no change (or too few samples for a recommendation), 3 investigate (scores, class prior or cost have
    changed, or a constant baseline costs less), 4 re-tune (not doing so costs more than the tolerance). Nothing is
    written without --html or --retuned.

    Parameters
    ----------
    model
        Folder of a saved model (`adacsl train --out`). Or a table of reference scores with labels, of any model: the
        threshold that is cost-optimal on it is the one in use.
    data
        Table (CSV, Parquet, Excel, ...) with new samples (with new scores, for reference scores), or the name of a
        built-in data set (`adacsl data`); or --sql.
    labels
        Labels, as far as they are known: a column of the data (missing values: not known), or another table, row by
        row or joined by --id. Default: the target column of the training, if the data have it.
    id
        Column of identifiers, in the data and in the table of labels.
    time_column
        Column with dates or numbers: costs are shown by time window, too.
    group_column
        Samples with the same value (patient, customer) are dependent: intervals are over groups.
    tolerance
        Smallest relevant change, as a share of the cost.
    level
        Confidence level of the intervals.
    html
        Write the findings as an HTML page.
    retuned
        Save a model with a re-tuned decision rule in this folder: fitted to the labels, or without labels under the
        estimated class prior. The learner is not trained again.
    device
        Device: auto, cpu, cuda, cuda:1 or mps.
    module
        Factory of the model's network, where that is one of your own, module:factory: a function of a module in the
        working directory or an installed one.

    Examples
    --------
    adacsl monitor model/ june.parquet
    adacsl monitor model/ june.parquet --labels outcomes.csv --id case --time-column when --html june.html
    adacsl monitor model/ june.parquet --labels paid --retuned model-june/
    adacsl monitor scores-may.csv scores-june.csv --fn 8 --fp 1
    """
    if html is not None:
        check_file(html)
    if retuned is not None:
        check_model_folder(retuned, option="--retuned")
    if model.is_file():
        classifier, notes = _of_scores(model, cost_options, files, reference)
    elif unused := as_words(reference):
        raise ValueError(f"{unused[0]} is for a table of reference scores, and {model} is a model: omit it")
    else:
        classifier, notes = load_with_notes(model, device=device, module=module)
    target, known_costs = noted_options(model, notes, cost_options)
    with stoppable("nothing was written; start the command again"):
        from adacsl.monitoring.monitor import monitor_samples  # noqa: PLC0415  pandas

        given = _Columns(labels, id, time_column, group_column, target)
        rows = _read(classifier, data, files, given, known_costs, screen)
        as_estimated = not cost_options.given or decision_costs(classifier, cost_options) == own_costs(classifier)
        result = monitor_samples(
            classifier, rows.inputs, rows.labels, rows.costs, groups=rows.groups, times=rows.time, level=level,
            tolerance=tolerance, as_estimated=as_estimated,
        )  # fmt: skip
        if html is not None:
            from adacsl.monitoring.page import write_monitoring  # noqa: PLC0415  plotly only for those who look

            write_monitoring(result, html, title=f"{model.resolve().name} on {data or files.sql}")
        if retuned is not None:
            _write_retuned(classifier, result, rows, notes, retuned)
    document = result.to_dict() | {"report": html, "retuned": retuned}
    named = {"--labels": labels, "--id": id, "--time-column": time_column, "--group-column": group_column}
    named |= {"--module": module}
    words = [word for name, value in named.items() if value for word in (name, value)]
    words = [*([data] if data else []), *words, *as_words(reference), *as_words(cost_options), *as_words(files)]
    shown = [*result.sentences, *_windows(result)]
    shown += [f"written: {path}" for path in (html, retuned) if path is not None]
    if retuned is None:
        shown += _next(result, shlex.join(["adacsl", "monitor", str(model), *words]), html)
    else:
        source = dataclasses.replace(DATA_DEFAULTS, files=files)
        shown.append(next_command(predict_command(retuned, data, source, module)))
    return Answer(document, tuple(shown), code=CODES[result.recommendation])


def _of_scores(
    path: Path, cost_options: CostOptions, files: ReadingOptions, columns: ScoreOptions
) -> tuple[CostSensitiveClassifier, dict[str, Any]]:
    """Return the decision by the cost-optimal threshold of reference scores as a model, with notes on it."""
    import pandas as pd  # noqa: PLC0415

    from adacsl.datasets.readers.formats import How  # noqa: PLC0415
    from adacsl.datasets.scores import ScoredTable  # noqa: PLC0415  pandas
    from adacsl.estimators.classifier import CostSensitiveClassifier  # noqa: PLC0415
    from adacsl.learners.scores import ScoreClassifier  # noqa: PLC0415
    from adacsl.thresholds.streaming import Batch  # noqa: PLC0415

    cost_options.check(required=True)
    if cost_options.costs == "balanced":
        raise ValueError("reference scores are monitored under known costs: give --fn and --fp")
    how = files.how | {"sql": None, "db": None}  # those are about the new samples
    table = ScoredTable(
        path, costs=cost_options.known, score=columns.score_column,
        label=columns.label_column, pos_label=columns.pos_label, how=cast("How", how)
    )  # fmt: skip
    every, labels = Batch.joined(list(table.batches())), np.asarray(table.classes)
    own = every.costs.n_instances is not None
    model = CostSensitiveClassifier(
        None if own else every.costs, learner=ScoreClassifier(tuple(labels.tolist())), decide="tuned",
        pos_label=table.classes[1], random_state=0,
    )  # fmt: skip
    each = {name: getattr(every.costs, name) for name in ("fp", "fn", "tp", "tn")} if own else {}
    model.fit(pd.DataFrame({table.score: every.scores}), labels[every.labels], **each)
    return model, {"target": table.label}


class _Columns(NamedTuple):
    """Which columns of the data mean what."""

    labels: str | None
    id: str | None
    time: str | None
    groups: str | None
    target: str | None


class _Rows(NamedTuple):
    """New samples as inputs of the model, with labels, times, groups and costs."""

    inputs: Any
    labels: Any
    time: Any
    groups: Any
    costs: CostMatrix


def own_costs(classifier: CostSensitiveClassifier) -> CostMatrix:
    """Return the cost specification a model was trained with."""
    costs: CostMatrix = getattr(classifier, "cost_spec_", None) or classifier.costs_
    return costs


def _read(
    classifier: CostSensitiveClassifier,
    data: str | None,
    files: ReadingOptions,
    given: _Columns,
    cost_options: CostOptions,
    screen: Screen,
) -> _Rows:
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas
    from adacsl.datasets.errors import check_column  # noqa: PLC0415
    from adacsl.datasets.readers.base import Reading  # noqa: PLC0415
    from adacsl.datasets.readers.formats import is_table, open_table, read_opened  # noqa: PLC0415
    from adacsl.datasets.time import read_times  # noqa: PLC0415
    from adacsl.estimators.inputs import check_kind, feature_columns, model_input  # noqa: PLC0415

    path = None if data is None else at_home(data)
    if data is not None and path is not None and (is_builtin(data) or not is_table(path)):
        return _read_task(classifier, data, files, given, cost_options)
    table = open_table(path, **files.how)
    data = table.name
    check_kind(classifier, data, images=False)
    frame = read_opened(table)
    Reading(read_as=tuple(table.read_as)).warn(data, len(frame))
    for column in (given.id, given.time, given.groups):
        if column is not None:
            check_column(column, frame.columns, data)
    known = _labels(classifier, frame, data, given, screen)
    others = [name for name in (given.id, given.time, given.groups, given.labels, given.target) if name is not None]
    features = feature_columns(classifier, list(frame.columns), data, others)
    if isinstance(when := getattr(classifier.policy, "time", None), str):
        check_column(when, frame.columns, data)
        features = list(dict.fromkeys((*features, when)))  # the policy needs it
    times = None if given.time is None else read_times(frame[given.time], f"column {given.time!r}")
    groups = None if given.groups is None else frame[given.groups]
    costs = resolved(decision_costs(classifier, cost_options), frame, data)
    return _Rows(model_input(classifier, frame, features), known, times, groups, costs)


def _read_task(
    classifier: CostSensitiveClassifier, data: str, files: ReadingOptions, given: _Columns, cost_options: CostOptions
) -> _Rows:
    """Read images, an archive or a built-in data set: all their samples have labels."""
    from adacsl.estimators.inputs import labels_of  # noqa: PLC0415  pandas

    options = {"--id": given.id, "--time-column": given.time, "--labels": given.labels}
    if unused := [name for name, value in options.items() if value is not None]:
        raise ValueError(f"{unused[0]} is for tables, but {data} is not a table: omit it")
    source = dataclasses.replace(DATA_DEFAULTS, group_column=given.groups, files=files)
    task, inputs = load_labelled(classifier, data, source, given.target, cost_options)
    return _Rows(inputs, labels_of(classifier, task.y), None, task.groups, task.costs)


# labels, as far as they are known


def _labels(
    classifier: CostSensitiveClassifier, frame: pd.DataFrame, data: str, given: _Columns, screen: Screen
) -> Any:
    name = given.labels
    if name is None:
        if given.target is None or given.target not in frame.columns:
            return None
        screen.note(f"labels: column {given.target!r} of {data}, the target of the training")
        return _as_classes(classifier, frame[given.target])
    if name in frame.columns:
        return _as_classes(classifier, frame[name])
    if not Path(name).is_file():
        from adacsl.datasets.errors import listed  # noqa: PLC0415

        raise ValueError(f"--labels {name} is neither a column of {data} ({listed(list(frame.columns))}) nor a file")
    return _as_classes(classifier, _joined(frame, data, given, screen))


def _joined(frame: pd.DataFrame, data: str, given: _Columns, screen: Screen) -> pd.Series[Any]:
    """Return the labels of a file, row by row or by the names of the rows."""
    from adacsl.datasets.readers.formats import read_table  # noqa: PLC0415

    path = str(given.labels)
    table = read_table(path)
    column = _label_column(table, path, given)
    if given.id is None:
        if len(table) != len(frame):
            raise ValueError(
                f"{path} has {len(table)} rows, {data} has {len(frame)}: give --id, a column that both have"
            )
        return table[column]
    _check_ids(table, path, given.id)
    result = frame[given.id].map(table.set_index(given.id)[column])
    missing = int((~table[given.id].isin(frame[given.id])).sum())
    if missing == len(table):
        raise ValueError(
            f"no row of {path} has the {given.id!r} of a row of {data}: check that both "
            f"columns hold the same identifiers"
        )
    if missing:
        screen.warn(f"{missing} labels of {path} belong to no row of {data}")
    return result


def _label_column(table: pd.DataFrame, path: str, given: _Columns) -> str:
    others = [str(name) for name in table.columns if name != given.id]
    for name in (given.target, "label"):
        if name in others:
            return str(name)
    if len(others) != 1:
        from adacsl.datasets.errors import listed  # noqa: PLC0415

        raise ValueError(
            f"the label column of {path} is not clear: call it {given.target or 'label'}; it has {listed(others)}"
        )
    return others[0]


def _check_ids(table: pd.DataFrame, path: str, name: str) -> None:
    from adacsl.datasets.errors import check_column  # noqa: PLC0415

    check_column(name, table.columns, path)
    doubled = table[name].duplicated()
    if doubled.any():
        raise ValueError(f"{path} has several labels of {name} {table.loc[doubled, name].iloc[0]!r}: keep one of each")


def _as_classes(classifier: CostSensitiveClassifier, values: pd.Series[Any]) -> np.ndarray[Any, Any]:
    """Return labels as classes of the model, None where a label is missing."""
    classes = classifier.classes_.tolist()
    known: dict[Any, Any] = {}
    for value in values.dropna().unique().tolist():
        result = [label for label in classes if same_label(label_name(label), value)]
        if not result:
            raise ValueError(
                f"the label {value!r} is none of the classes the model was trained on "
                f"({', '.join(label_name(label) for label in classes)})"
            )
        known[value] = result[0]
    named = np.full(len(values), None, dtype=object)
    there = values.notna().to_numpy()
    named[there] = [known[value] for value in values[there].tolist()]
    return named


def resolved(costs: CostMatrix, frame: pd.DataFrame, data: str) -> CostMatrix:
    """Return the costs of the samples of a table."""
    if costs.resolved:
        return costs
    from adacsl.datasets.errors import DataError  # noqa: PLC0415

    try:
        return costs.of(frame)
    except ValueError as error:
        raise DataError(f"{data}: {error}") from None


# what follows


def _write_retuned(
    classifier: CostSensitiveClassifier, result: MonitoringReport, rows: _Rows, notes: dict[str, Any], folder: Path
) -> None:
    """Save a model with a re-tuned decision rule and the notes of the old one."""
    if result.by_labels:
        from adacsl.monitoring.retune import retune  # noqa: PLC0415  pandas

        fresh = retune(classifier, rows.inputs, rows.labels, rows.costs, groups=rows.groups)
    elif not result.enough:
        raise ValueError(
            f"--retuned needs at least ten labels of each class, or more samples: {result.rows} are too few"
        )
    elif result.prior is None:
        raise ValueError("--retuned needs at least ten labels of each class: this model has no held-out scores")
    else:
        fresh = _under_prior(classifier, result)
    save_model(fresh, folder, notes, force=False)


def _under_prior(classifier: CostSensitiveClassifier, result: MonitoringReport) -> CostSensitiveClassifier:
    from adacsl.decision.policy import Policy  # noqa: PLC0415

    shares = result.prior.now  # type: ignore[union-attr]
    policy = getattr(classifier, "policy", None) or Policy()
    new = float(shares[1]) if len(shares) == 2 else shares.tolist()
    classifier.policy = dataclasses.replace(policy, prior=new)
    return classifier


def _next(result: MonitoringReport, typed: str, html: Path | None) -> list[str]:
    """Return the command to run next, and for a shifted prior the option that takes it into account at once."""
    if not result.retune:
        return [] if html is not None else [next_command(f"{typed} --html monitor.html")]
    lines = [next_command(f"{typed} --retuned model2/")]
    if result.by_labels or result.prior is None or len(result.classes) > 2:
        return lines
    return [f"or predict under the new prior: adacsl predict ... --prior {result.prior.now[1]:.4g}", *lines]


def _windows(result: MonitoringReport) -> list[Any]:
    if not result.windows:
        return []
    heads = ("samples", "with label", "mean cost", f"{result.level * 100:g} % interval", "expected", "PSI")
    table = listing("time", right=heads)
    for window in result.windows:
        cost = ("", "")
        if window.cost is not None:
            cost = (f"{window.cost.estimate:.4g}", f"[{window.cost.low:.4g}, {window.cost.high:.4g}]")
        psi = "" if window.psi is None else f"{window.psi:.3f}"
        table.add_row(window.name, f"{window.rows:,}", f"{window.labelled:,}", *cost, f"{window.expected:.4g}", psi)
    return ["", table]
