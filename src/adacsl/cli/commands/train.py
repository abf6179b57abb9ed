"""``adacsl train``: one classifier, saved as a folder."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from cyclopts import Parameter

from adacsl.cli.models import check_model_folder, save_model, training_notes
from adacsl.cli.options import ANY, FREE, Prices, Source, interval_text
from adacsl.cli.screen import PLAIN, Advance, Answer, Screen, stoppable
from adacsl.core.labels import plain_labels

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.estimators.classifier import AdaCSLClassifier


def train(
    data: str,
    *,
    out: Path,
    source: Source = ANY,
    prices: Prices = FREE,
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
    cv
        Cross-fit with so many folds; 0: one net and a validation part. Default: 5 for tables, 0 for pictures.
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
    check_model_folder(out, force=force)
    prices.check()
    started = time.perf_counter()
    task = source.load(data, prices)
    if not prices.given and data.lower().replace("_", "-") != task.name:
        screen.note("no costs were given (--fn 8 --fp 1): both classes count alike")
    folds = (0 if task.images else 5) if cv is None else cv
    classifier = _classifier(task, folds, epochs=epochs, weights=weights, device=device, seed=seed, resume=resume)
    advice = (
        f"start it again, with --resume {resume} it goes on" if resume else "nothing was saved; --resume FOLDER keeps"
    )
    advice += " where it was" if resume else " checkpoints to go on from"
    with stoppable(advice):
        _fit(classifier, task, screen)
        save_model(classifier, out, training_notes(source.target, prices, task), force=force)
    return _answer(classifier, task, out, time.perf_counter() - started)


def _classifier(
    task: Task, folds: int, *, epochs: int | None, weights: Path | None, device: str, seed: int, resume: Path | None
) -> AdaCSLClassifier:
    from adacsl.estimators.classifier import AdaCSLClassifier  # noqa: PLC0415  torch

    if folds < 0 or folds == 1:
        raise ValueError(f"--cv must be 0 or at least 2 folds, got {folds}")
    if weights is not None and not task.images:
        raise ValueError("--weights are for the net of pictures, but the data are a table")
    return AdaCSLClassifier(
        task.costs if task.costs.n_instances is None else None,
        positive=plain_labels(task.classes)[1], cv=folds or None, epochs="auto" if epochs is None else epochs,
        weights=weights, device=device, random_state=seed, resume=resume,
    )  # fmt: skip


def _fit(classifier: AdaCSLClassifier, task: Task, screen: Screen) -> None:
    labels = np.asarray(plain_labels(task.classes))[task.y]
    own = (
        {} if task.costs.n_instances is None else {name: getattr(task.costs, name) for name in ("fp", "fn", "tp", "tn")}
    )
    with screen.progress("training", unit="epochs") as advance:
        classifier.trainer = {"callbacks": [_epoch_bar(advance)]}
        classifier.fit(task.X, labels, groups=task.groups, **own)
    classifier.trainer = None


def _epoch_bar(advance: Advance) -> Any:
    """Return a callback that shows epochs and the validation cost."""
    from lightning.pytorch.callbacks import Callback  # noqa: PLC0415

    class EpochBar(Callback):
        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            cost = trainer.callback_metrics.get("val_cost")
            note = "" if cost is None else f"cost {float(cost):.4g} per row"
            advance(trainer.current_epoch + 1, note=note, total=trainer.max_epochs)

    return EpochBar()


def _answer(classifier: AdaCSLClassifier, task: Task, out: Path, seconds: float) -> Answer:
    cost = classifier.estimated_cost_
    epochs = int(classifier.history_["epoch"].max()) + 1
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
        "epochs": epochs,
        "seconds": round(seconds, 1),
    }
    how = "out of fold" if classifier.cv else "on validation rows"
    return Answer(
        document,
        (
            f"{len(task.y)} rows, {int(task.y.sum())} of them positive ({task.classes[1]}); {epochs} epochs, "
            f"{seconds:.0f} s",
            f"estimated cost per row ({how}): {cost.estimate:.4g}, 95 % interval {interval_text(cost)}",
            f"decides {task.classes[1]} where the raw score is above {classifier.threshold_:.4g} "
            f"(probability above {float(classifier.costs_.threshold):.4g})",
            f"model saved: {out}",
        ),
    )


__all__ = ["train"]
