"""``adacsl train``: one classifier, saved as a folder."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from adacsl.cli.models import check_model_folder, save_model, training_notes
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
    device: str = "auto",
    seed: int = 0,
    resume: Path | None = None,
    force: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    screen: Screen = PLAIN,
) -> Answer:
    """Train a classifier that minimises cost, and save it.

    Ends with the cost per row to be expected, measured on rows that did not train it. Without costs, both classes
    count alike (inverse class frequencies).

    Parameters
    ----------
    data
        CSV or Parquet file, folder with one subfolder of pictures per class, .npz archive, or a name (`adacsl data`).
    out
        Folder for the model; a model that is there is replaced.
    method
        One of those that `adacsl compare` runs, such as gbm-bayes; default: AdaCSL.
    cv
        Cross-fit with so many folds; 0: one model and a validation part. Default: what the method says; for AdaCSL 5
        for tables, 0 for pictures.
    epochs
        How often to go through the rows; default: by the number of rows.
    weights
        Local weights (.safetensors, .pth) of the picture net's backbone.
    device
        auto, cpu, cuda, cuda:1 or mps.
    seed
        Of splits, weights and batches.
    resume
        Folder for checkpoints: the same command, started again after an interruption, goes on there.
    force
        Put the model into a folder that holds other files.
    """
    from adacsl.datasets.builtin import is_builtin  # noqa: PLC0415  pandas

    check_model_folder(out, force=force)
    prices.check()
    started = time.perf_counter()
    task = source.load(data, prices)
    if not prices.given and not is_builtin(data):
        screen.note("no costs were given (--fn 8 --fp 1): both classes count alike")
    net = net_settings(epochs, weights)
    classifier = _classifier(task, method, cv, net, {"device": device, "random_state": seed, "resume": resume})
    advice = (
        f"start it again, with --resume {resume} it goes on" if resume else "nothing was saved; --resume FOLDER keeps"
    )
    advice += " where it was" if resume else " checkpoints to go on from"
    with stoppable(advice):
        _fit(classifier, task, net, screen)
        save_model(classifier, out, training_notes(source.target, prices, task), force=force)
    return _answer(classifier, task, out, time.perf_counter() - started)


def _classifier(task: Task, name: str | None, cv: int | None, net: dict[str, Any], settings: dict[str, Any]) -> Method:
    from adacsl.estimators.classifiers import AdaCSLClassifier  # noqa: PLC0415  torch
    from adacsl.estimators.methods import method, needs_net, needs_table  # noqa: PLC0415

    if cv is not None and (cv < 0 or cv == 1):
        raise ValueError(f"--cv must be 0 or at least 2 folds, got {cv}")
    if "weights" in net and not task.images:
        raise ValueError("--weights are for the net of pictures, but the data are a table")
    settings |= {"positive": plain_labels(task.classes)[1]} | ({} if cv is None else {"cv": cv or None})
    costs = task.costs if task.costs.n_instances is None else None
    if name is None:
        return AdaCSLClassifier(costs, net=net, **({"cv": None if task.images else 5} | settings))
    made = method(name, costs, **settings)
    if task.images and needs_table(made):
        raise ValueError(f"--method {name} is for tables, but the data are pictures")
    if net and not needs_net(made):
        raise ValueError(f"--epochs and --weights are for nets, and {name} has none")
    return made


def _fit(classifier: Method, task: Task, net: dict[str, Any], screen: Screen) -> None:
    from adacsl.estimators.learners.net import Net  # noqa: PLC0415  torch
    from adacsl.estimators.methods import needs_net  # noqa: PLC0415

    labels = np.asarray(plain_labels(task.classes))[task.y]
    own = (
        {} if task.costs.n_instances is None else {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}
    )
    with screen.progress("training", unit="epochs") as advance:
        shown = net | {"trainer": {"callbacks": [_epoch_bar(advance)]}}
        if hasattr(classifier, "net"):
            classifier.net = shown
        elif needs_net(classifier):
            classifier.learner = Net(**shown)
        classifier.fit(task.X, labels, groups=task.groups, **own)


def _epoch_bar(advance: Callable[..., None]) -> Any:
    """Return a callback that shows epochs and the validation cost."""
    from lightning.pytorch.callbacks import LambdaCallback  # noqa: PLC0415

    def show(trainer: Any, _: Any) -> None:
        cost = trainer.callback_metrics.get("val_cost")
        note = "" if cost is None else f"cost {float(cost):.4g} per row"
        advance(trainer.current_epoch + 1, note=note, total=trainer.max_epochs)

    return LambdaCallback(on_train_epoch_end=show)


def _answer(classifier: Method, task: Task, out: Path, seconds: float) -> Answer:
    cost = classifier.estimated_cost_
    column = classifier.history_.columns[0]
    passed = int(classifier.history_[column].max()) + 1 if column in ("epoch", "round") else 0
    trained = f"; {passed} {column}s" if passed else ""
    document = {
        "model": out,
        "rows": len(task.y),
        "positives": int(task.y.sum()),
        "classes": plain_labels(task.classes),
        "positive": plain_labels(task.classes)[1],
        "estimated_cost": {"mean": cost.estimate, "interval": [cost.low, cost.high]},
        "threshold": classifier.threshold_,
        "bayes_threshold": float(classifier.costs_.threshold),
        "calibration_error": classifier.calibration_error_,
        "epochs": passed,
        "seconds": round(seconds, 1),
    }
    how = "out of fold" if classifier.cv else "on validation rows"
    return Answer(
        document,
        (
            f"{len(task.y)} rows, {int(task.y.sum())} of them positive ({task.classes[1]}){trained}, {seconds:.0f} s",
            f"estimated cost per row ({how}): {cost.estimate:.4g}, 95 % interval {interval_text(cost.low, cost.high)}",
            f"decides {task.classes[1]} where the raw score is above {classifier.threshold_:.4g} "
            f"(probability above {float(classifier.costs_.threshold):.4g})",
            f"model saved: {out}",
        ),
    )


__all__ = ["train"]
