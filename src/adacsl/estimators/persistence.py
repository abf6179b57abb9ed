"""A trained classifier as a folder of safetensors and JSON, and back; no pickle on either way."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import nn

from adacsl.core.costs import CostMatrix
from adacsl.core.intervals import Interval
from adacsl.datasets.codes import ColumnEncoder
from adacsl.datasets.encoding import TableEncoder
from adacsl.estimators.artefacts import ArtefactError, read_artefact, write_artefact
from adacsl.estimators.boosting import AdaCSLBoostingClassifier, load_engine
from adacsl.estimators.classifier import AdaCSLClassifier
from adacsl.estimators.training import choose_device
from adacsl.torch.tablenet import TableNet

KIND = "AdaCSLClassifier"
BOOSTING = "AdaCSLBoostingClassifier"
NET = "net."
BOOSTER = "booster."
OUT_OF_FOLD = "oof_scores"


def save_classifier(clf: AdaCSLClassifier, folder: str | Path) -> Path:
    """Write a fitted classifier; see :meth:`AdaCSLClassifier.save`."""
    tensors = {NET + name: value for name, value in clf.net_.state_dict().items()}
    tensors[OUT_OF_FOLD] = torch.from_numpy(np.ascontiguousarray(clf.oof_scores_))
    return write_artefact(Path(folder), tensors, _describe(clf))


def save_boosting_classifier(clf: AdaCSLBoostingClassifier, folder: str | Path) -> Path:
    """Write a fitted classifier; see :meth:`AdaCSLBoostingClassifier.save`."""
    engine = load_engine(clf.engine)
    tensors: dict[str, Any] = {
        f"{BOOSTER}{i}": np.frombuffer(engine.to_bytes(model, rounds), dtype=np.uint8)
        for i, (model, rounds) in enumerate(zip(clf.boosters_, clf.rounds_, strict=True))
    }
    tensors[OUT_OF_FOLD] = np.ascontiguousarray(clf.oof_scores_)
    document = _describe_common(clf, BOOSTING) | {
        "encoder": clf.encoder_.to_dict(),
        "rounds": list(clf.rounds_),
        "adapted": clf.adapted_,
    }
    return write_artefact(Path(folder), tensors, document)


def load(
    folder: str | Path, *, module: Any = None, device: str = "auto"
) -> AdaCSLClassifier | AdaCSLBoostingClassifier:
    """Read a classifier that its ``save`` wrote.

    Parameters
    ----------
    folder : path
        The artefact.
    module : nn.Module or callable, optional
        The net or factory it was trained with, where that was not one of adacsl's own: code is never stored.
    device : str, default "auto"
        Where to predict.
    """
    choose_device(device)  # says so where it is absent
    tensors, document = read_artefact(Path(folder))
    kind = document.get("kind")
    if kind not in (KIND, BOOSTING):
        raise ArtefactError(f"{folder} holds {kind!r}, not a classifier of adacsl")
    try:
        if kind == BOOSTING:
            return _rebuild_boosting(tensors, document)
        return _rebuild(tensors, document, module, device)
    except ArtefactError:
        raise
    except (KeyError, TypeError, IndexError, ValueError, AttributeError) as error:
        raise ArtefactError(f"{folder} is not a complete classifier ({error}); save it again") from error


def _describe(clf: AdaCSLClassifier) -> dict[str, Any]:
    return _describe_common(clf, KIND) | {
        "encoder": None if clf.images_ else clf.encoder_.to_dict(),
        "image_shape": list(clf.image_shape_) if clf.images_ else None,
        "net": _describe_net(clf),
        "shifts": list(clf.shifts_),
    }


def _describe_common(clf: Any, kind: str) -> dict[str, Any]:
    params = {k: v for k, v in clf.get_params().items() if isinstance(v, bool | int | float | str)}
    for name in ("device", "resume", "weights", "verbose"):
        params.pop(name, None)
    return {
        "kind": kind,
        "params": params,
        "costs": clf.costs_.to_dict(),
        "classes": {"dtype": clf.classes_.dtype.str, "values": clf.classes_.tolist()},
        "positive": int(np.flatnonzero(clf.classes_ == clf.positive_)[0]),
        "target": clf.target_,
        "threshold": clf.threshold_,
        "target_costs": list(clf.target_costs_.items()),
        "estimated_cost": list(clf.estimated_cost_),
        "calibration_error": clf.calibration_error_,
        "history": clf.history_.to_dict(orient="list"),
        "n_features_in": clf.n_features_in_,
        "feature_names_in": getattr(clf, "feature_names_in_", np.asarray([])).tolist(),
    }


def _describe_net(clf: AdaCSLClassifier) -> dict[str, Any]:
    if isinstance(clf.net_, TableNet):
        net = clf.net_
        return {
            "name": "TableNet", "n_features": net.n_features, "members": net.members, "numeric": net.numeric.tolist(),
            "bins": net.bins, "heads": net.heads, "width": net.width, "depth": net.depth, "dropout": net.dropout,
        }  # fmt: skip
    own = clf.images_ and (clf.module is None or isinstance(clf.module, str))
    return {"name": (clf.module or "resnet18") if own else "custom", "members": len(clf.shifts_)}


def _rebuild(tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> AdaCSLClassifier:
    costs = CostMatrix.from_dict(document["costs"])
    clf = AdaCSLClassifier(costs, **(document["params"] | {"device": device}))
    _restore_common(clf, document, tensors)
    clf.shifts_ = [float(s) for s in document["shifts"]]
    clf.images_ = document["encoder"] is None
    if clf.images_:
        clf.image_shape_ = tuple(document["image_shape"])
    else:
        clf.encoder_ = TableEncoder.from_dict(document["encoder"])
    clf.net_ = _rebuild_net(clf, document["net"], module)
    _fill(clf.net_, {k.removeprefix(NET): v for k, v in tensors.items() if k.startswith(NET)})
    clf.net_.requires_grad_(False).eval()
    return clf


def _rebuild_boosting(tensors: dict[str, Any], document: dict[str, Any]) -> AdaCSLBoostingClassifier:
    clf = AdaCSLBoostingClassifier(CostMatrix.from_dict(document["costs"]), **document["params"])
    _restore_common(clf, document, tensors)
    clf.encoder_ = ColumnEncoder.from_dict(document["encoder"])
    clf.rounds_, clf.adapted_ = [int(rounds) for rounds in document["rounds"]], bool(document["adapted"])
    engine = load_engine(clf.engine)
    clf.boosters_ = [engine.from_bytes(tensors[f"{BOOSTER}{i}"].numpy().tobytes()) for i in range(len(clf.rounds_))]
    return clf


def _restore_common(clf: Any, document: dict[str, Any], tensors: dict[str, Any]) -> None:
    clf.costs_ = CostMatrix.from_dict(document["costs"])
    clf.classes_ = np.asarray(document["classes"]["values"], dtype=np.dtype(document["classes"]["dtype"]))
    clf.positive_ = clf.classes_[document["positive"]]
    clf.target_, clf.threshold_ = float(document["target"]), float(document["threshold"])
    clf.target_costs_ = {float(t): float(c) for t, c in document["target_costs"]}
    clf.estimated_cost_ = Interval(*document["estimated_cost"])
    clf.calibration_error_ = float(document["calibration_error"])
    clf.history_ = pd.DataFrame(document["history"])
    clf.n_features_in_ = int(document["n_features_in"])
    if document["feature_names_in"]:
        clf.feature_names_in_ = np.asarray(document["feature_names_in"], dtype=object)
    clf.oof_scores_ = tensors[OUT_OF_FOLD].numpy()


def _fill(net: nn.Module, state: dict[str, Any]) -> None:
    try:
        net.load_state_dict(state)
    except RuntimeError as error:
        raise ArtefactError(
            f"the saved weights do not fit {type(net).__name__}: {str(error)[:300]}; "
            "give the net it was trained with, load(folder, module=...)"
        ) from error


def _rebuild_net(clf: AdaCSLClassifier, description: dict[str, Any], module: Any) -> nn.Module:
    settings = dict(description)
    name, members = settings.pop("name"), int(settings.pop("members"))
    if name == "TableNet":
        return TableNet(settings.pop("n_features"), members, seeds=[0] * members, **settings)
    if name == "custom" and module is None:
        raise ArtefactError(
            "it was trained with a net that is not adacsl's: give that net too, load(folder, module=...)"
        )
    clf.module = module if name == "custom" else name
    inputs = 0 if clf.images_ else clf.encoder_.n_features_out_
    return nn.ModuleList(clf._make_net(inputs) for _ in range(members))
