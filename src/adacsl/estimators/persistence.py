"""A fitted method as a folder of safetensors and JSON, and back; no pickle on either way."""

from __future__ import annotations

import functools
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix
from adacsl.core.intervals import Interval
from adacsl.core.partitions import EqualWidth, Quantile, Whole
from adacsl.core.targets import check_targets
from adacsl.durable import encode
from adacsl.estimators.artefacts import ArtefactError, read_artefact, write_artefact
from adacsl.estimators.classifiers import AdaCSLBoostingClassifier, AdaCSLClassifier, AdaptiveCostClassifier
from adacsl.estimators.decision import Decision
from adacsl.estimators.forms import (
    check_classes,
    check_elsewhere,
    check_predicts,
    read_cost_names,
    read_labels,
    read_names,
    read_whole,
)
from adacsl.estimators.learners.boosters import Booster, BoosterModel
from adacsl.estimators.learners.constant import Constant
from adacsl.estimators.learners.models import EstimatorModel
from adacsl.estimators.learners.net import Net
from adacsl.estimators.learners.netmodel import NetModel
from adacsl.estimators.learners.numbers import part_of
from adacsl.estimators.learners.portfolio import Portfolio
from adacsl.estimators.learners.stackmodel import StackModel
from adacsl.estimators.method import PLAIN, Method
from adacsl.estimators.policy import Policy
from adacsl.estimators.portfolio import PortfolioClassifier
from adacsl.estimators.settings import settings_of
from adacsl.training.running import choose_device

CLASSIFIERS = (AdaCSLClassifier, AdaCSLBoostingClassifier, AdaptiveCostClassifier, PortfolioClassifier)
KINDS = {kind.__name__: kind for kind in (Method, *CLASSIFIERS)}
MODELS: dict[str, Any] = {"boosters": BoosterModel, "estimators": EstimatorModel}
OUT_OF_FOLD, REFERENCE = "oof_scores", "reference_scores"
HERE_ONLY = ("costs", "policy", "device", "resume", "verbose", "trainer", "weights")
"""Settings of this machine; the costs are kept as fitted, the policy as a part of its own."""
NESTED: dict[str, Any] = {kind.__name__: kind for kind in (dict, Net, Booster, Portfolio)}
PARTITIONS = {kind.__name__: kind for kind in (Whole, EqualWidth, Quantile)}


def save_method(
    method: Method, folder: str | Path, *, notes: dict[str, Any] | None = None, beside: bool = False
) -> Path:
    """Write a fitted method; see :meth:`Method.save`.

    ``notes`` are plain values to be kept with it, part of the same document; ``beside`` is that of
    :func:`~adacsl.estimators.artefacts.write_artefact`.
    """
    tensors, document = _numbers(method)
    return write_artefact(folder, tensors, document | ({} if notes is None else {"notes": notes}), beside=beside)


def _numbers(method: Method) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = type(method).__name__
    if kind not in KINDS:
        raise ArtefactError(f"{kind} cannot be saved: it is not one of {', '.join(KINDS)}")
    try:
        arrays, about = method.model_.numbers()
    except ValueError as error:
        raise ArtefactError(str(error)) from None
    tensors = {f"model.{name}": value for name, value in arrays.items()}
    if hasattr(method, "oof_scores_"):
        tensors[OUT_OF_FOLD] = np.ascontiguousarray(method.oof_scores_)
    if hasattr(method, "reference_scores_"):
        tensors[REFERENCE] = np.ascontiguousarray(method.reference_scores_)
    document = _describe(method, kind) | {"model": about}
    if hasattr(method, "student_"):
        own, document["student"] = _numbers(method.student_)
        tensors |= {f"student.{name}": value for name, value in own.items()}
    return tensors, document


def load(folder: str | Path, *, module: Any = None, device: str = "auto") -> Method:
    """Read a method that its ``save`` wrote.

    Parameters
    ----------
    folder : path
        The artefact.
    module : nn.Module or callable, optional
        The net or factory it was trained with, where that was not one of adacsl's own: code is never stored.
    device : str, default "auto"
        Where to predict.
    """
    return load_noted(folder, module=module, device=device)[0]


def load_noted(
    folder: str | Path, *, module: Any = None, device: str = "auto", digest: str | None = None
) -> tuple[Method, dict[str, Any] | None]:
    """Read a method, and the notes that were kept with it; arguments are those of :func:`load`.

    With a ``digest``, that of :func:`~adacsl.estimators.artefacts.artefact_digest`, no other model is read.
    """
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"folder must be the path of a saved classifier, got {folder!r}")
    choose_device(device)  # says so where it is absent
    tensors, document = read_artefact(Path(folder), digest=digest)
    kind, notes = document.get("kind"), document.get("notes")
    if not isinstance(kind, str) or kind not in KINDS:
        raise ArtefactError(f"{folder} holds {str(kind)[:40]!r}, not a classifier of adacsl")
    try:
        if not isinstance(notes, dict | None):
            raise TypeError("its notes are none")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # what is wrong is refused
            method = _rebuild(tensors, document, module, device)
            check_predicts(method, document["model"])
    except (ArtefactError, ImportError):
        raise
    except Exception as error:  # right digests, wrong content: whatever libraries say about it
        raise ArtefactError(f"{folder} is not a complete classifier ({_told(error)}); save it again") from error
    return method, notes


def _told(error: Exception) -> str:
    """Return what an error says in one line that any terminal shows."""
    line = " ".join(f"{str(error) or type(error).__name__:.1000}".split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:300]


def _describe(method: Method, kind: str) -> dict[str, Any]:
    params = {k: v for k, v in method.get_params(deep=False).items() if k not in HERE_ONLY}
    plain = {k: v for k, v in params.items() if v is None or isinstance(v, bool | int | float | str)}
    if "members" in params:
        plain["members"] = params["members"] if _is_plain(params["members"]) else None
    nested = {k: _inside(k, params[k]) for k in (*method.NESTED, "learner") if k in params and k not in plain}
    fitted: dict[str, Any] = {}
    if hasattr(method, "estimated_cost_"):
        fitted = {"estimated_cost": list(method.estimated_cost_), "calibration_error": method.calibration_error_}
    if hasattr(method, "saving_"):
        fitted["saving"] = list(method.saving_)
    if method.policy is not None:
        fitted["policy"] = method.policy.to_dict()
    if hasattr(method, "leaderboard_"):
        fitted["leaderboard"] = method.leaderboard_.to_dict(orient="list")
    return fitted | {
        "kind": kind,
        "params": plain,
        "nested": nested,
        "learner": method.model_.kind,
        "costs": method.costs_.to_dict(),
        "said_costs": said.to_dict() if (said := getattr(method, "said_costs_", None)) else None,
        "sample_costs": list(getattr(method, "sample_costs_", ())),
        "decision": method.decision_.to_dict(),
        "classes": {"dtype": method.classes_.dtype.str, "values": method.classes_.tolist()},
        # more than two classes have none
        "positive": next(iter(np.flatnonzero(method.classes_ == method.positive_).tolist()), None),
        "target": method.target_,
        "adapted": method.adapted_,
        "target_costs": list(method.target_costs_.items()),
        "history": method.history_.to_dict(orient="list"),
        "image_shape": list(method.image_shape_) if method.images_ else None,
        "n_features_in": method.n_features_in_,
        "feature_names_in": getattr(method, "feature_names_in_", np.asarray([])).tolist(),
        "left_out": list(getattr(method, "left_out_", ())),
        "times": getattr(method, "times_", ""),
    }


def _inside(name: str, value: Any) -> dict[str, Any]:
    """Return settings that travel as one value: what they are of, and those that are plain values."""
    if isinstance(value, AdaptiveWeight):
        value = settings_of(value)
    kind = "Net" if name == "net" else type(value).__name__
    if kind not in NESTED:
        return {"kind": None, "settings": {}}  # an estimator of another kind, which cannot be told in plain values
    given = dict(value) if isinstance(value, dict) else value.get_params(deep=False)
    usual = {} if kind == "dict" else NESTED[kind]().get_params()
    plain = {k: v for k, v in given.items() if k not in HERE_ONLY and _is_plain(v) and (k, v) not in usual.items()}
    if not _is_plain(given.get("members")):
        plain["members"] = None
    part = given.get("partition")
    if type(part).__name__ in PARTITIONS:
        plain["partition"] = {"kind": type(part).__name__, **vars(part)}
    return {"kind": kind, "settings": plain}


def _is_plain(value: Any) -> bool:
    try:
        encode(value, "")
    except TypeError:
        return False
    return True


def _nested(about: dict[str, Any]) -> Any:
    """Return the settings that :func:`_inside` described."""
    if about["kind"] is None:
        return None
    settings = dict(about["settings"])
    check_elsewhere(settings, HERE_ONLY)
    if settings.get("partition"):
        part = dict(settings["partition"])
        settings["partition"] = PARTITIONS[part.pop("kind")](**part)
    return NESTED[about["kind"]](**settings)


def _rebuild(tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> Method:
    costs = CostMatrix.from_dict(document["costs"])
    check_classes(document["model"], costs.n_classes)
    said = CostMatrix.from_dict(document["said_costs"]) if document.get("said_costs") else None
    method = _unfitted(document, costs if said is None else _forgotten(said), device)
    method.costs_, method.said_costs_ = costs, said
    method.sample_costs_ = read_cost_names(document.get("sample_costs", []))
    method.decision_ = Decision.from_dict(document["decision"], costs)
    method.classes_ = read_labels(document["classes"], costs.n_classes)
    method.positive_ = None if costs.n_classes > 2 else method.classes_[[0, 1].index(document["positive"])]
    method.target_ = _target(document["target"], costs)
    method.adapted_ = bool(document["adapted"])
    method.target_costs_ = {t if t == PLAIN else _target(t, costs): float(c) for t, c in document["target_costs"]}
    method.history_ = pd.DataFrame(document["history"])
    method.n_features_in_ = read_whole("n_features_in", document["n_features_in"])
    if document["feature_names_in"]:
        method.feature_names_in_ = read_names(document["feature_names_in"], method.n_features_in_)
    method.left_out_ = tuple(str(name) for name in document.get("left_out", ()))
    method.times_ = str(document.get("times", ""))
    method.images_ = document["image_shape"] is not None
    if method.images_:
        method.image_shape_ = tuple(read_whole("image_shape", side) for side in document["image_shape"])
    if "estimated_cost" in document:
        method.estimated_cost_ = Interval(*map(float, document["estimated_cost"]))
        method.calibration_error_ = float(document["calibration_error"])
        method.oof_scores_ = tensors[OUT_OF_FOLD].numpy()
    if "saving" in document:
        method.saving_ = Interval(*map(float, document["saving"]))
    if REFERENCE in tensors:
        method.reference_scores_ = tensors[REFERENCE].numpy()
    if "policy" in document:
        method.policy = Policy.from_dict(document["policy"])
    if "leaderboard" in document:
        method.leaderboard_ = pd.DataFrame(document["leaderboard"])
    if "student" in document:
        method.student_ = _rebuild(part_of(tensors, "student."), document["student"], module, device)
    method.model_ = _model(method, tensors, document, module, device)
    return method


def _target(saved: Any, costs: CostMatrix) -> float | str:
    """Return a target as it was: a number, or a word of more than two classes."""
    return check_targets(saved, costs) if costs.n_classes > 2 else float(saved)


def _forgotten(said: CostMatrix) -> CostMatrix:
    """Return costs as a setting: prices that were learned are to be learned anew by another fit."""
    return said.made(lambda recipe, *_: recipe.forgotten() if hasattr(recipe, "forgotten") else recipe)


def _unfitted(document: dict[str, Any], costs: CostMatrix, device: str) -> Method:
    kind = KINDS[document["kind"]]
    check_elsewhere(document["params"], HERE_ONLY)
    given = document["params"] | ({"estimator": None} if kind is AdaptiveCostClassifier else {})
    here = {"device": device} if kind in (Method, AdaCSLClassifier, PortfolioClassifier) else {}
    nested = {name: _nested(about) for name, about in document["nested"].items()}
    unfitted: Method = kind(costs=costs, **(given | nested | here))
    return unfitted


def _model(method: Method, tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> Any:
    net = None
    if document["learner"] == "nets":
        name = "net" if isinstance(method, AdaCSLClassifier) else "learner"
        net = getattr(method, name) if isinstance(getattr(method, name), Net) else Net()
        method.set_params(**{name: net})
    own = part_of(tensors, "model.")
    return read_model(document["learner"], own, document["model"], net=net, module=module, device=device)


def read_model(
    kind: str, tensors: dict[str, Any], about: dict[str, Any], *, net: Net | None = None, module: Any = None,
    device: str = "auto",
) -> Any:  # fmt: skip
    """Return a model of any kind from what its ``numbers`` gave.

    ``net`` are the settings of nets, where they are known; ``module`` and ``device`` are those of :func:`load`.
    """
    if kind == "nets":
        return NetModel.from_numbers(tensors, about, net or Net(), module=module, device=device)
    if kind == "stack":
        return StackModel.from_numbers(tensors, about, functools.partial(read_model, module=module, device=device))
    if kind == "constant":
        return Constant()
    return MODELS[kind].from_numbers({name: tensor.numpy() for name, tensor in tensors.items()}, about)
