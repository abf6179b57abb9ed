"""Data at the door of a method: tables and images, labels, and what goes with each row."""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import as_weights, refuse_masked, refuse_reordered
from adacsl.core.costs import CostMatrix
from adacsl.core.labels import encode_labels
from adacsl.datasets.errors import one_line
from adacsl.estimators.numbered import positive_label
from adacsl.estimators.rows import Rows
from adacsl.estimators.timesplits import Timeline
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _num_samples,
        assert_all_finite,
        check_consistent_length,
        column_or_1d,
        indexable,
        validate_data,
    )

MISSING = ("None", "nan", "NaT", "<NA>")

FILE_SIZE = 64
"""Side of images read from files, unless another is asked for."""


def read_rows(method: Any, X: Any, y: Any, sample_weight: Any, groups: Any, costs: CostMatrix | None) -> Rows:  # noqa: N803
    """Check features, labels and what goes with each row; append validation rows given apart.

    The method remembers what it has seen: ``classes_``, ``positive_``, ``n_features_in_``, ``images_``.
    """
    refuse_reordered(X, y=y, sample_weight=sample_weight, groups=groups)
    X, y = _read(method, X, y)  # noqa: N806
    if y is None:
        raise ValueError(f"this {type(method).__name__} estimator requires y to be passed, but the target y is None")
    labels = _labels(method, y)
    check_consistent_length(X, labels)
    weight = as_weights(sample_weight, labels)
    groups = None if groups is None else column_or_1d(groups)
    check_consistent_length(X, labels, groups)
    if costs is not None and costs.settled and costs.n_instances not in (None, len(labels)):
        raise ValueError(f"costs of each row must be as many as rows: got {costs.n_instances} for {len(labels)} rows")
    use = np.arange(len(labels)) if weight is None else np.flatnonzero(weight > 0)
    present = np.unique(labels[use])
    if len(present) < 2:
        raise ValueError(
            f"the training data hold one class only ({method.classes_[int(present[0])]!r}); "
            "a classifier needs samples of both classes"
        )
    rows = Rows(
        X, labels, use, weight, groups, costs, images=method.images_, n_classes=len(method.classes_),
        labels=tuple(labels_in_order(method)),
    )  # fmt: skip
    apart = method.cv is None and method.validation is not None and not isinstance(method.validation, Real)
    return _with_validation(method, rows) if apart else rows


def with_times(rows: Rows, time: NDArray[Any] | None, gap: Any, maturity: Any) -> Rows:
    """Return rows that know when they were: one time for each."""
    if time is None:
        if gap is not None or maturity is not None:
            raise ValueError("gap and maturity are for rows with a time: say when they were, fit(X, y, time=...)")
        return rows
    if rows.validation is not None:
        raise ValueError("validation rows given apart have no time: leave out time, or give validation=0.2")
    if len(time) != len(rows.y):
        raise ValueError(f"time must hold one time for each of {len(rows.y)} rows, got {len(time)}")
    return dataclasses.replace(rows, line=Timeline.of(time, gap, maturity))


def read_features(method: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Check the features of training rows (``reset``), or of others like them; no features are left out."""
    refuse_masked(X, "X")
    X = X if reset else features_of(X, getattr(method, "said_costs_", None), _no_features(method))  # noqa: N806
    if getattr(method, "images_", False):
        return _more_images(method, X, picture_size(method))
    if method.takes_anything:
        return _unread(method, X, reset=reset)
    with in_one_line():
        return _checked(method, X, reset=reset)


def _no_features(method: Any) -> tuple[str, ...]:
    """Return the columns that rows may have besides the features: those left out, the times of the model's policy."""
    time = getattr(getattr(method, "policy", None), "time", None)
    own = isinstance(time, str) and time not in getattr(method, "feature_names_in_", ())
    return (*getattr(method, "left_out_", ()), *((time,) if own else ()))


@contextmanager
def in_one_line() -> Iterator[None]:
    """Let scikit-learn say what is wrong in one line, without the data."""
    try:
        yield
    except ValueError as error:
        told = re.sub(r"\s*array=.*?\.?\n(?=Reshape)|(?<=not supported)\n.*", " ", str(error), flags=re.DOTALL)
        raise ValueError(one_line(told)) from None


def _checked(method: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Return features as scikit-learn wants them: number and names of columns, two dimensions."""
    if hasattr(X, "columns") or hasattr(X, "schema") or hasattr(X, "column_names"):
        validate_data(method, X, reset=reset, skip_check_array=True)
        return X
    known = hasattr(X, "__array__") or hasattr(X, "toarray") or isinstance(X, Sequence)
    if not known or isinstance(X, str):
        raise TypeError(f"X must be a table (an array, a frame or a list of rows), got {type(X).__name__}")
    if hasattr(X, "toarray"):
        from adacsl.datasets.columns import dense  # noqa: PLC0415  scikit-learn alone needs none

        X = dense(X)  # noqa: N806
    if isinstance(X, list) and X and not np.isscalar(X[0]) and isinstance(np.asarray(X, dtype=object).flat[0], str):
        X = np.asarray(X, dtype=object)  # noqa: N806
    return validate_data(method, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_features=1)


def picture_size(method: Any) -> tuple[int, int]:
    """Return the height and width a model wants: that of the training, but those that its nets enlarge as large."""
    side = getattr(getattr(method.model_, "settings", None), "image_size", None)
    height, width, _ = method.image_shape_
    return (height, width) if side is None else (side, side)


def features_of(X: Any, costs: CostMatrix | None, others: Sequence[str] = ()) -> Any:  # noqa: N803
    """Return a table without the columns of prices that are known afterwards only, and others that are no features."""
    apart = (*(() if costs is None else costs.hidden), *others)
    if not apart:
        return X
    from adacsl.datasets.columns import without_columns  # noqa: PLC0415  scikit-learn alone needs none

    return without_columns(X, apart)


def read_known_labels(method: Any, y: Any) -> NDArray[np.int64]:
    """Return labels as class numbers; refuse those that were not in training."""
    labels = _known(y, "y")
    unknown = set(np.unique(labels).tolist()) - set(method.classes_.tolist())
    if unknown:
        raise ValueError(f"y holds labels that were not in training: {sorted(unknown, key=str)}")
    return number_labels(method, labels)


def _unread(method: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Leave the content to the estimator; remember (or compare) the features' names and number."""
    if not reset and hasattr(method, "n_features_in_") and getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"X must have rows and columns, got shape {X.shape}. Reshape your data: reshape(1, -1) for one row"
        )
    validate_data(method, X, reset=reset, skip_check_array=True)
    rows = indexable(X)[0]
    if _num_samples(rows) == 0:
        raise ValueError("X is empty: found 0 sample(s) while a minimum of 1 is required")
    return rows


def _labels(method: Any, y: Any) -> NDArray[np.int64]:
    y = _known(y, "y", warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    names = getattr(method.costs, "classes", None)
    positive = positive_label(np.unique(y).tolist(), method.positive, names)
    labels, method.classes_, method.positive_ = encode_labels(y, positive, who=type(method).__name__, stacklevel=4)
    return labels


def _known(y: Any, name: str, *, warn: bool = False) -> NDArray[Any]:
    """Return labels as a vector of one kind, none of them missing."""
    refuse_masked(y, name)
    # scikit-learn makes floats of nullable columns: whole numbers and truth values stay what they are
    nullable = not isinstance(y, np.ndarray) and getattr(getattr(y, "dtype", None), "kind", "") in ("b", "i", "u")
    y = column_or_1d(np.asarray(y.tolist(), dtype=object) if nullable and hasattr(y, "tolist") else y, warn=warn)
    if y.dtype.kind in "mM":
        raise ValueError(
            f"labels are numbers, truth values or text, got {y.dtype} in {name}, such as {y[0]}: write them as text, "
            f"{name}.astype(str)"
        )
    if len(y) == 0:
        raise ValueError(f"{name} is empty: give a label for each row")
    if y.dtype == object:
        missing = np.flatnonzero([not isinstance(label, str) and str(label) in MISSING for label in y.tolist()])
        if missing.size:
            raise ValueError(
                f"{name} has no label (None or NaN) in row {missing[0] + 1}: fill it in or leave the row out"
            )
        texts = [isinstance(label, str) for label in y.tolist()]
        if any(texts) and not all(texts):
            first, other = y[texts.index(True)], y[texts.index(False)]
            raise ValueError(f"{name} mixes text and others, such as {first!r} and {other!r}: write all labels alike")
    return np.asarray(y.tolist() if y.dtype == object and not isinstance(y[0], str) else y)  # numbers as objects


def labels_in_order(method: Any) -> list[Any]:
    """Return the labels of the class numbers 0, 1, ...: of two classes, the positive one is the second."""
    order: list[Any] = method.classes_.tolist()
    return order[::-1] if method.positive_ is not None and method.positive_ == order[0] else order


def number_labels(method: Any, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return known labels as class numbers: 1 (positive) and 0, or their places among the sorted classes."""
    if method.positive_ is None:
        return np.searchsorted(method.classes_, labels).astype(np.int64)
    return np.asarray(labels == method.positive_, dtype=np.int64)


def _with_validation(method: Any, rows: Rows) -> Rows:
    if rows.costs is not None or rows.weight is not None:
        raise ValueError("validation data of their own cannot be combined with sample_weight or costs of each row")
    try:
        other, labels = method.validation
    except (TypeError, ValueError):
        raise ValueError(
            f"validation must be a fraction between 0 and 1 or a pair (X, y), got {type(method.validation).__name__}"
        ) from None
    refuse_reordered(other, **{"the y of validation": labels})
    labels = _known(labels, "the y of validation")
    unknown = set(np.unique(labels).tolist()) - set(method.classes_.tolist())
    if unknown:
        raise ValueError(f"the validation labels {sorted(unknown, key=str)} do not occur in y")
    if len(np.unique(labels)) < 2:
        raise ValueError(
            f"adaptation needs both classes in the validation set, but all {len(labels)} labels are "
            f"{labels.tolist()[0]!r}"
        )
    extra = _more_images(method, other) if rows.images else read_features(method, other, reset=False)
    if _num_samples(extra) != len(labels):
        raise ValueError(f"validation must be as many rows as labels, got {_num_samples(extra)} and {len(labels)}")
    added = number_labels(method, labels)
    own = np.arange(len(added)) + len(rows.y)
    return Rows(
        rows.x, np.concatenate((rows.y, added)), np.arange(len(rows.y)), validation=own, images=rows.images,
        n_classes=rows.n_classes, extra=extra, labels=rows.labels,
    )  # fmt: skip


# images


def _read(method: Any, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return a checked table or an array of images, and the labels, which folders and Datasets bring along."""
    method.images_ = False
    if method.takes_images:
        from adacsl.datasets.images import as_images, is_images  # noqa: PLC0415  torch

        if is_images(X):
            wished = getattr(method.learner_, "image_size", None) or FILE_SIZE
            images = as_images(X, image_size=None if hasattr(X, "ndim") else wished)
            pixels = _channels_last(images.pixels)
            method.images_, method.image_shape_ = True, tuple(int(side) for side in pixels.shape[1:])
            method.n_features_in_ = math.prod(method.image_shape_)
            return pixels, images.labels if y is None else y
    return read_features(method, X, reset=True), y


def _more_images(method: Any, X: Any, size: tuple[int, int] | None = None) -> NDArray[Any]:  # noqa: N803
    """Return images like those of the training: their size (or another), their channels."""
    from adacsl.datasets.images import as_images, is_images  # noqa: PLC0415  torch

    if not is_images(X):
        raise ValueError("this model was trained on images; give uint8 images, a folder or a Dataset")
    height, width, channels = method.image_shape_
    pixels = _channels_last(as_images(X, image_size=size or (height, width)).pixels)
    if pixels.shape[3] != channels:
        raise ValueError(f"the model was trained on images of {channels} channels, got {pixels.shape[3]}")
    return pixels


def _channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return N x H x W x C: rows of such an array are channels-last batches, the layout GPUs like best."""
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
