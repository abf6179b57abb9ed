"""``adacsl train``: fit one method on all samples and save the model."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from adacsl.base.labels import plain_labels
from adacsl.base.scores import known
from adacsl.cli.check import load_checked
from adacsl.cli.console import INTERRUPTED, PLAIN, Answer, Screen, listing, next_command, one_line, stoppable
from adacsl.cli.custom_methods import module_word, own_method
from adacsl.cli.model_folder import check_model_folder, note_rows, save_model
from adacsl.cli.options import (
    ADVANCED_METHODS,
    ADVANCED_TRAINING,
    CHECK_DEFAULTS,
    COST_DEFAULTS,
    DATA_DEFAULTS,
    EXECUTION_DEFAULTS,
    MOST_EPOCHS,
    MOST_SPLITS,
    TIME_DEFAULTS,
    TRAINING_CONSTRAINT_DEFAULTS,
    CheckOptions,
    CostOptions,
    DataOptions,
    Device,
    ExecutionOptions,
    Seed,
    TimeOptions,
    TrainingConstraintOptions,
    hidden_text,
    interval_text,
    neural_learner,
    predict_command,
    split_words,
    task_text,
    within,
)
from adacsl.cli.policy import POLICY_DEFAULTS, PolicyOptions
from adacsl.metrics.intervals import Interval, cost_interval

if TYPE_CHECKING:
    import pandas as pd

    from adacsl.costs.matrix import CostMatrix
    from adacsl.datasets.findings import Checks
    from adacsl.datasets.task import Task
    from adacsl.decision.policy import Policy
    from adacsl.estimators.classifier import CostSensitiveClassifier
    from adacsl.neural.learner import NeuralLearner


SHOWN = 12
"""Number of base estimators that are printed."""


def train(  # noqa: PLR0913  one argument for each option
    data: str | None = None,
    *,
    out: Path,
    source: DataOptions = DATA_DEFAULTS,
    cost_options: CostOptions = COST_DEFAULTS,
    policy_options: PolicyOptions = POLICY_DEFAULTS,
    constraint_options: TrainingConstraintOptions = TRAINING_CONSTRAINT_DEFAULTS,
    times: TimeOptions = TIME_DEFAULTS,
    check_options: CheckOptions = CHECK_DEFAULTS,
    execution: ExecutionOptions = EXECUTION_DEFAULTS,
    method: str = "ensemble",
    estimators: Annotated[tuple[str, ...], Parameter(group=ADVANCED_METHODS, show_default=False)] = (),
    time_limit: str | None = None,
    cv: Annotated[int | None, Parameter(group=ADVANCED_TRAINING), within(0, MOST_SPLITS)] = None,
    epochs: Annotated[int | None, Parameter(group=ADVANCED_TRAINING), within(1, MOST_EPOCHS)] = None,
    weights: Annotated[Path | None, Parameter(group=ADVANCED_TRAINING)] = None,
    rotate: Annotated[bool, Parameter(group=ADVANCED_TRAINING, show_default=False)] = False,
    device: Device = "auto",
    seed: Seed = 0,
    resume: Path | None = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Train a model that minimises cost, and save it.

    Ends with the expected cost per sample, estimated on held-out samples. Without costs, classes are balanced (inverse
    class frequencies). Data with an error (`adacsl check`) are refused, exit code 2, unless --ignore names its code.

    Parameters
    ----------
    data
        Table (CSV, Parquet, Excel, ...), folder with one subfolder of images per class, .npz archive, or the name of a
        built-in data set (`adacsl data`); or --sql.
    out
        Folder for the model; an existing model is replaced.
    method
        Name of the method, as in `adacsl compare`. ensemble: gradient boosting, neural networks and a linear model,
        as installed, stacked. module:factory: a function of a module in the working directory that returns a
        scikit-learn classifier.
    estimators
        Base estimators of the ensemble, with commas between them: names of methods, or groups of them such as
        logistic,lightgbm,net.
    time_limit
        Time limit of the ensemble, such as 60s, 5min or 1h: base estimators that would take longer are skipped.
    cv
        Number of folds of the cross-fit; 0: one model (per base estimator) and a validation set. Default: the method's.
    epochs
        Training epochs of neural networks; default: by the number of samples.
    weights
        Local weights (.safetensors, .pth) of the backbone of the image network.
    rotate
        Augment training images by quarter turns: for images without an up and down.
    device
        Device for neural networks: auto, cpu, cuda, cuda:1 or mps.
    seed
        Random seed of splits, weights and batches.
    resume
        Folder for checkpoints of neural networks or finished base estimators: after an interruption, the same command
        resumes from there.
    force
        Save the model into a folder that holds other files.

    Examples
    --------
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --time-limit 60s --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --method gbm-bayes --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --min-recall 0.9 --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --method mine:forest --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --backend ray --address auto --out model/
    adacsl train cards.parquet --target fraud --fn "0.8 * amount + 12" --fp 5 --out model/
    adacsl train --sql "select * from loans" --db bank.duckdb --target default --fn 8 --fp 1 --out model/
    adacsl train claims.csv --target fraud --fn "model(loss)" --fp 150 --out model/
    adacsl train photos/ --pos-label melanoma --fn 8 --fp 1 --weights resnet18.safetensors --out model/
    adacsl train flowers.csv --target kind --costs matrix.csv --out model/
    adacsl train cards.csv --target fraud --fn amount --fp 5 --refer 3 --capacity 200 --per day --out model/
    adacsl train loans.csv --target default --pos-label yes --fn 8 --fp 1 --time-column applied --gap 7d --out model/
    """
    check_model_folder(out, force=force)
    if cv == 1:
        raise ValueError(f"--cv must be 0 or at least 2 folds, got {cv}")
    stacked = _ensemble_settings(method, estimators, time_limit)
    limits = constraint_options.given
    constraint_options.check(groups=source.group_column is not None)
    started = time.perf_counter()
    task, findings = load_checked(source, data, cost_options, check_options, refuse=True, time_column=times.time_column)
    if not task.images and (weights is not None or rotate):
        option = "--rotate is" if weights is None else "--weights are"
        raise ValueError(f"{option} for image networks, but the data are a table")
    times.check(task.time)
    constraint_options.check_column(task)
    neural = neural_learner(epochs, weights, rotate=rotate)
    made = _unfitted(method, task, neural, stacked, device=device, resume=resume)
    if execution.trainer:
        _train_on(made, method, execution.trainer)
    if cv is not None:
        _cross_fit(made, method, cv)
    costs = _costs(task)
    positive = plain_labels(task.classes)[1] if len(task.classes) == 2 else None
    policy = _checked_policy(policy_options, times, task, made)
    made.set_params(costs=costs, pos_label=positive, random_state=seed, policy=policy, constraints=limits)
    made.set_params(certify=constraint_options.certify)
    made.check_settings()
    advice = "nothing was saved; --resume FOLDER keeps checkpoints to resume from"
    if resume:
        advice = f"start it again, with --resume {resume} it resumes where it was"
    notes: dict[str, Any] = {"target": source.target, "costs": asdict(cost_options), "data": task.source}
    notes |= {"rows": len(task.y), "method": method, "times": asdict(times), **task.reading.facts()}
    notes["training_rows"] = note_rows(task.X, task.y)
    if method == "ensemble":
        made.set_params(verbose=not screen.quiet)  # it reports its own progress
    if line := hidden_text(task):
        screen.note(line)
    screen.findings(findings)  # once nothing else is wrong
    with stoppable(advice):
        _fit(made, method, task, times, screen)
        save_model(made, out, notes, force=force)
    following = predict_command(out, data, source, module_word(made.learner))
    seconds, checks = time.perf_counter() - started, (findings, made.check(check_options.codes))
    return _answer(made, method, task, out, seconds, checks, following)


def _checked_policy(
    policy_options: PolicyOptions, times: TimeOptions, task: Task, made: CostSensitiveClassifier
) -> Policy | None:
    """Return the policy to be saved with the model; refuse at once what could not decide in the end."""
    from adacsl.decision.policy import BLIND, action_costs, read_prior  # noqa: PLC0415  scikit-learn

    policy = policy_options.policy(None, None if policy_options.per is None else times.time_column)
    if policy.empty:
        return None
    if made.decide in BLIND:
        raise ValueError("a policy needs expected costs, which this method does not use: choose another --method")
    action_costs(policy, task.costs.averaged(), None, task.classes)
    if policy.prior is not None and not isinstance(policy.prior, str):
        read_prior(policy.prior, np.asarray(task.classes))
    return policy


def _costs(task: Task) -> CostMatrix | None:
    """Return the costs as a parameter, also over columns that are features; None where samples have their own."""
    costs = task.cost_spec
    seen = () if costs is None else set(costs.columns) - set(costs.hidden)
    if costs is not None and not costs.resolved and set(seen) <= set(map(str, task.X.columns)):
        return costs
    if task.costs.n_instances is not None and task.costs.n_classes > 2:
        raise ValueError(
            "costs of more than two classes may only depend on columns that are features: do not drop them"
        )
    return task.costs if task.costs.n_instances is None else None


def _ensemble_settings(method: str, estimators: tuple[str, ...], time_limit: str | None) -> dict[str, Any]:
    """Return the settings of the ensemble that are given; refuse them where another method is fitted."""
    settings = {"estimators": split_words(estimators) or None, "time_limit": time_limit}
    settings = {name: value for name, value in settings.items() if value is not None}
    for name in settings if method != "ensemble" else ():
        option = "--" + name.replace("_", "-")
        raise ValueError(f"{option} is for the ensemble, but {method} is not an ensemble: omit --method, or {option}")
    return settings


def _unfitted(
    name: str, task: Task, neural: NeuralLearner | None, stacked: dict[str, Any], *, device: str, resume: Path | None
) -> CostSensitiveClassifier:
    """Return the unfitted method of that name with its settings; refuse settings that it does not use."""
    from adacsl.ensemble.base_estimators import choose_estimators  # noqa: PLC0415
    from adacsl.ensemble.classifier import EnsembleClassifier, seconds_of  # noqa: PLC0415  scikit-learn
    from adacsl.estimators.registry import choose_methods, needs_network  # noqa: PLC0415
    from adacsl.neural.learner import NeuralLearner  # noqa: PLC0415

    if name == "ensemble":
        seconds_of(stacked.get("time_limit"))
        choose_estimators(stacked.get("estimators", "auto"), images=task.images)
        stack: CostSensitiveClassifier = EnsembleClassifier(neural=neural, device=device, resume=resume, **stacked)
        return stack
    short, item = own_method(name) if ":" in name else (name, None)
    (made,) = choose_methods([name if item is None else (short, item)], images=task.images).values()
    if needs_network(made):
        learner = NeuralLearner() if made.learner == "net" else made.learner  # a method of one's own may have settings
        learner.set_params(**({} if neural is None else neural.changed()))
        made.set_params(learner=learner, device=device, resume=resume)
    else:
        given = {} if neural is None else neural.changed()
        asked = {"epochs": given.get("epochs"), "weights": given.get("weights"), "rotate": given.get("augment")}
        asked |= {"resume": resume, "device": None if device in ("auto", "cpu") else device}
        for option in (word for word, value in asked.items() if value is not None):
            raise ValueError(f"--{option} is for neural networks, but {name} trains no network: omit it")
    return made


def _train_on(made: CostSensitiveClassifier, name: str, trainer: dict[str, Any]) -> None:
    """Set where to train; refuse it for methods that are not an ensemble."""
    if "backend" not in made.get_params(deep=False):
        raise ValueError(f"--backend and --n-jobs are for the ensemble, but {name} is not an ensemble: omit them")
    made.set_params(**trainer)


def _cross_fit(made: CostSensitiveClassifier, name: str, cv: int) -> None:
    if made.decide in ("negative", "positive"):
        raise ValueError(f"--cv is for methods that learn, but {name} does not: omit it")
    if cv and made.resample == "smote":
        raise ValueError(
            f"--cv {cv}: SMOTE mixes training rows, some of which a cross-fit holds out; use --method oversample"
        )
    made.set_params(cv=cv or None)


def _fit(made: CostSensitiveClassifier, name: str, task: Task, times: TimeOptions, screen: Screen) -> None:
    from adacsl.datasets.costs import CostWarning  # noqa: PLC0415  pandas

    labels = np.asarray(plain_labels(task.classes))[task.y]
    priced = () if made.costs is not None else ("fp", "fn", "tp", "tn")
    own = {name: getattr(task.costs, name) for name in priced}
    trains_networks = hasattr(made.learner, "module")
    title, unit = (name, "epochs") if trains_networks else (f"training {name}", "")
    shows = name == "ensemble"  # its own progress
    bar: AbstractContextManager[Any] = nullcontext() if shows else screen.progress(title, unit=unit)
    with bar as advance, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "base estimator .* is skipped")  # part of the answer
        warnings.simplefilter("ignore", CostWarning)  # shown by the checks
        if trains_networks:
            trainer = made.learner.trainer or {}
            callbacks = [*trainer.get("callbacks", ()), _epoch_bar(advance, made.cv)]
            made.learner.trainer = trainer | {"callbacks": callbacks}
        made.fit(
            task.X, labels, groups=task.groups, time=task.time, gap=times.gap, label_delay=times.label_delay, **own
        )  # fmt: skip
        if trains_networks:
            made.learner.trainer = trainer or None


def _epoch_bar(advance: Callable[..., None], folds: Any) -> Any:
    """Return a callback that shows the fold, the epochs and the validation cost."""
    from adacsl.integrations.lightning import pl  # noqa: PLC0415  torch

    started = 0

    def start(*_: Any) -> None:
        nonlocal started
        started += 1

    def show(trainer: Any, module: Any) -> None:
        cost = trainer.callback_metrics.get("val_cost")
        together = len(getattr(module, "_members", ())) > 1
        fold = [] if not isinstance(folds, int) else [f"{folds} folds" if together else f"fold {started} of {folds}"]
        note = ", ".join([*fold, *([] if cost is None else [f"cost {float(cost):.4g}"])])
        advance(completed=trainer.current_epoch + 1, note=note, total=trainer.max_epochs)

    return pl.callbacks.LambdaCallback(on_train_start=start, on_train_epoch_end=show)


def _answer(
    made: CostSensitiveClassifier, name: str, task: Task, out: Path, seconds: float, checks: tuple[Checks, Checks],
    following: str,
) -> Answer:  # fmt: skip
    cost, decision, classes = made.estimated_cost_, made.decision_, plain_labels(task.classes)
    board = getattr(made, "leaderboard_", None)
    document = {
        "model": out,
        "method": name,
        "rows": len(task.y),
        **task.reading.facts(),
        "classes": classes,
        "estimated_cost": {"mean": cost.estimate, "interval": [cost.low, cost.high]},
        "calibration_error": made.calibration_error_,
        "seconds": round(seconds, 1),
        **({"times": made.times_} if made.times_ else {}),
        "checks": checks[0].to_list(),
        "model_checks": checks[1].to_list(),
        "next": following,
    }
    if len(classes) == 2:
        document |= {
            "positives": int(task.y.sum()),
            "pos_label": classes[1],
            "threshold": made.threshold_,
            "probability_threshold": decision.probability_threshold,
            "bayes_threshold": float(made.costs_.threshold),
        }
    if made.constraints_:
        document["constraints"] = {name: each._asdict() for name, each in made.constraints_.items()}
    under = _policy_cost(made, task)
    if under is not None:
        document["policy_cost"] = {"mean": under.estimate, "interval": [under.low, under.high]}
    steps = _steps(made)
    steps_text = "".join(f"{number} {unit if number != 1 else unit[:-1]}, " for unit, number in steps.items())
    if decision.decide in ("negative", "positive"):
        how, rule = "on these samples", f"decides {task.classes[decision.decide == 'positive']} for every sample"
    else:
        how = "on validation samples" if np.isnan(made.oof_scores_).any() else "out of fold"
        how = "on held-out samples" if made.constraints else how
        how = "on later samples" if made.times_ else how
        rule = _rule(made, task)
    stopped = board is not None and bool((board["left_out"] == "interrupted").any())
    return Answer(
        document | steps | ({} if board is None else {"leaderboard": board.to_dict("records"), "stopped": stopped}),
        (
            f"{name}: {task_text(task)}; {steps_text}{seconds:.0f} s",
            f"estimated mean cost per sample ({how}): {cost.estimate:.4g}, "
            f"95 % interval {interval_text(cost.low, cost.high)}",
            *([] if under is None or made.policy is None else [_under_policy(under, made.policy, task)]),
            rule,
            *_constraint_lines(made),
            *([made.times_] if made.times_ else []),
            *_predicted_costs(made),
            *(() if board is None else _leaderboard(board)),
            *(["stopped by Ctrl-C: the model consists of the base estimators that were finished"] if stopped else []),
            *map(str, checks[1]),
            f"model: {out}",
            next_command(following),
        ),
        code=INTERRUPTED if stopped else 0,
    )


def _policy_cost(made: CostSensitiveClassifier, task: Task) -> Interval | None:
    """Return what held-out rows cost with the policy's actions and capacity; None where it has none."""
    from adacsl.decision.policy import decide, ordered_labels  # noqa: PLC0415  scikit-learn

    policy = made.policy
    if policy is None or (policy.refer is None and policy.actions is None and policy.capacity is None):
        return None
    seen = known(made.oof_scores_)
    capacity = policy.capacity
    if capacity is not None and not (made.times_ and policy.per):  # later rows are all there are of their periods
        capacity = round(capacity * float(np.mean(seen)))
    usual = replace(policy, capacity=capacity, prior=None)
    y, costs = task.y[seen], task.costs.rows(seen)
    times = None if task.time is None else task.time[seen]
    probabilities = made.decision_.probabilities(made.oof_scores_[seen], costs=costs)
    decisions = decide(probabilities, made.decision_, ordered_labels(made), costs=costs, policy=usual, times=times)
    groups = None if task.groups is None else task.groups[seen]
    return cost_interval(decisions.costs, y, decisions.actions, groups=groups)


def _under_policy(cost: Interval, policy: Policy, task: Task) -> str:
    from adacsl.decision.policy import action_costs, limited_name  # noqa: PLC0415  scikit-learn

    how = "the other actions, without a limit"
    if policy.capacity is not None:
        names = np.asarray(task.classes)
        action = limited_name(policy, action_costs(policy, task.costs.averaged(), None, task.classes), names)
        rate = f"in all {len(task.y):,} samples" if policy.per is None else f"per {policy.per}"
        how = f"at most {policy.capacity:,} {str(action)!r} {rate}"
    return f"with {how}: {cost.estimate:.4g}, 95 % interval {interval_text(cost.low, cost.high)}"


def _constraint_lines(made: CostSensitiveClassifier) -> Iterator[str]:
    """Yield what is known of each constraint."""
    from adacsl.decision.rule import describe_certified  # noqa: PLC0415  scikit-learn

    for name, each in (made.constraints_ or {}).items():
        yield describe_certified(name, each)


def _predicted_costs(made: CostSensitiveClassifier) -> Iterator[str]:
    """Yield how well per-sample costs can be predicted."""
    for model in made.cost_spec_.models if made.cost_spec_ is not None else ():
        share = f"{100 * max(model.explained_, 0.0):.0f} %"
        yield f"the cost {model.cost.text} is predicted: out of fold, the features explain {share} of its variance"


def _rule(made: CostSensitiveClassifier, task: Task) -> str:
    if len(task.classes) > 2:
        return f"decides the one of {len(task.classes)} classes with the least expected cost"
    if task.costs.n_instances is not None and made.decision_.threshold_for(task.costs) is None:
        usual = f"{made.decision_.probability_threshold:.4g}"
        return f"decides {task.classes[1]} by each sample's own costs; at their mean, above a probability of {usual}"
    threshold = f"{made.threshold_:.4g} (probability above {made.decision_.probability_threshold:.4g})"
    return f"decides {task.classes[1]} where the raw score is above {threshold}"


def _steps(made: CostSensitiveClassifier) -> dict[str, int]:
    """Return the number of epochs or rounds, or of base estimators."""
    if hasattr(made, "leaderboard_"):
        return {"estimators": int((made.leaderboard_["left_out"] == "").sum())}
    return {f"{unit}s": int(made.history_[unit].max()) + 1 for unit in ("epoch", "round") if unit in made.history_}


def _leaderboard(board: pd.DataFrame) -> Iterator[Any]:
    """Yield cost and weight of each base estimator, best first, then those that were skipped, and why."""
    table = listing("base estimator", right=("own cost", "weight", "cost without", "seconds"))
    out = board["left_out"] != ""
    for row in board[~out][:SHOWN].to_dict("records"):
        without = "" if np.isnan(row["without"]) else f"{row['without']:.4g}"
        table.add_row(row["estimator"], f"{row['cost']:.4g}", f"{row['weight']:.2f}", without, f"{row['seconds']:.1f}")
    yield from ("", table)
    if (more := int((~out).sum()) - SHOWN) > 0:
        yield f"... and {more} more"
    yield from (f"skipped: {row['estimator']} ({one_line(row['left_out'])})" for row in board[out].to_dict("records"))
    yield ""
