"""Saved models of several kinds to attack, and the tools of those who forge them: digests fit afterwards."""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import safetensors.torch
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression

import adacsl
from adacsl import AdaCSLClassifier, CostMatrix, CostSensitiveClassifier, EnsembleClassifier
from adacsl.estimators.artefact import ArtefactError, read_artefact
from adacsl.estimators.persistence import load_noted, save_method
from adacsl.learners import BoostingLearner
from adacsl.neural import NeuralLearner
from adacsl.storage.documents import sealed

DOCUMENT = "model.json"
LONGEST_LINE = 500


class Model(NamedTuple):
    """A saved model, rows for it, and what it says about them."""

    folder: Path
    rows: pd.DataFrame
    predicted: np.ndarray[Any, Any]


# the models


def table(n: int = 90, classes: int = 2) -> tuple[pd.DataFrame, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(0)
    y = np.arange(n) % classes
    rng.shuffle(y)
    frame = pd.DataFrame(
        {
            "amount": np.round(rng.lognormal(size=n) + y, 2),
            "shop": np.where(rng.random(n) < 0.2 + 0.3 * y, "web", "city"),
            "when": pd.Timestamp("2024-01-01") + pd.to_timedelta(rng.integers(0, 10**7, n), unit="s"),
            "age": rng.integers(18, 80, n).astype(float),
        }
    )
    return frame, np.asarray(["no", "yes", "maybe"])[y]


def models(folder: Path, *, few: bool = False) -> list[Model]:
    """Fit and save models of several kinds; a few of the quickest in the short form."""
    costs, many = (
        CostMatrix(fp=1, fn=6, tp=0.25),
        CostMatrix.from_array([[0, 3, 9], [1, 0, 4], [2, 5, 0]], rows="predicted"),
    )
    spec = CostMatrix(fp=1, fn="0.5 * amount + 2")
    made: dict[str, CostSensitiveClassifier] = {
        "logistic": CostSensitiveClassifier(spec, learner=LogisticRegression(), cv=2, decide="calibrated"),
        "net": AdaCSLClassifier(costs, learner=NeuralLearner(epochs=1)),
        "forest": CostSensitiveClassifier(
            many, learner=RandomForestClassifier(n_estimators=3, max_depth=3), random_state=0
        ),
        "booster": CostSensitiveClassifier(costs, learner=BoostingLearner(library="lightgbm", n_estimators=4)),
    }
    if not few:
        learned = CostMatrix(fp=1, fn=adacsl.CostModel("amount", cv=2))
        made |= {
            "tabm": AdaCSLClassifier(
                costs, learner=NeuralLearner(epochs=1, module={"kind": "tabm", "k": 2, "d_block": 8, "n_bins": 4})
            ),
            "heads": AdaCSLClassifier(
                costs, cv=2, learner=NeuralLearner(epochs=1, module={"heads": 2, "bins": 4, "width": 8})
            ),
            "networks of three": AdaCSLClassifier(many, learner=NeuralLearner(epochs=1)),
            "xgboost": CostSensitiveClassifier(costs, learner=BoostingLearner(library="xgboost", n_estimators=4)),
            "ensemble": EnsembleClassifier(costs, estimators=["logistic", "lightgbm", "histogram"], cv=2, n_jobs=1),
            "ensemble of three": EnsembleClassifier(many, estimators=["logistic", "histogram"], cv=2, n_jobs=1),
            "cost model": CostSensitiveClassifier(learned, learner=LogisticRegression(), cv=2),
            "constant": CostSensitiveClassifier(costs, learner="constant", decide="positive"),
        }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [_saved(folder / name.replace(" ", "-"), method) for name, method in made.items()]


def _saved(folder: Path, method: CostSensitiveClassifier) -> Model:
    many = getattr(method.costs, "n_classes", 2) > 2
    rows, labels = table(classes=3 if many else 2)
    method.set_params(pos_label=None if many else "yes").fit(rows, labels)
    save_method(method, folder, notes={"target": "label", "costs": {"fn": 6.0, "fp": 1.0}, "rows": len(rows)})
    return Model(folder, rows, method.predict_proba(rows))


def answer(place: Path, rows: pd.DataFrame) -> tuple[Any, str | None]:
    """Return what a model says about rows, None where it is refused; and what is wrong with that."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            model, _ = load_noted(place, device="cpu")
        except ArtefactError as error:
            line = str(error)
            fine = len(line) < LONGEST_LINE and line.isprintable()
            return None, None if fine else f"shown in {len(line)} characters: {line[:80]!r}"
        except Exception as error:  # what adacsl does wrong
            return None, f"{type(error).__name__} when loaded: {str(error)[:80]!r}"
        try:
            spec = model.predict_proba(rows)
            model.predict(rows)
        except ValueError:
            return model, None
        except Exception as error:
            return None, f"{type(error).__name__} when it predicts: {str(error)[:80]!r}"
    return spec, None


# forging


def head_of(folder: Path) -> dict[str, Any]:
    head: dict[str, Any] = json.loads((folder / DOCUMENT).read_bytes())
    del head["sha256"]
    return head


def tensor_file(folder: Path) -> Path:
    return next(folder.glob("tensors-*"))


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value[:40]) if isinstance(value, list) else ()
    for key, inner in items:
        yield from paths_of(inner, (*path, key))


def part_at(document: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        document = document[key]
    return document


def tensors_of(folder: Path) -> dict[str, torch.Tensor]:
    """Return the numbers of an artefact as tensors."""
    return {name: torch.as_tensor(own) for name, own in read_artefact(folder)[0].items()}


def resealed(folder: Path, tensors: dict[str, torch.Tensor], what: str) -> str:
    head, content = head_of(folder), safetensors.torch.save({name: own.clone() for name, own in tensors.items()})
    tensor_file(folder).unlink()
    digest = hashlib.sha256(content).hexdigest()
    name = f"tensors-{digest[:16]}.safetensors"
    (folder / name).write_bytes(content)
    head["files"] = {name: {"sha256": digest, "bytes": len(content), "tensors": list(tensors)}}
    (folder / DOCUMENT).write_bytes(sealed(head))
    return what
