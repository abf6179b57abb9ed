"""``adacsl train``: one method, fitted on all rows and saved as a folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from adacsl.cli.models import check_model_folder, save_model
from adacsl.cli.options import ANY, FREE, Prices, Source, interval_text, net_settings
from adacsl.cli.screen import PLAIN, Answer, Screen, stoppable
from adacsl.core.labels import plain_labels

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.method import Method


def train(
    data: str,
    *,
    out: Path,
    source: Source = ANY,
    prices: Prices = FREE,
    method: str | None = None,
    cv: int | None = None,
    epochs: int | None = None,
    weights: Path | None = None,
    rotate: bool = False,
    device: str = "auto",
    seed: int = 0,
    resume: Path | None = None,
    force: Annotated[bool, Parameter(show_default=False)] = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Fit a method that minimises cost on all rows, and save it.

    Ends with the cost per row to be expected, measured on rows that did not train it. Without costs, both classes
    count alike (inverse class frequencies).

    Parameters
    ----------
    data
        CSV or Parquet file, folder with one subfolder of pictures per class, .npz archive, or a name (`adacsl data`).
    out
        Folder for the model; a model that is there is replaced.
    method
        What to fit, by the names of `adacsl compare`. Default: adacsl-cv for tables, adacsl for pictures.
    cv
        Cross-fit with so many folds; 0: one model and a validation part. Default: as the method says.
    epochs
        How often nets go through the rows; default: by the number of rows.
    weights
        Local weights (.safetensors, .pth) of the picture net's backbone.
    rotate
        Turn training pictures by quarter turns too: for those that have no up and down.
    device
        Where nets train: auto, cpu, cuda, cuda:1 or mps.
    seed
        Of splits, weights and batches.
    resume
        Folder for checkpoints of nets: the same command, started again after an interruption, goes on there.
    force
        Put the model into a folder that holds other files.

    Examples
    --------
    adacsl train loans.csv --target default --positive yes --fn 8 --fp 1 --out model/
    adacsl train loans.csv --target default --positive yes --fn 8 --fp 1 --method gbm-bayes --out model/
    adacsl train photos/ --positive melanoma --fn 8 --fp 1 --weights resnet18.safetensors --out model/
    """
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas

    check_model_folder(out, force=force)
    if cv is not None and (cv < 0 or cv == 1):
        raise ValueError(f"--cv must be 0 or at least 2 folds, got {cv}")
    started = time.perf_counter()
    task = source.load(data, prices)
    if not prices.given and not is_builtin(data):
        screen.note("no costs were given (--fn 8 --fp 1): both classes count alike")
    name = method or ("adacsl" if cv == 0 or (cv is None and task.images) else "adacsl-cv")
    if not task.images and (weights is not None or rotate):
        option = "--rotate is" if weights is None else "--weights are"
        raise ValueError(f"{option} for the net of pictures, but the data are a table")
    net = net_settings(epochs, weights, rotate=rotate)
    made = _unfitted(name, task, cv, net, device=device, seed=seed, resume=resume)
    advice = "nothing was saved; --resume FOLDER keeps checkpoints to go on from"
    if resume:
        advice = f"start it again, with --resume {resume} it goes on where it was"
    notes: dict[str, Any] = {"target": source.target, "prices": asdict(prices), "data": task.source}
    notes |= {"rows": len(task.y), "method": name}
    with stoppable(advice):
        _fit(made, task, screen)
        save_model(made, out, notes, force=force)
    return _answer(made, name, task, out, time.perf_counter() - started)


def _unfitted(
    name: str, task: Task, cv: int | None, net: dict[str, Any], *, device: str, seed: int, resume: Path | None
) -> Method:
    """Return the method of that name with what was said about it; refuse what it has no use for."""
    from adacsl.estimators.learners.net import Net  # noqa: PLC0415  torch
    from adacsl.estimators.methods import choose_methods, needs_net  # noqa: PLC0415

    made = choose_methods([name], images=task.images)[name]
    if needs_net(made):
        made.set_params(learner=Net(**net), device=device, resume=resume)
    else:
        asked = {"epochs": net.get("epochs"), "weights": net.get("weights"), "rotate": net.get("augment")}
        asked |= {"resume": resume, "device": None if device in ("auto", "cpu") else device}
        for option in (word for word, value in asked.items() if value is not None):
            raise ValueError(f"--{option} is for nets, and {name} trains none")
    if cv is not None:
        if made.decide in ("negative", "positive"):
            raise ValueError(f"--cv is for methods that learn, and {name} does not")
        if cv and made.resample == "smote":
            raise ValueError(
                f"--cv {cv}: SMOTE mixes training rows, some of which a cross-fit holds out; take --method oversample"
            )
        made.set_params(cv=cv or None)
    costs = task.costs if task.costs.n_instances is None else None
    made.set_params(costs=costs, positive=plain_labels(task.classes)[1], random_state=seed)
    return made


def _fit(made: Method, task: Task, screen: Screen) -> None:
    labels = np.asarray(plain_labels(task.classes))[task.y]
    priced = () if task.costs.n_instances is None else ("fp", "fn", "tp", "tn")
    own = {name: getattr(task.costs, name) for name in priced}
    trains_nets = hasattr(made.learner, "trainer")
    bar: AbstractContextManager[Any] = screen.progress("training", unit="epochs") if trains_nets else nullcontext()
    with bar as advance:
        if trains_nets:
            made.learner.trainer = {"callbacks": [_epoch_bar(advance)]}
        made.fit(task.X, labels, groups=task.groups, **own)
        if trains_nets:
            made.learner.trainer = None


def _epoch_bar(advance: Callable[..., None]) -> Any:
    """Return a callback that shows epochs and the validation cost."""
    from lightning.pytorch.callbacks import LambdaCallback  # noqa: PLC0415

    def show(trainer: Any, _: Any) -> None:
        cost = trainer.callback_metrics.get("val_cost")
        note = "" if cost is None else f"cost {float(cost):.4g} per row"
        advance(completed=trainer.current_epoch + 1, note=note, total=trainer.max_epochs)

    return LambdaCallback(on_train_epoch_end=show)


def _answer(made: Method, name: str, task: Task, out: Path, seconds: float) -> Answer:
    cost, decision, classes = made.estimated_cost_, made.decision_, plain_labels(task.classes)
    steps = {f"{unit}s": int(made.history_[unit].max()) + 1 for unit in ("epoch", "round") if unit in made.history_}
    document = {
        "model": out,
        "method": name,
        "rows": len(task.y),
        "positives": int(task.y.sum()),
        "classes": classes,
        "positive": classes[1],
        "estimated_cost": {"mean": cost.estimate, "interval": [cost.low, cost.high]},
        "threshold": made.threshold_,
        "probability_threshold": decision.probability_threshold,
        "bayes_threshold": float(made.costs_.threshold),
        "calibration_error": made.calibration_error_,
        "seconds": round(seconds, 1),
    }
    taken = "".join(f"{number} {unit}, " for unit, number in steps.items())
    if decision.decide in ("negative", "positive"):
        how, rule = "on these rows", f"decides {task.classes[decision.decide == 'positive']} about every row"
    else:
        how = "on validation rows" if np.isnan(made.oof_scores_).any() else "out of fold"
        cut = f"{made.threshold_:.4g} (probability above {decision.probability_threshold:.4g})"
        rule = f"decides {task.classes[1]} where the raw score is above {cut}"
    return Answer(
        document | steps,
        (
            f"{name}: {len(task.y)} rows, {int(task.y.sum())} of them positive ({task.classes[1]}); "
            f"{taken}{seconds:.0f} s",
            f"estimated cost per row ({how}): {cost.estimate:.4g}, 95 % interval {interval_text(cost.low, cost.high)}",
            rule,
            f"model saved: {out}",
        ),
    )
