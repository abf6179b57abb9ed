"""The samples of a fit, read once: features, labels, weights, groups, validation data, times and costs.

:func:`read_rows` returns them as :class:`Rows`, on which every learner works. Below it stand the functions that read
each part, in this order, and those that read the samples of a fitted classifier in the same way.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Integral, Real
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import as_weights, refuse_masked, refuse_reordered
from adacsl.base.extras import requires, resolve
from adacsl.base.labels import Encoded, encode_labels, find_classes
from adacsl.costs.cells import is_recipe
from adacsl.costs.matrix import CostMatrix
from adacsl.datasets.columns import ParsedTable, dense, without_columns
from adacsl.datasets.costs import warn_of_implausible_costs
from adacsl.datasets.errors import one_line
from adacsl.datasets.task import Task
from adacsl.fitting.splits import Fold, random_folds
from adacsl.fitting.time_splits import Timeline, describe_folds
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
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

MISSING = ("None", "nan", "NaT", "<NA>")

FILE_SIZE = 64
"""Side of images read from files, unless another is asked for."""


@dataclass(frozen=True, eq=False)
class Rows:
    """Checked training data.

    Parameters
    ----------
    x : table, array or images
        Features of all samples.
    y : array of shape (n,)
        1 = positive; of more than two classes their indices, 0 to K - 1.
    use : array of row numbers
        The samples that may be learned from: not those of weight zero, nor those a comparison tests on.
    weight, groups : arrays of shape (n,), optional
        How much each sample counts; samples of one group never stand on both sides of a split.
    costs : CostMatrix, optional
        Of each sample, where they differ.
    extra : table, optional
        Features of separate validation data, which follow those of ``x``; ``validation`` are their numbers.
    images : bool
        Whether the samples are images, uint8 N x H x W x C.
    source : hashable, optional
        What the samples are part of: work done for it once (resizing images, parsing columns) serves other fits too.
    n_classes : int
        How many classes there are, also where some samples have none of one.
    line : Timeline, optional
        When each sample was observed: held-out samples are then later than training samples.
    labels : tuple, optional
        What the class of each index is called: its name in the costs where the labels are positions among these names,
        else its label.
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
        task: Task,
        use: NDArray[np.int64],
        *,
        groups: NDArray[Any] | None = None,
        gap: Any = None,
        label_delay: Any = None,
    ) -> Rows:
        """Return some samples of a task to learn from; gap and label_delay are for those with a time.

        ``groups`` replace the task's own, where more samples than these stay together.
        """
        weight = task.sample_weight
        use = use if weight is None else use[weight[use] > 0]
        costs = None if task.costs.n_instances is None else task.costs
        groups = task.groups if groups is None else groups
        return Rows(
            task.X, task.y, use, weight, groups, costs, images=task.images, source=task, n_classes=task.costs.n_classes,
            line=None if task.time is None else Timeline.of(task.time, gap, label_delay), labels=task.classes,
        )  # fmt: skip

    def folds(self, cv: Any, validation: Any, seed: int) -> list[Fold]:
        """Return (training, held-out) row numbers: one pair without ``cv``, else one per fold.

        With times, held-out samples are later than those that train.
        """
        if self.validation is not None:
            return [(self.use[self.use < self.validation[0]], self.validation)]
        split = random_folds if self.line is None else self.line.folds
        if cv is not None and not isinstance(cv, Integral):
            # a splitter of the user's is about all samples
            return [
                (np.intersect1d(train, self.use), np.intersect1d(test, self.use))
                for train, test in split(self.y, self.groups, cv, validation, seed)
            ]
        y, groups = self.y[self.use], None if self.groups is None else self.groups[self.use]
        if self.line is not None:
            split = self.line.rows(self.use).folds
        return [
            (np.sort(self.use[train]), np.sort(self.use[test]))
            for train, test in split(y, groups, cv, validation, seed)
        ]

    def describe_times(self, folds: Sequence[Fold], tested: NDArray[Any] | None = None) -> str:
        """Return which times trained, adapted and were tested on; "" for samples without a time."""
        if self.line is None or not folds:
            return ""
        use = np.arange(len(self.y)) if self.weight is None else np.flatnonzero(self.weight > 0)
        return describe_folds(self.line, folds, tested, use=use, groups=self.groups is not None)

    def take(self, rows: NDArray[Any]) -> Any:
        """Return the features of some samples; those of separate validation data are numbered after the others."""
        if self.validation is not None and len(rows) and rows[0] >= self.validation[0]:
            return _safe_indexing(self.extra, rows - self.validation[0])
        return self.x if len(rows) == len(self.y) and self.extra is None else take(self.x, rows)

    @cached_property
    def _parsed(self) -> ParsedTable | None:
        """The features, with text parsed once; of a task, once for all of its splits."""
        if isinstance(self.source, Task) and self.source.X is self.x:
            return self.source.parsed
        return ParsedTable(self.x) if ParsedTable.knows(self.x) else None

    def to_encode(self, rows: NDArray[np.int64] | None = None) -> Any:
        """Return the features of some samples, or of all but separate validation data, for an encoder of columns."""
        if self._parsed is None:
            return self.x if rows is None else self.take(rows)
        return self._parsed if rows is None else self._parsed.rows(rows)

    def encoded(self, encoder: Any) -> NDArray[Any]:
        """Return all samples by an encoder that was fitted on those in use."""
        x = encoder.transform(self.to_encode())
        return x if self.extra is None else np.concatenate((x, encoder.transform(self.extra)))

    def weights(self, rows: NDArray[Any]) -> NDArray[np.float64] | None:
        """Return how much these samples count."""
        return None if self.weight is None else self.weight[rows]


def take(x: Any, rows: NDArray[Any]) -> Any:
    """Return some samples of an array or a table of any library."""
    if isinstance(x, np.ndarray):
        return x[rows]
    if hasattr(x, "toarray") or isinstance(x, list):
        return _safe_indexing(x, rows)
    import narwhals as nw  # noqa: PLC0415  scikit-learn alone needs none

    frame = nw.from_native(x, eager_only=True, pass_through=True)
    return frame[rows.tolist()].to_native() if isinstance(frame, nw.DataFrame) else _safe_indexing(x, rows)


# a fit


def read_rows(
    classifier: Any,
    learner: Any,
    X: Any,  # noqa: N803
    y: Any,
    sample_weight: Any,
    groups: Any,
    costs: CostMatrix | None,
) -> Rows:
    """Check features, labels and what comes with each sample; append separate validation data.

    Sets what the classifier remembers of its training data: ``classes_``, ``pos_label_``, ``n_features_in_``,
    ``images_``.
    """
    X, y = _read_training_features(classifier, learner, X, y)  # noqa: N806
    if y is None:
        raise ValueError(
            f"this {type(classifier).__name__} estimator requires y to be passed, but the target y is None"
        )
    labels = _read_training_labels(classifier, y)
    check_consistent_length(X, labels.numbers)
    weight = as_weights(sample_weight, labels.numbers)
    groups = None if groups is None else column_or_1d(groups)
    check_consistent_length(X, groups)
    n = len(labels.numbers)
    if costs is not None and costs.resolved and costs.n_instances not in (None, n):
        raise ValueError(f"costs of each row must be as many as rows: got {costs.n_instances} for {n} rows")
    use = np.arange(n) if weight is None else np.flatnonzero(weight > 0)
    present = np.unique(labels.numbers[use])
    if len(present) < 2:
        raise ValueError(
            f"the training data hold one class only ({labels.order.labels[int(present[0])]!r}); "
            "a classifier needs samples of both classes"
        )
    rows = Rows(
        X, labels.numbers, use, weight, groups, costs, images=classifier.images_, n_classes=len(labels.classes),
        labels=labels.order.names,
    )  # fmt: skip
    separate = classifier.cv is None and classifier.validation is not None
    if separate and not isinstance(classifier.validation, Real):
        return _with_validation(classifier, rows)
    return rows


# features


def _read_training_features(classifier: Any, learner: Any, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return a checked table or an array of images, and the labels, which folders and Datasets bring along."""
    classifier.images_ = False
    if not learner.tables_only:
        from adacsl.datasets.images import as_images, is_images  # noqa: PLC0415  torch

        if is_images(X):
            wanted = getattr(learner, "image_size", None) or FILE_SIZE
            images = as_images(X, image_size=None if hasattr(X, "ndim") else wanted)
            pixels = _channels_last(images.pixels)
            classifier.images_, classifier.image_shape_ = True, tuple(int(side) for side in pixels.shape[1:])
            classifier.n_features_in_ = math.prod(classifier.image_shape_)
            return pixels, images.labels if y is None else y
    return read_features(classifier, X, reset=True), y


def is_loader(X: Any) -> bool:  # noqa: N803
    """Return whether X yields batches: a DataLoader, or what can be iterated but not indexed.

    Examples
    --------
    >>> is_loader(iter([1, 2])), is_loader([1, 2]), is_loader(np.zeros(3))
    (True, False, False)
    """
    plain = any(hasattr(X, name) for name in ("__getitem__", "__array__", "__dataframe__", "dtype"))
    return hasattr(X, "__iter__") and not plain and not isinstance(X, str | bytes | PathLike)


def read_features(classifier: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Check the features of training samples (``reset``), or of others, without the columns that are no features."""
    if not reset and getattr(getattr(classifier, "model_", None), "kind", None) == "loaders":
        return X  # batches of inputs that only the network knows
    refuse_masked(X, "X")
    if isinstance(X, Mapping) and (graph := graph_of(classifier)) is not None:
        X = graph.to_rows(X)  # noqa: N806
    if isinstance(X, Mapping) and not hasattr(X, "toarray") and not reset:
        X = _columns_by_name(classifier, X)  # noqa: N806
    if not reset:
        X = select_features(X, getattr(classifier, "cost_spec_", None), _other_columns(classifier))  # noqa: N806
    if getattr(classifier, "images_", False):
        return _read_images(classifier, X, size_of_images(classifier))
    if not classifier.encodes:
        return _read_unencoded(classifier, X, reset=reset)
    with in_one_line():
        return _read_table(classifier, X, reset=reset)


def graph_of(classifier: Any) -> Any:
    """Return the graph that takes several arrays by name (tokens), where a classifier is around one."""
    learner = getattr(classifier, "learner", None)
    models = getattr(getattr(classifier, "model_", None), "estimators", ())
    for one in (getattr(learner, "estimator", learner), *models):
        if hasattr(one, "to_rows") and one.kind == "arrays":
            return one
    return None


def _columns_by_name(classifier: Any, X: Mapping[str, Any]) -> Any:  # noqa: N803
    """Return the features of a mapping of arrays, by name (x0, x1, ... where the training had none); others stay."""
    from adacsl.datasets.columns import Columns  # noqa: PLC0415  scikit-learn alone needs none

    columns, names = X if isinstance(X, Columns) else Columns(X), getattr(classifier, "feature_names_in_", None)
    places = [f"x{i}" for i in range(classifier.n_features_in_)]
    features = columns.select(places if names is None else list(names), named=names is not None)
    return features if classifier.encodes else features.to_table()


def select_features(X: Any, costs: CostMatrix | None, others: Sequence[str] = ()) -> Any:  # noqa: N803
    """Return a table without the columns of costs that are unknown at prediction time, and others, no features."""
    excluded = (*(() if costs is None else costs.hidden), *others)
    return without_columns(X, excluded) if excluded else X


def _other_columns(classifier: Any) -> tuple[str, ...]:
    """Return the columns that tables may have besides the features: excluded ones, the times of the policy."""
    time = getattr(getattr(classifier, "policy", None), "time", None)
    own = isinstance(time, str) and time not in getattr(classifier, "feature_names_in_", ())
    return (*getattr(classifier, "left_out_", ()), *((time,) if own else ()))


@contextmanager
def in_one_line() -> Iterator[None]:
    """Raise scikit-learn's errors in one line, without the data."""
    try:
        yield
    except ValueError as error:
        message = re.sub(r"\s*array=.*?\.?\n(?=Reshape)|(?<=not supported)\n.*", " ", str(error), flags=re.DOTALL)
        raise ValueError(one_line(message)) from None


def _read_table(classifier: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Return features as scikit-learn requires: number and names of columns, two dimensions."""
    if isinstance(X, Mapping) and not hasattr(X, "toarray") and not reset:
        return X  # selected by name
    if hasattr(X, "columns") or hasattr(X, "schema") or hasattr(X, "column_names"):
        validate_data(classifier, X, reset=reset, skip_check_array=True)
        return X
    known = hasattr(X, "__array__") or hasattr(X, "toarray") or isinstance(X, Sequence)
    if not known or isinstance(X, str):
        raise TypeError(f"X must be a table (an array, a frame or a list of rows), got {type(X).__name__}")
    X = dense(X)  # noqa: N806
    if isinstance(X, list) and X and not np.isscalar(X[0]) and isinstance(np.asarray(X, dtype=object).flat[0], str):
        X = np.asarray(X, dtype=object)  # noqa: N806
    return validate_data(classifier, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_features=1)


def _read_unencoded(classifier: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Leave the content to the estimator; remember (or compare) the features' names and number."""
    if reset:
        classifier.single_column_ = _is_vector(X)
    if getattr(classifier, "single_column_", False):
        rows = _read_vector(classifier, X, reset=reset)
        if _num_samples(rows) == 0:
            raise ValueError("X is empty: found 0 sample(s) while a minimum of 1 is required")
        return rows
    if not reset and hasattr(classifier, "n_features_in_") and getattr(X, "ndim", 2) == 1:
        raise ValueError(
            f"X must have rows and columns, got shape {X.shape}. Reshape your data: reshape(1, -1) for one row"
        )
    validate_data(classifier, X, reset=reset, skip_check_array=True)
    rows = indexable(X)[0]
    if _num_samples(rows) == 0:
        raise ValueError("X is empty: found 0 sample(s) while a minimum of 1 is required")
    return rows


def _is_vector(X: Any) -> bool:  # noqa: N803
    """Return whether samples are one text each: a list, array or series of texts, as vectorizers take them."""
    if isinstance(X, list | tuple):
        return bool(X) and isinstance(X[0], str)
    first: list[Any] = X[:1].tolist() if isinstance(X, np.ndarray) and X.ndim == 1 else []
    if not first and getattr(X, "ndim", 0) != 2 and hasattr(X, "to_list"):
        first = X.head(1).to_list()
    return bool(first) and isinstance(first[0], str)


def _read_vector(classifier: Any, X: Any, *, reset: bool) -> Any:  # noqa: N803
    """Return texts as one vector; tables have them in the column of the training, or in their only column."""
    if reset:
        classifier.n_features_in_ = 1
        if hasattr(classifier, "feature_names_in_"):
            del classifier.feature_names_in_
        if isinstance(name := getattr(X, "name", None), str) and name:
            classifier.feature_names_in_ = np.asarray([name], dtype=object)
        return X
    names: Any = getattr(classifier, "feature_names_in_", None)
    columns = None if not hasattr(X, "columns") else [str(name) for name in X.columns]
    if columns is not None:
        if names is None and len(columns) != 1:
            raise ValueError(f"the model was trained on one text per sample, got a table of {len(columns)} columns")
        if names is not None and names[0] not in columns:
            raise ValueError(f"X lacks the column {names[0]!r}, the text that the model was trained on")
        return X[columns[0] if names is None else str(names[0])]
    if isinstance(X, np.ndarray) and X.ndim == 2 and X.shape[1] == 1:
        return X[:, 0]
    if isinstance(X, str) or getattr(X, "ndim", 1) != 1:
        raise ValueError("the model was trained on one text per sample: give a list, an array or a series of texts")
    return X


def _read_images(classifier: Any, X: Any, size: tuple[int, int] | None = None) -> NDArray[Any]:  # noqa: N803
    """Return images like those of the training: their size (or another), their channels."""
    shape = (*(size or classifier.image_shape_[:2]), classifier.image_shape_[2])
    if isinstance(X, np.ndarray) and X.dtype == np.uint8 and X.ndim == 4 and X.shape[1:] == shape:
        return np.ascontiguousarray(X)  # without importing torch
    from adacsl.datasets.images import as_images, is_images  # noqa: PLC0415  torch

    if not is_images(X):
        raise ValueError("this model was trained on images; give uint8 images, a folder or a Dataset")
    height, width, channels = classifier.image_shape_
    pixels = _channels_last(as_images(X, image_size=size or (height, width)).pixels)
    if pixels.shape[3] != channels:
        raise ValueError(f"the model was trained on images of {channels} channels, got {pixels.shape[3]}")
    return pixels


def _channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return N x H x W x C: samples of such an array are channels-last batches, the layout GPUs like best."""
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))


def size_of_images(classifier: Any) -> tuple[int, int]:
    """Return the height and width of a model's images: that of the training, or to which its networks resize them."""
    side = getattr(getattr(classifier.model_, "settings", None), "image_size", None)
    height, width, _ = classifier.image_shape_
    return (height, width) if side is None else (side, side)


# labels: by the rule of adacsl.base.labels


def _read_training_labels(classifier: Any, y: Any) -> Encoded:
    y = _read_labels(y, "y", warn=True)
    assert_all_finite(y, input_name="y")
    check_classification_targets(y)
    names = getattr(classifier.costs, "classes", None)
    labels = encode_labels(y, classifier.pos_label, names, who=type(classifier).__name__, stacklevel=4)
    classifier.classes_, classifier.pos_label_ = labels.classes, labels.pos_label
    return labels


def _read_labels(y: Any, name: str, *, warn: bool = False) -> NDArray[Any]:
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
            raise ValueError(f"{name} has no label (None or NaN) in row {missing[0] + 1}: fill it in or remove the row")
        texts = [isinstance(label, str) for label in y.tolist()]
        if any(texts) and not all(texts):
            first, other = y[texts.index(True)], y[texts.index(False)]
            raise ValueError(f"{name} mixes text and others, such as {first!r} and {other!r}: write all labels alike")
    return np.asarray(y.tolist() if y.dtype == object and not isinstance(y[0], str) else y)  # numbers as objects


def read_known_labels(
    classifier: Any, y: Any, name: str = "y", unknown: str = "y holds labels that were not in training: {}"
) -> NDArray[np.int64]:
    """Return labels as class indices; refuse those that were not in training."""
    result, where = np.unique(_read_labels(y, name), return_inverse=True)
    indices = find_classes(class_order(classifier), result.tolist())
    if others := [label for label, index in zip(result.tolist(), indices, strict=True) if index is None]:
        raise ValueError(unknown.format(sorted(others, key=str)))
    return np.asarray(indices, dtype=np.int64)[where]


def class_order(classifier: Any) -> list[Any]:
    """Return the labels in the order of the class indices: of two classes the positive one is last."""
    order: list[Any] = classifier.classes_.tolist()
    return order[::-1] if classifier.pos_label_ is not None and classifier.pos_label_ == order[0] else order


def number_labels(classifier: Any, labels: NDArray[Any]) -> NDArray[np.int64]:
    """Return labels that a classifier predicted as class indices."""
    if classifier.pos_label_ is None:
        return np.searchsorted(classifier.classes_, labels).astype(np.int64)
    return np.asarray(labels == classifier.pos_label_, dtype=np.int64)


# separate validation data


def _with_validation(classifier: Any, rows: Rows) -> Rows:
    if rows.costs is not None or rows.weight is not None:
        raise ValueError("validation data of their own cannot be combined with sample_weight or costs of each row")
    try:
        other, labels = classifier.validation
    except (TypeError, ValueError):
        raise ValueError(
            "validation must be a fraction between 0 and 1 or a pair (X, y), "
            f"got {type(classifier.validation).__name__}"
        ) from None
    refuse_reordered(other, **{"the y of validation": labels})
    added = read_known_labels(classifier, labels, "the y of validation", "the validation labels {} do not occur in y")
    if len(np.unique(added)) < 2:
        raise ValueError(
            f"adaptation needs both classes in the validation set, but all {len(added)} labels are "
            f"{class_order(classifier)[int(added[0])]!r}"
        )
    extra = _read_images(classifier, other) if rows.images else read_features(classifier, other, reset=False)
    if _num_samples(extra) != len(added):
        raise ValueError(f"validation must be as many rows as labels, got {_num_samples(extra)} and {len(added)}")
    n = len(rows.y)
    return replace(
        rows, y=np.concatenate((rows.y, added)), use=np.arange(n), validation=np.arange(len(added)) + n, extra=extra,
        groups=None,
    )  # fmt: skip


# times


def with_times(rows: Rows, time: NDArray[Any] | None, gap: Any, label_delay: Any) -> Rows:
    """Return samples that know when they were observed: one time for each."""
    if time is None:
        if gap is not None or label_delay is not None:
            raise ValueError("gap and label_delay are for samples with a time: give it as fit(X, y, time=...)")
        return rows
    if rows.validation is not None:
        raise ValueError("validation rows given separately have no time: omit time, or give validation=0.2")
    if len(time) != len(rows.y):
        raise ValueError(f"time must hold one time for each of {len(rows.y)} rows, got {len(time)}")
    return dataclasses.replace(rows, line=Timeline.of(time, gap, label_delay))


# costs


def resolve_costs(classifier: Any, rows: Rows, table: Any) -> Rows:
    """Return training samples with their costs as numbers; the classifier remembers what they were made of.

    Sets ``cost_spec_``: the cost specification in the order of the class indices, where it depends on columns (of
    ``table``); what is to be predicted is learned.
    """
    spec = rows.costs
    if spec is not None and spec is classifier.costs:
        spec = aligned_costs(classifier, rows)  # it may name its classes
    # other samples have the mean of a cost given as an array
    classifier.cost_spec_ = spec.without_samples() if spec is not None and not spec.resolved else None
    if spec is None:
        return rows
    raw = spec.of(table, clipped=False)
    warn_of_implausible_costs(raw, rows.y, leakage=not spec.learns, stacklevel=4)
    if not spec.learns:
        return replace(rows, costs=raw.clipped().checked())
    seed = classifier.random_state if isinstance(classifier.random_state, Integral) else 0
    costs, learned = resolve("adacsl.estimators.cost_model:learn_costs")(spec, raw, rows, table, int(seed))
    classifier.cost_spec_ = learned.without_samples()
    return replace(rows, costs=costs)


def aligned_costs(classifier: Any, rows: Rows) -> CostMatrix:
    """Return a classifier's costs in the order of the class indices, or inverse priors."""
    costs: CostMatrix | None = classifier.costs
    if costs is None:
        return CostMatrix.balanced(rows.y[rows.use])
    if costs.n_classes != rows.n_classes:
        names, known = costs.classes or (), rows.labels or ()
        form = "CostMatrix.from_array(K x K, rows='predicted', classes=[...])"
        form = "CostMatrix(fp=1, fn=8)" if rows.n_classes == 2 else form
        absent = [name for name, index in zip(names, find_classes(known, names), strict=True) if index is None]
        raise ValueError(
            f"the labels have {rows.n_classes} classes, the costs {costs.n_classes}"
            + (f", of which {absent!r} have no rows" if absent else "")
            + f"; give a cost for each sample: {form}"
        )
    return costs if rows.labels is None else costs.aligned(rows.labels)


def sample_cost_names(given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the names of costs that were given as arrays, and differ between samples."""
    arrays = {
        name: np.asarray(value)
        for name, value in given.items()
        if not (value is None or isinstance(value, str | tuple) or is_recipe(value))
    }
    return tuple(name for name, values in arrays.items() if values.ndim and bool((values != values.flat[0]).any()))


def missing_costs(classifier: Any, given: Mapping[str, Any]) -> list[str]:
    """Return the costs that a model was fitted with as arrays, one value per sample, and that are not given now."""
    return [name for name in getattr(classifier, "sample_costs_", ()) if given.get(name) is None]


def costs_for(classifier: Any, X: Any, **given: Any) -> CostMatrix | None:  # noqa: N803
    """Return the costs of samples to decide about: those given, else by the specification of the training.

    None where all samples cost the same, ``classifier.costs_``. Per-sample costs that were arrays in training are known
    of no other sample: they have to be given.
    """
    check_is_fitted(classifier)
    if missing := missing_costs(classifier, given):
        means = ", ".join(f"{name}={getattr(classifier.costs_, name):.6g}" for name in missing)
        raise ValueError(
            f"the model was fitted with {' and '.join(missing)} of each sample: pass {' and '.join(missing)} of these "
            f"samples, as in predict(X, {', '.join(f'{name}=...' for name in missing)}), or one cost for all of them, "
            f"such as their mean in training ({means}); costs that are a column of X need no passing if fit is given "
            "its name"
        )
    refuse_reordered(X, **given)
    spec = getattr(classifier, "cost_spec_", None)
    costs = row_costs(given, classifier.costs_ if spec is None else spec)
    if costs is None or costs.resolved:
        return None if costs is None else costs.clipped()
    try:
        return costs.of(X)
    except ValueError as error:
        raise ValueError(
            f"{error}. The model was trained with {spec!r}: give it these columns, or per-sample costs, as in "
            "predict(X, fn=costs)"
        ) from error


def example_costs(costs: CostMatrix | None) -> CostMatrix:
    """Return costs to check other settings by: the classifier's own, or equal ones, if none are known yet."""
    if costs is not None and costs.resolved:
        return costs
    n = 2 if costs is None else costs.n_classes
    return CostMatrix.from_array(1.0 - np.eye(n), rows="predicted")


# target leakage


def leaks(rows: Rows) -> Iterator[str]:
    """Yield a line for each column of a table that alone separates both classes."""
    if rows.images or rows.n_classes > 2:
        return
    from adacsl.datasets.ordinal_encoder import ColumnEncoder  # noqa: PLC0415  images need none

    table = rows.to_encode(rows.use)
    encoder = ColumnEncoder().fit(table)
    positive = rows.y[rows.use] == 1
    for rule, column in zip(encoder.columns, encoder.transform(table).T, strict=True):
        if np.isnan(column).any():
            continue
        low, high = column[positive], column[~positive]
        separated = low.max() < high.min() or high.max() < low.min()
        levels = np.unique(column)
        if rule["kind"] == "category" and len(levels) < len(column) / 10:
            separated = not np.intersect1d(low, high).size
        if separated and len(levels) > 1:
            yield f"column {rule['name']!r} alone separates the classes (target leakage): is it known when deciding?"
