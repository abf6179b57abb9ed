"""Saves and loads fitted classifiers without pickle."""

from __future__ import annotations

import functools
import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController, check_targets
from adacsl.base.arrays import part_of
from adacsl.base.extras import resolve
from adacsl.costs.matrix import CostMatrix
from adacsl.decision.policy import Policy
from adacsl.decision.rule import Decision
from adacsl.estimators.artefact import ArtefactError, read_artefact, write_artefact
from adacsl.fitting.candidates import PLAIN
from adacsl.fitting.settings import settings_of
from adacsl.metrics.bins import QuantileBins, SingleBin, UniformBins
from adacsl.metrics.intervals import Interval
from adacsl.storage.documents import encode

if TYPE_CHECKING:
    from adacsl.estimators.classifier import CostSensitiveClassifier

MOST_FEATURES = 2**23
"""Columns that a model may have, and pixels on a side."""
LARGEST_LABEL = 2**12
"""Bytes of a label that may be kept for longer ones: each decision takes so many."""
LABELS = "biufUO"
"""Kinds of numpy's dtypes that labels may have."""


def read_labels(about: Mapping[str, Any], n_classes: int) -> NDArray[Any]:
    """Return the labels of the classes, as many as there are, all different."""
    kind, values = np.dtype(str(about["dtype"])), list(about["values"])
    if kind.kind not in LABELS:
        raise ValueError(f"labels cannot be {str(kind)[:20]}")
    if not all(isinstance(value, bool | int | float | str) for value in values) or len(set(values)) < len(values):
        raise ValueError("labels are different texts or numbers")
    if len(values) != n_classes:
        raise ValueError(f"{len(values)} classes, but costs of {n_classes}")
    return np.asarray(values, dtype=str if kind.kind == "U" and kind.itemsize > LARGEST_LABEL else kind)


def read_cost_names(names: Any) -> tuple[str, ...]:
    """Return which costs differed between samples."""
    if not isinstance(names, list) or not set(names) <= {"fp", "fn", "tp", "tn"}:
        raise ValueError("costs of each sample are some of fp, fn, tp and tn")
    return tuple(names)


def read_whole(name: str, value: Any) -> int:
    """Return a number of columns, or of pixels."""
    if type(value) is not int or not 1 <= value <= MOST_FEATURES:
        raise ValueError(f"{name} must be a whole number from 1 to {MOST_FEATURES}")
    return value


def read_names(names: Sequence[Any], n_features: int) -> NDArray[Any]:
    """Return the names of the columns, one for each."""
    if len(names) != n_features or not all(isinstance(name, str) for name in names):
        raise ValueError(f"{n_features} columns need as many names")
    return np.asarray(names, dtype=object)


def check_elsewhere(settings: Mapping[str, Any], here_only: Sequence[str]) -> None:
    """Raise where a saved model holds settings of the machine: devices, files to read or write."""
    if result := [name for name in here_only if name in settings]:
        raise ValueError(f"a saved model has no {result[0]}")


def check_classes(about: Any, n_classes: int) -> None:
    """Raise where parts of a model differ in the number of classes, before memory is allocated."""
    for part in _parts(about):
        for name in ("n_classes", "outputs"):
            if part.get(name, n_classes) != n_classes or isinstance(part.get(name), bool):
                raise ValueError(f"{name} is not {n_classes}, the number of classes")


def _parts(about: Any) -> Iterator[dict[str, Any]]:
    if isinstance(about, dict):
        yield about
        about = [inner for name, inner in about.items() if name != "frequencies"]  # whose names are those of levels
    for inner in about if isinstance(about, list) else ():
        yield from _parts(inner)


def check_predicts(method: Any, about: Any) -> None:
    """Refuse a model that cannot predict two plain samples, one of them empty where missing values are allowed.

    The network for images is not tried: its weights have the shapes that they must have. So are pipelines that
    get the table as it is: the content of their columns is unknown.
    """
    if method.images_ or any(each["kind"] == "skops" for each in _unencoded(about)):
        return
    result = method.decision_probabilities(plain_rows(method, about))
    wanted = (2, len(method.classes_)) if len(method.classes_) > 2 else (2,)
    if result.shape != wanted or not ((result >= 0) & (result <= 1)).all():
        raise ValueError("it predicts no probabilities")


def _unencoded(about: Any) -> list[Mapping[str, Any]]:
    """Return the warning about estimators that get the table as it is."""
    return [each for part in _parts(about) if part.get("encoder", "") is None for each in part.get("estimators", ())]


def plain_rows(method: Any, about: Any) -> Any:
    """Return two samples of the columns that a model was trained on."""
    encoders = [part["columns"] for part in _parts(about) if "columns" in part and "format" in part]
    names = getattr(method, "feature_names_in_", None)
    unencoded = _unencoded(about)
    # sums and graphs take no missing values
    if not encoders or any("intercept" in each or each["kind"] in NUMBERS_ONLY for each in unencoded):
        rows = np.zeros((2, method.n_features_in_))
        return rows if names is None else pd.DataFrame(rows, columns=names)
    if len(encoders[0]) != method.n_features_in_:
        raise ValueError(f"{len(encoders[0])} columns are described, and {method.n_features_in_} announced")
    columns = [_plain_column(rule) for rule in encoders[0]]
    if names is None:
        return np.stack(columns, axis=1)
    return pd.DataFrame(dict(zip(names, columns, strict=True)))


def _plain_column(rule: Mapping[str, Any] | None) -> NDArray[Any]:
    kind = None if rule is None else rule["kind"]
    if kind == "category":
        return np.asarray([None, "?"], dtype=object)
    return np.asarray([None, "1970-01-02" if kind == "date" else 0.0 if kind == "number" else None], dtype=object)


NUMBERS_ONLY = ("OnnxClassifier", "ScoreClassifier")
CLASSIFIERS = {
    "CostSensitiveClassifier": "adacsl.estimators.classifier:CostSensitiveClassifier",
    "AdaCSLClassifier": "adacsl.estimators.adacsl:AdaCSLClassifier",
    "EnsembleClassifier": "adacsl.ensemble.classifier:EnsembleClassifier",
}
"""The classes of classifiers by the ``kind`` of a document: it names a row of this table, and nothing to import."""
MODELS = {
    "net": "adacsl.neural.model:NetModel",
    "boosters": "adacsl.learners.booster_model:BoosterModel",
    "estimators": "adacsl.learners.estimator_model:EstimatorModel",
    "stack": "adacsl.learners.stack:StackModel",
    "constant": "adacsl.learners.constant:Constant",
}
"""What predicts, by the ``learner`` of a document; only the modules that a model needs are imported."""
SETTINGS = {
    "dict": "builtins:dict",
    "NeuralLearner": "adacsl.neural.learner:NeuralLearner",
    "BoostingLearner": "adacsl.learners.boosting:BoostingLearner",
    "EnsembleSettings": "adacsl.ensemble.classifier:EnsembleSettings",
}
"""Settings of learners that are saved with a classifier, by their kind."""
DEVICE = re.compile(r"auto|(cpu|cuda|mps)(:[0-9]*)?")
OUT_OF_FOLD, REFERENCE = "oof_scores", "reference_scores"
HERE_ONLY = ("costs", "policy", "device", "resume", "verbose", "trainer", "backend", "address", "gpus", "weights")
"""Settings of this machine; the costs are kept as fitted, the policy as a part of its own."""
PARTITIONS = {kind.__name__: kind for kind in (SingleBin, UniformBins, QuantileBins)}


def save_method(
    method: CostSensitiveClassifier, folder: str | Path, *, notes: dict[str, Any] | None = None, beside: bool = False
) -> Path:
    """Write a fitted method; see :meth:`CostSensitiveClassifier.save`.

    ``notes`` are plain values to be kept with it, part of the same document; ``beside`` is that of
    :func:`~adacsl.estimators.artefact.write_artefact`.
    """
    tensors, document = _numbers(method)
    return write_artefact(folder, tensors, document | ({} if notes is None else {"notes": notes}), beside=beside)


def _numbers(method: CostSensitiveClassifier) -> tuple[dict[str, Any], dict[str, Any]]:
    kind = type(method).__name__
    if kind not in CLASSIFIERS:
        raise ArtefactError(f"{kind} cannot be saved: it is not one of {', '.join(CLASSIFIERS)}")
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
    return tensors, document


def load(folder: str | Path, *, module: Any = None, device: str = "auto") -> CostSensitiveClassifier:
    """Return the classifier that ``save`` wrote.

    Parameters
    ----------
    folder : path
        The artefact.
    module : nn.Module or callable, optional
        The network or factory it was trained with, where that was not one of adacsl's own: code is never stored.
    device : str, default "auto"
        Where to predict.

    Returns
    -------
    CostSensitiveClassifier
        The fitted classifier, of the class that was saved.

    Raises
    ------
    adacsl.estimators.artefact.ArtefactError
        Where the folder is incomplete, damaged or no artefact of adacsl.

    See Also
    --------
    adacsl.CostSensitiveClassifier.save : Writes it.

    Examples
    --------
    >>> import tempfile
    >>> from sklearn.linear_model import LogisticRegression
    >>> from adacsl import CostMatrix, CostSensitiveClassifier, load
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]] * 10, [0, 0, 1, 1] * 10
    >>> costs, learner = CostMatrix(fp=1, fn=8), LogisticRegression()
    >>> model = CostSensitiveClassifier(costs, learner=learner).fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     load(model.save(f"{folder}/model")).predict([[0.0], [3.0]]).tolist()
    [0, 1]
    """
    return load_noted(folder, module=module, device=device)[0]


def load_noted(
    folder: str | Path, *, module: Any = None, device: str = "auto", digest: str | None = None
) -> tuple[CostSensitiveClassifier, dict[str, Any] | None]:
    """Read a method, and the notes that were kept with it; arguments are those of :func:`load`.

    With a ``digest``, that of :func:`~adacsl.estimators.artefact.artefact_digest`, no other model is read.
    """
    if not isinstance(folder, str | PathLike):
        raise TypeError(f"folder must be the path of a saved classifier, got {folder!r}")
    if not DEVICE.fullmatch(str(device)):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps', got {device!r}")
    tensors, document = read_artefact(Path(folder), digest=digest)
    kind, notes = document.get("kind"), document.get("notes")
    if not isinstance(kind, str) or kind not in CLASSIFIERS:
        raise ArtefactError(f"{folder} holds {str(kind)[:40]!r}, not a classifier of adacsl")
    try:
        if not isinstance(notes, dict | None):
            raise TypeError("its notes are not a dict")
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")  # other values raise
            method = _rebuild(tensors, document, module, device)
            check_predicts(method, document["model"])
    except (ArtefactError, ImportError):
        raise
    except Exception as error:  # right digests, wrong content: any error of the libraries
        raise ArtefactError(f"{folder} is not a complete classifier ({_told(error)}); save it again") from error
    if _has_networks(document):
        resolve("adacsl.neural.device:choose_device")(device)  # warns where it is absent
    return method, notes


def _has_networks(document: Mapping[str, Any]) -> bool:
    bases = document["model"]["estimators"] if document["learner"] == "stack" else ()
    return "net" in (document["learner"], *(own["kind"] for own in bases))


def _told(error: Exception) -> str:
    """Return the message of an error in one line that any terminal shows."""
    line = " ".join(f"{str(error) or type(error).__name__:.1000}".split())
    return "".join(letter if letter.isprintable() else "?" for letter in line)[:300]


def _describe(method: CostSensitiveClassifier, kind: str) -> dict[str, Any]:
    params = {k: v for k, v in method.get_params(deep=False).items() if k not in HERE_ONLY}
    plain = {k: v for k, v in params.items() if v is None or isinstance(v, bool | int | float | str)}
    if "estimators" in params:
        plain["estimators"] = params["estimators"] if _is_plain(params["estimators"]) else None
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
        "cost_spec": spec.to_dict() if (spec := getattr(method, "cost_spec_", None)) else None,
        "sample_costs": list(getattr(method, "sample_costs_", ())),
        "decision": method.decision_.to_dict(),
        "classes": {"dtype": method.classes_.dtype.str, "values": method.classes_.tolist()},
        # more than two classes have none
        "pos_label": next(iter(np.flatnonzero(method.classes_ == method.pos_label_).tolist()), None),
        "target_threshold": method.target_threshold_,
        "adapted": method.adapted_,
        "target_costs": list(method.target_costs_.items()),
        "history": method.history_.to_dict(orient="list"),
        "image_shape": list(method.image_shape_) if method.images_ else None,
        "n_features_in": method.n_features_in_,
        "feature_names_in": getattr(method, "feature_names_in_", np.asarray([])).tolist(),
        "single_column": getattr(method, "single_column_", False),
        "left_out": list(getattr(method, "left_out_", ())),
        "times": getattr(method, "times_", ""),
    }


def _inside(name: str, value: Any) -> dict[str, Any]:
    """Return settings that travel as one value: what they are of, and those that are plain values."""
    if isinstance(value, AdaCSLController):
        value = settings_of(value)
    kind = "NeuralLearner" if name == "net" else type(value).__name__
    if kind not in SETTINGS:
        return {"kind": None, "settings": {}}  # an estimator of another kind, which has no form in plain values
    given = dict(value) if isinstance(value, dict) else value.get_params(deep=False)
    usual = {} if kind == "dict" else resolve(SETTINGS[kind])().get_params()
    plain = {k: v for k, v in given.items() if k not in HERE_ONLY and _is_plain(v) and (k, v) not in usual.items()}
    if not _is_plain(given.get("estimators")):
        plain["estimators"] = None
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
    return resolve(SETTINGS[about["kind"]])(**settings)


def _rebuild(tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str) -> CostSensitiveClassifier:
    costs = CostMatrix.from_dict(document["costs"])
    check_classes(document["model"], costs.n_classes)
    spec = CostMatrix.from_dict(document["cost_spec"]) if document.get("cost_spec") else None
    method = _unfitted(document, costs if spec is None else _without_fitted_models(spec), device)
    method.costs_, method.cost_spec_ = costs, spec
    method.sample_costs_ = read_cost_names(document.get("sample_costs", []))
    method.decision_ = Decision.from_dict(document["decision"], costs)
    method.classes_ = read_labels(document["classes"], costs.n_classes)
    method.pos_label_ = None if costs.n_classes > 2 else method.classes_[[0, 1].index(document["pos_label"])]
    method.target_threshold_ = _target(document["target_threshold"], costs)
    method.adapted_ = bool(document["adapted"])
    method.target_costs_ = {t if t == PLAIN else _target(t, costs): float(c) for t, c in document["target_costs"]}
    method.history_ = pd.DataFrame(document["history"])
    method.n_features_in_ = read_whole("n_features_in", document["n_features_in"])
    if document["feature_names_in"]:
        method.feature_names_in_ = read_names(document["feature_names_in"], method.n_features_in_)
    method.single_column_ = bool(document["single_column"])
    method.left_out_ = tuple(str(name) for name in document.get("left_out", ()))
    method.times_ = str(document.get("times", ""))
    method.images_ = document["image_shape"] is not None
    if method.images_:
        method.image_shape_ = tuple(read_whole("image_shape", side) for side in document["image_shape"])
    if "estimated_cost" in document:
        method.estimated_cost_ = Interval(*map(float, document["estimated_cost"]))
        method.calibration_error_ = float(document["calibration_error"])
        method.oof_scores_ = np.asarray(tensors[OUT_OF_FOLD])
    if "saving" in document:
        method.saving_ = Interval(*map(float, document["saving"]))
    if REFERENCE in tensors:
        method.reference_scores_ = np.asarray(tensors[REFERENCE])
    if "policy" in document:
        method.policy = Policy.from_dict(document["policy"])
    if "leaderboard" in document:
        method.leaderboard_ = pd.DataFrame(document["leaderboard"])
    method.model_ = _model(method, tensors, document, module, device)
    return method


def _target(saved: Any, costs: CostMatrix) -> float | str:
    """Return a target threshold: a number, or with more than two classes a word."""
    return check_targets(saved, costs) if costs.n_classes > 2 else float(saved)


def _without_fitted_models(spec: CostMatrix) -> CostMatrix:
    """Return costs as a setting: costs that were learned are to be learned again by another fit."""
    return spec.made(lambda recipe, *_: recipe.forgotten() if hasattr(recipe, "forgotten") else recipe)


def _unfitted(document: dict[str, Any], costs: CostMatrix, device: str) -> CostSensitiveClassifier:
    kind = document["kind"]
    check_elsewhere(document["params"], HERE_ONLY)
    given = document["params"]
    here = {"device": device} if kind in ("CostSensitiveClassifier", "AdaCSLClassifier", "EnsembleClassifier") else {}
    nested = {name: _nested(about) for name, about in document["nested"].items()}
    unfitted: CostSensitiveClassifier = resolve(CLASSIFIERS[kind])(costs=costs, **(given | nested | here))
    return unfitted


def _model(
    method: CostSensitiveClassifier, tensors: dict[str, Any], document: dict[str, Any], module: Any, device: str
) -> Any:
    net = None
    if document["learner"] == "net":
        name = "learner"
        net, net_settings = getattr(method, name), resolve(SETTINGS["NeuralLearner"])
        net = net if isinstance(net, net_settings) else net_settings()
        method.set_params(**{name: net})
    own = part_of(tensors, "model.")
    return read_model(document["learner"], own, document["model"], net=net, module=module, device=device)


def read_model(
    kind: str, tensors: dict[str, Any], about: dict[str, Any], *, net: Any = None, module: Any = None,
    device: str = "auto",
) -> Any:  # fmt: skip
    """Return a model of any kind from what its ``numbers`` gave.

    ``net`` are the settings of networks, where they are known; ``module`` and ``device`` are those of :func:`load`.
    """
    model = resolve(MODELS[kind])
    if kind == "net":
        return model.from_numbers(
            tensors, about, net or resolve(SETTINGS["NeuralLearner"])(), module=module, device=device
        )
    if kind == "stack":
        return model.from_numbers(tensors, about, functools.partial(read_model, module=module, device=device))
    if kind == "constant":
        return model()
    return model.from_numbers({name: np.asarray(value) for name, value in tensors.items()}, about)
