"""Whether a document is a model: its labels, names and sizes before anything is made of it, and that it predicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

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
        raise ValueError(f"labels are no {str(kind)[:20]}")
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
    """Refuse settings that no model brings with it: where to compute, what to read and to write."""
    if found := [name for name in here_only if name in settings]:
        raise ValueError(f"a saved model has no {found[0]}")


def check_classes(about: Any, n_classes: int) -> None:
    """Refuse a model whose parts speak of another number of classes, before memory is taken for them."""
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
    """Refuse a model that cannot say anything about two plain rows, one of them empty where it takes gaps.

    The net of pictures is taken at its word: its weights have the shapes that they must have.
    """
    if method.images_:
        return
    found = method.decision_probabilities(plain_rows(method, about))
    wanted = (2, len(method.classes_)) if len(method.classes_) > 2 else (2,)
    if found.shape != wanted or not ((found >= 0) & (found <= 1)).all():
        raise ValueError("it predicts no probabilities")


def plain_rows(method: Any, about: Any) -> Any:
    """Return two rows of the columns that a model was trained on."""
    encoders = [part["columns"] for part in _parts(about) if "columns" in part and "format" in part]
    names = getattr(method, "feature_names_in_", None)
    if not encoders:
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
