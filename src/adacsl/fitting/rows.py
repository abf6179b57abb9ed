"""The samples of a fit: features, labels, costs, groups, weights and times, checked and converted.

``cross_val_predict(method="predict_proba")``, ``VotingClassifier``, ``StackingClassifier`` and ``BaggingClassifier``
give their estimators the places of the sorted labels, and no word of what these were. But who numbered them is still
at work, and knows; in other processes (``n_jobs=2``) nobody does.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from numbers import Integral, Real
from types import FrameType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_weights, refuse_masked, refuse_reordered
from adacsl.base.extras import requires, resolve
from adacsl.base.labels import are_places, customary_positive, encode_labels, same_label, unnamed_positive
from adacsl.costs.cells import is_recipe
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.costs import warn_of_prices
from adacsl.datasets.errors import one_line
from adacsl.datasets.task import Task
from adacsl.fitting.splits import cross_splits, one_split
from adacsl.fitting.time_splits import Timeline, check_order, expanding_folds, latest_split, told
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
    from sklearn.preprocessing import LabelEncoder
    from sklearn.utils import _safe_indexing
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _num_samples,
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        indexable,
        validate_data,
    )


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked training data.

    Parameters
    ----------
    x : table, array or images
        Features of all rows.
    y : array of shape (n,)
        1 = positive; of more than two classes their numbers, 0 to K - 1.
    use : array of row numbers
        The rows that may be learned from: not those of weight zero, nor those a comparison tests on.
    weight, groups : arrays of shape (n,), optional
        How much each row counts; rows of one group never stand on both sides of a split.
    costs : CostMatrix, optional
        Of each row, where they differ.
    extra : table, optional
        Validation rows given apart, which follow those of ``x``; ``validation`` are their numbers.
    images : bool
        Whether the rows are pictures, uint8 N x H x W x C.
    source : hashable, optional
        What the rows are part of: work done for it once (resizing pictures) serves other fits too.
    n_classes : int
        How many classes there are, also where some rows have none of one.
    line : Timeline, optional
        When each row was: what is held out is then later than what trains.
    labels : tuple, optional
        The label (or its name) of each class number.
    """

    x: Any
    y: NDArray[np.int64]
    use: NDArray[np.int64]
    weight: NDArray[np.float64] | None = None
    groups: NDArray[Any] | None = None
    costs: CostMatrix | None = None
    extra: Any = None
    validation: NDArray[np.int64] | None = None
    images: bool = False
    source: Hashable = None
    n_classes: int = 2
    line: Timeline | None = None
    labels: tuple[Any, ...] | None = None

    @staticmethod
    def of_task(
        task: Task, use: NDArray[np.int64], *, groups: NDArray[Any] | None = None, gap: Any = None, maturity: Any = None
    ) -> Rows:
        """Return some rows of a task to learn from; gap and maturity are for those with a time.

        ``groups`` take the place of the task's own, where more than these stays together.
        """
        weight = task.sample_weight
        use = use if weight is None else use[weight[use] > 0]
        costs = None if task.costs.n_instances is None else task.costs
        groups = task.groups if groups is None else groups
        return Rows(
            task.X, task.y, use, weight, groups, costs, images=task.images, source=task, n_classes=task.costs.n_classes,
            line=None if task.time is None else Timeline.of(task.time, gap, maturity), labels=task.classes,
        )  # fmt: skip

    def folds(self, cv: Any, validation: Any, seed: int) -> list[tuple[NDArray[Any], NDArray[Any]]]:
        """Return (training rows, held-out rows): one pair, or one per fold; with a time, later rows are held out."""
        use = self.use
        if self.validation is not None:
            return [(np.arange(len(self.y) - len(self.validation)), self.validation)]
        if cv is not None and not isinstance(cv, Integral):
            # a splitter of the user's speaks of all rows
            pairs = cross_splits(self.y, self.groups, cv, seed)
            if self.line is not None:
                check_order(self.line, pairs, cv)
            return [(np.intersect1d(train, use), np.intersect1d(test, use)) for train, test in pairs]
        groups = None if self.groups is None else self.groups[use]
        if self.line is not None:
            line, y = self.line.rows(use), self.y[use]
            pairs = (
                latest_split(line, y, groups, float(validation))
                if cv is None
                else expanding_folds(line, y, groups, int(cv))
            )
        elif cv is None:
            # as a comparison has it, where the seed itself has cut off the test rows
            pairs = one_split(self.y[use], groups, float(validation), seed + 1)
        else:
            pairs = cross_splits(self.y[use], groups, cv, seed)
        return [(np.sort(use[train]), np.sort(use[test])) for train, test in pairs]

    def told(self, folds: list[tuple[NDArray[Any], NDArray[Any]]], tested: NDArray[Any] | None = None) -> str:
        """Return which times trained, adapted and were tested on; "" for rows without a time."""
        if self.line is None or not folds:
            return ""
        use = np.arange(len(self.y)) if self.weight is None else np.flatnonzero(self.weight > 0)
        return told(self.line, folds, tested, use=use, groups=self.groups is not None)

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows' features; those of validation data given apart are numbered behind the others."""
        if self.validation is not None and len(rows) and rows[0] >= self.validation[0]:
            return _safe_indexing(self.extra, rows - self.validation[0])
        return self.x if len(rows) == len(self.y) and self.extra is None else take(self.x, rows)

    def encoded(self, encoder: Any) -> NDArray[Any]:
        """Return all rows by an encoder that was fitted on those in use."""
        x = encoder.transform(self.x)
        return x if self.extra is None else np.concatenate((x, encoder.transform(self.extra)))

    def weights(self, rows: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return how much these rows count."""
        return None if self.weight is None else self.weight[rows]


def take(x: Any, rows: NDArray[Any]) -> Any:
    """Return some rows of an array or a table of any library."""
    if isinstance(x, np.ndarray):
        return x[rows]
    if hasattr(x, "toarray") or isinstance(x, list):
        return _safe_indexing(x, rows)
    import narwhals as nw  # noqa: PLC0415  scikit-learn alone needs none

    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame[rows.tolist()].to_native() if isinstance(frame, nw.DataFrame) else _safe_indexing(x, rows)


def leaks(rows: Rows) -> Iterator[str]:
    """Yield a line for each column of a table that alone tells every label (of two classes)."""
    if rows.images or rows.n_classes > 2:
        return
    from adacsl.datasets.ordinal_encoder import ColumnEncoder  # noqa: PLC0415  images need none

    table = rows.take(rows.use)
    encoder = ColumnEncoder().fit(table)
    positive = rows.y[rows.use] == 1
    for rule, column in zip(encoder.columns, encoder.transform(table).T, strict=True):
        if np.isnan(column).any():
            continue
        low, high = column[positive], column[~positive]
        apart = low.max() < high.min() or high.max() < low.min()
        levels = np.unique(column)
        if rule["kind"] == "category" and len(levels) < len(column) / 10:
            apart = not np.intersect1d(low, high).size
        if apart and len(levels) > 1:
            yield f"column {rule['name']!r} alone tells every label: is it known before the decision?"


def spoken_labels(labels: Sequence[Any], names: Sequence[str]) -> list[Any]:
    """Return labels; where they are places of sorted classes that have these names, the classes.

    Examples
    --------
    >>> spoken_labels([0, 1, 2], ["ash", "elm", "oak"]), spoken_labels([0, 1, 2], ["oak", "elm", "ash"])
    (['ash', 'elm', 'oak'], [0, 1, 2])
    """
    found = numbered_labels(labels, names)
    if found is not None:
        return found
    return [names[place] for place in labels] if are_places(sorted(labels), names) else list(labels)


def numbered_labels(labels: Sequence[Any], names: Sequence[str]) -> list[Any] | None:
    """Return the classes of these names that scikit-learn has numbered so, in the order of the labels; else None."""
    found = [
        classes
        for classes in _numbered()
        if len(classes) == len(names) and all(any(same_label(name, label) for label in classes) for name in names)
    ]
    numbered = found and list(range(len(names))) == sorted(label for label in labels if not isinstance(label, str))
    return [found[-1][place] for place in labels] if numbered else None


def positive_label(labels: list[Any], positive: Any, names: Sequence[str] | None) -> Any:
    """Return the positive one of the labels: the one that is meant by ``positive``, or by the second of two names.

    Parameters
    ----------
    labels : list
        Of y, sorted.
    positive : label, optional
        The class that the user named.
    names : sequence of str, optional
        What a cost matrix calls its classes; of two, the second is positive.
    """
    if positive is None and names is not None and len(names) == 2:
        spoken = spoken_labels(labels, names)
        return next((label for label, word in zip(labels, spoken, strict=True) if same_label(names[1], word)), names[1])
    if labels != [0, 1]:
        return positive
    found = [classes for classes in _numbered() if len(classes) == 2 and positive in (None, *classes)]
    if positive is None:
        text = found and any(isinstance(label, str) for label in found[-1])
        if text and customary_positive(found[-1]) is None:
            raise unnamed_positive(found[-1])
        return None
    return found[-1].index(positive) if found else positive


def _numbered() -> Iterator[list[Any]]:
    """Yield the classes that functions of scikit-learn have numbered.

    The last is of the one that was called first: it had the user's labels, those inside may have had numbers already.
    """
    frame = inspect.currentframe()
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("sklearn."):
            yield from _classes_in(frame)
        frame = frame.f_back


def _classes_in(frame: FrameType) -> Iterator[list[Any]]:
    own = frame.f_locals
    held = getattr(own.get("self"), "__dict__", {})
    encoders = [value for value in (*own.values(), *held.values()) if isinstance(value, LabelEncoder)]
    # bagging numbers without an encoder; what others call so may be of an earlier fit
    known: list[Any] = [getattr(encoder, "classes_", None) for encoder in encoders] or [held.get("classes_")]
    yield from (classes.tolist() for classes in known if hasattr(classes, "tolist"))


MISSING = ("None", "nan", "NaT", "<NA>")

FILE_SIZE = 64
"""Side of images read from files, unless another is asked for."""


def read_rows(
    method: Any,
    learner: Any,
    X: Any,  # noqa: N803
    y: Any,
    sample_weight: Any,
    groups: Any,
    costs: CostMatrix | None,
) -> Rows:
    """Check features, labels and what goes with each row; append validation rows given apart.

    The method remembers what it has seen: ``classes_``, ``positive_``, ``n_features_in_``, ``images_``.
    """
    refuse_reordered(X, y=y, sample_weight=sample_weight, groups=groups)
    X, y = _read(method, learner, X, y)  # noqa: N806
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
    if isinstance(X, Mapping) and not hasattr(X, "toarray") and not reset:
        X = _select_features(method, X)  # noqa: N806
    X = X if reset else features_of(X, getattr(method, "said_costs_", None), _no_features(method))  # noqa: N806
    if getattr(method, "images_", False):
        return _more_images(method, X, picture_size(method))
    if not method.encodes:
        return _unread(method, X, reset=reset)
    with in_one_line():
        return _checked(method, X, reset=reset)


def _select_features(method: Any, X: Mapping[str, Any]) -> Any:  # noqa: N803
    """Return the features of a mapping of arrays, by name (x0, x1, ... where the training had none); others stay."""
    from adacsl.datasets.columns import Columns  # noqa: PLC0415  scikit-learn alone needs none

    columns, names = X if isinstance(X, Columns) else Columns(X), getattr(method, "feature_names_in_", None)
    places = [f"x{i}" for i in range(method.n_features_in_)]
    features = columns.select(places if names is None else list(names), named=names is not None)
    return features if method.encodes else features.to_table()


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
    if isinstance(X, Mapping) and not hasattr(X, "toarray") and not reset:
        return X  # selected by name
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


def _read(method: Any, learner: Any, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return a checked table or an array of images, and the labels, which folders and Datasets bring along."""
    method.images_ = False
    if not learner.tables_only:
        from adacsl.datasets.images import as_images, is_images  # noqa: PLC0415  torch

        if is_images(X):
            wished = getattr(learner, "image_size", None) or FILE_SIZE
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


def settle_rows(method: Any, rows: Rows, table: Any) -> Rows:
    """Return training rows with their costs as numbers; the method remembers what they were made of.

    Sets ``said_costs_``: the costs as they were said, in the order of the class numbers, where they depend on columns
    (of ``table``); what is to be predicted is learned.
    """
    said = rows.costs
    if said is not None and said is method.costs:
        said = own_costs(method, rows)  # it may name its classes
    # at other rows, what was given for each of these has its mean
    method.said_costs_ = said.without_samples() if said is not None and not said.settled else None
    if said is None:
        return rows
    raw = said.of(table, clipped=False)
    warn_of_prices(raw, rows.y, telling=not said.learns, stacklevel=4)
    if not said.learns:
        return replace(rows, costs=raw.clipped().checked())
    seed = method.random_state if isinstance(method.random_state, Integral) else 0
    costs, learned = resolve("adacsl.estimators.cost_model:learn_prices")(said, raw, rows, table, int(seed))
    method.said_costs_ = learned.without_samples()
    return replace(rows, costs=costs)


def own_costs(method: Any, rows: Rows) -> CostMatrix:
    """Return a classifier's costs in the order of the class indices, or inverse priors."""
    if method.costs is None:
        return CostMatrix.balanced(rows.y[rows.use])
    if method.costs.n_classes != rows.n_classes:
        names, known = method.costs.classes or (), method.classes_.tolist()
        form = "CostMatrix.from_array(K x K, rows='predicted', classes=[...])"
        form = "CostMatrix(fp=1, fn=8)" if rows.n_classes == 2 else form
        absent = [name for name in names if not any(same_label(name, label) for label in known)]
        raise ValueError(
            f"the labels have {rows.n_classes} classes, the costs {method.costs.n_classes}"
            + (f", of which {absent!r} have no rows" if absent else "")
            + f"; give a price for each: {form}"
        )
    own: CostMatrix = method.costs
    order = labels_in_order(method)
    return own.aligned(order if own.classes is None else spoken_labels(order, own.classes))


def given_per_sample(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of costs that were given as arrays, and differ between samples."""
    arrays = {
        name: np.asarray(value)
        for name, value in given.items()
        if not (value is None or isinstance(value, str | tuple) or is_recipe(value))
    }
    return tuple(name for name, values in arrays.items() if values.ndim and bool((values != values.flat[0]).any()))


def missing_costs(method: Any, given: Mapping[str, Any]) -> list[str]:
    """Return the costs that a model was fitted with as arrays, one value per sample, and that are not given now."""
    return [name for name in getattr(method, "sample_costs_", ()) if given.get(name) is None]


def prices_of(method: Any, X: Any, **given: Any) -> CostMatrix | None:  # noqa: N803
    """Return the costs of rows to decide about: those given, and else as they were said in training.

    None where all rows cost the same, ``method.costs_``. Costs of each sample that were arrays in training are known of
    no other sample: they have to be given.
    """
    check_is_fitted(method)
    if missing := missing_costs(method, given):
        means = ", ".join(f"{name}={getattr(method.costs_, name):.6g}" for name in missing)
        raise ValueError(
            f"the model was fitted with {' and '.join(missing)} of each sample: pass {' and '.join(missing)} of these "
            f"samples, as in predict(X, {', '.join(f'{name}=...' for name in missing)}), or one cost for all of them, "
            f"such as their mean in training ({means}); costs that are a column of X need no passing if fit is given "
            "its name"
        )
    refuse_reordered(X, **given)
    said = getattr(method, "said_costs_", None)
    costs = row_costs(given, method.costs_ if said is None else said)
    if costs is None or costs.settled:
        return None if costs is None else costs.clipped()
    try:
        return costs.of(X)
    except ValueError as error:
        raise ValueError(
            f"{error}. The model was trained with {said!r}: give it these columns, or the prices of each row, as in "
            "predict(X, fn=prices)"
        ) from error


def stand_in(costs: CostMatrix | None) -> CostMatrix:
    """Return costs to check other settings by: the method's own, or of errors that cost the same, if none are known."""
    if costs is not None and costs.settled:
        return costs
    n = 2 if costs is None else costs.n_classes
    return CostMatrix.from_array(1.0 - np.eye(n), rows="predicted")
