"""Class labels as class indices, and which of two classes is positive: one rule for all that reads labels.

1. Labels are compared by name: ``1``, ``1.0``, ``True`` and ``"1"`` are one class; the exact spelling goes first.
2. Of two classes, the positive one has index 1: the one named ``pos_label``, else the second of two names of the costs,
   else 1 of 0 and 1 or of -1 and 1, and True of False and True. Of others, somebody has to say which one is positive:
   the class whose false negatives cost ``fn``.
3. More classes have the indices of their sorted labels, and none is positive.
4. Costs that name their classes are matched by name, in whatever order they list them.
5. Labels 0 to K - 1, where the costs give K classes other names, are positions in the sorted names: scikit-learn's
   ``cross_val_predict``, voting, stacking and bagging hand such numbers to what they fit. Costs that list the names in
   another order leave open which of both orders is meant: then ``pos_label`` decides for two classes, and more are an
   error.

:func:`order_classes` applies it to the labels of a fit or a data set, :func:`find_class` to one label among classes
that are known.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

CUSTOM = ({"0", "1"}, {"-1", "1"}, {"false", "true"})


# names


def label_name(label: Any) -> str:
    """Return a label as text; whole numbers without a point.

    >>> label_name(1.0), label_name(True), label_name(" yes")
    ('1', 'True', 'yes')
    """
    if isinstance(label, bytes):
        return label.decode(errors="replace").strip()
    if isinstance(label, float | np.floating) and float(label).is_integer():
        return str(int(label))
    return str(label).strip()


def same_label(name: str, other: object) -> bool:
    """Return whether a label means the class of this name.

    >>> same_label("1", "1.0"), same_label("True", 1), same_label("True", "true"), same_label("yes", "Yes")
    (True, True, True, False)
    """
    text = label_name(other)
    return name == text or _number(name) == _number(text)


def find_class(classes: Iterable[object], label: object) -> int | None:
    """Return the index of the class that a label means, or None where none or several fit.

    >>> find_class(["0", "1"], True), find_class(["01", "1"], "1"), find_class(["01", "1"], 1.0)
    (1, 1, 1)
    >>> find_class(["1.0", "01"], "1") is None
    True
    """
    return find_classes(classes, [label])[0]


def find_classes(classes: Iterable[object], labels: Iterable[object]) -> list[int | None]:
    """Return the index of the class that each label means, as :func:`find_class` does.

    >>> find_classes(["no", "1"], [1, "no", "yes"])
    [1, 0, None]
    """
    names = [label_name(known) for known in classes]
    exact = {name: i for i, name in reversed(list(enumerate(names)))}
    by_number: dict[float, list[int]] = {}
    for i, name in enumerate(names):
        by_number.setdefault(_number(name), []).append(i)

    def find(name: str) -> int | None:
        fitting = by_number.get(_number(name), ()) if is_number(name) else ()
        return exact.get(name, fitting[0] if len(fitting) == 1 else None)

    return [find(label_name(label)) for label in labels]


def is_number(name: str) -> bool:
    """Return whether a name is a number, as text.

    >>> is_number("01"), is_number("one")
    (True, False)
    """
    return not math.isnan(_number(name))


def _number(name: str) -> float:
    """Return the number that a name stands for, or NaN, which equals nothing."""
    try:
        return float({"true": "1", "false": "0"}.get(name.casefold(), name))
    except ValueError:
        return math.nan


def plain_labels(names: Sequence[str]) -> list[Any]:
    """Return the labels that names stand for: whole numbers as such, others as text.

    >>> plain_labels(("0", "1")), plain_labels(("no", "1"))
    ([0, 1], ['no', '1'])
    """
    try:
        numbers = [int(name) for name in names]
    except ValueError:
        return list(names)
    return numbers if [str(number) for number in numbers] == list(names) else list(names)


# the positive class


def customary_positive(labels: Iterable[Any]) -> Any:
    """Return the label that is positive by custom, or None if there is no custom.

    >>> customary_positive([-1, 1]), customary_positive(["False", "True"]), customary_positive(["no", "yes"])
    (1, 'True', None)

    Where only the negative one is there, its counterpart is returned.

    >>> customary_positive([0])
    1
    """
    known = {label_name(label).casefold(): label for label in labels}
    if not any(known.keys() <= pair for pair in CUSTOM):
        return None
    return next((label for name, label in known.items() if name in ("1", "true")), 1)


def unnamed_positive(labels: Sequence[Any], what: str, counts: str = "") -> ValueError:
    """Return the error that asks which of two classes is positive."""
    choice = f": {' or '.join(map(repr, labels))}" if len(labels) == 2 else ""
    return ValueError(
        f"the positive class of {what} is not given ({counts or _shown(labels)}): pass as pos_label (--pos-label) the "
        f"class whose false negatives cost fn{choice}"
    )


def _shown(labels: Iterable[Any]) -> str:
    return ", ".join(map(str, labels))


# the order of the classes


class ClassOrder(NamedTuple):
    """Which label has which class index."""

    labels: tuple[Any, ...]
    """The label of each class index; of two classes the second one is positive."""
    names: tuple[Any, ...]
    """What each is called: by the costs where the labels are positions among their names, else the label itself."""


def order_classes(
    labels: Sequence[Any],
    pos_label: Any = None,
    names: Sequence[str] | None = None,
    *,
    what: str = "y",
    counts: str = "",
    hint: str = "",
) -> ClassOrder:
    """Return the classes of labels in the order of their indices, by the rule of this module.

    Parameters
    ----------
    labels : sequence
        The different labels, sorted; two or more.
    pos_label : label, optional
        The class whose false negatives cost ``fn``, as the user names it.
    names : sequence of str, optional
        What a cost matrix calls its classes, in its order.
    what, counts, hint : str
        What messages call the labels, how many there are of each, and what ``pos_label`` may have meant.

    Raises
    ------
    ValueError
        The positive class is not known, or no class of the labels.

    Examples
    --------
    >>> order_classes(["ill", "well"], "ill").labels
    ('well', 'ill')
    >>> order_classes([0, 1], names=["ill", "well"])
    ClassOrder(labels=(0, 1), names=('ill', 'well'))
    >>> order_classes([0, 1, 2], names=["oak", "elm", "ash"])
    Traceback (most recent call last):
        ...
    ValueError: y has the labels 0 to 2, and the costs name the classes 'oak', 'elm', 'ash': their order is not \
known. Give labels that are these names, or name the classes of the costs in sorted order
    """
    numbered = names is not None and _are_positions(labels, names)
    open_order = numbered and names is not None and list(names) != sorted(names)
    called = list(names if numbered and names is not None and not open_order else labels)
    if len(labels) != 2:
        if pos_label is not None:
            raise ValueError(f"pos_label={pos_label!r} is for two classes, but {what} has {len(labels)}: omit it")
        if open_order:
            raise _unordered(labels, names or (), what)
        return ClassOrder(tuple(labels), tuple(called))
    if pos_label is None:
        pos_label = names[1] if names is not None and len(names) == 2 else customary_positive(labels)
        if pos_label is None:
            raise unnamed_positive(labels, what, counts)
    where = find_class(called, pos_label)
    where = find_class(labels, pos_label) if where is None else where
    if where is None and open_order:
        raise _unordered(labels, names or (), what)
    if where is None:
        numbers = "; if these are positions of sorted labels, pass 0 or 1 as pos_label" * (list(labels) == [0, 1])
        raise ValueError(f"{what} has no class {pos_label!r}{hint} (it has {counts or _shown(labels)}){numbers}")
    pair = tuple(names or ()) if open_order else (called[1 - where], called[where])
    return ClassOrder((labels[1 - where], labels[where]), pair)


def _are_positions(labels: Sequence[Any], names: Sequence[str]) -> bool:
    """Return whether labels are 0 to K - 1, and K names are others."""
    if any(isinstance(label, str | bytes | bool | np.bool_) for label in labels) or len(labels) != len(names):
        return False
    return list(labels) == list(range(len(names))) and find_classes(names, labels) == [None] * len(names)


def _unordered(labels: Sequence[Any], names: Sequence[str], what: str) -> ValueError:
    choice = ", or pass 0 or 1 as pos_label" if len(labels) == 2 else ""
    return ValueError(
        f"{what} has the labels 0 to {len(labels) - 1}, and the costs name the classes "
        f"{', '.join(map(repr, names))}: their order is not known. Give labels that are these names, "
        f"or name the classes "
        f"of the costs in sorted order{choice}"
    )


def find_named(names: Sequence[str], labels: Sequence[Any], *, what: str = "y") -> list[int | None]:
    """Return the index of each label among the names of a cost matrix: by name, or by position (5. of the rule).

    >>> find_named(["ash", "elm", "oak"], ["oak", "fir"]), find_named(["ash", "elm", "oak"], [0, 2])
    ([2, None], [0, 2])
    """
    result = find_classes(names, labels)
    number = all(isinstance(label, int | float | np.number) and not isinstance(label, bool) for label in labels)
    if not number or result != [None] * len(result) or not {*labels} <= {*range(len(names))}:
        return result
    if list(names) != sorted(names):
        raise _unordered(range(len(names)), names, what)
    return [int(label) for label in labels]


class Encoded(NamedTuple):
    """Labels as class indices."""

    numbers: NDArray[np.int64]
    classes: NDArray[Any]
    """The labels, sorted."""
    order: ClassOrder
    pos_label: Any
    """The positive label; None with more than two classes."""


def encode_labels(
    y: NDArray[Any],
    pos_label: Any = None,
    names: Sequence[str] | None = None,
    *,
    who: str = "the classifier",
    stacklevel: int = 1,
) -> Encoded:
    """Return labels as class indices, by the rule of this module.

    Parameters
    ----------
    y : array of shape (n,)
        Labels of two or more classes, none missing.
    pos_label : label, optional
        Needed for text. Of numbers other than 0 and 1, or -1 and 1, the greater one is taken, with a warning:
        scikit-learn's own checks have such labels.
    names : sequence of str, optional
        What a cost matrix calls its classes.
    who : str
        Who needs two classes or more, for messages.
    stacklevel : int
        Whose line the warning names: 1 is the caller, 2 the caller of that, and so on.

    Examples
    --------
    >>> result = encode_labels(np.array(["ill", "well", "ill"]), "ill")
    >>> result.numbers, result.classes.tolist(), result.order.labels
    (array([1, 0, 1]), ['ill', 'well'], ('well', 'ill'))
    """
    classes, numbers = np.unique(y, return_inverse=True)
    labels = classes.tolist()
    if len(labels) < 2:
        raise ValueError(f"{who} needs two classes, but y holds one class only: {labels[0]!r}")
    unnamed = pos_label is None and (names is None or len(names) != 2) and customary_positive(labels) is None
    if len(labels) == 2 and unnamed and classes.dtype.kind in "biuf":
        warnings.warn(
            f"pos_label is not given: the positive class is {classes[1]!r}, the negative one {classes[0]!r}; "
            "pass pos_label to choose",
            stacklevel=stacklevel + 1,
        )
        pos_label = labels[1]
    order = order_classes(labels, pos_label, names)
    if len(labels) > 2:
        return Encoded(np.asarray(numbers, dtype=np.int64), classes, order, None)
    second = order.labels[1] == labels[1]
    return Encoded(np.asarray(numbers if second else 1 - numbers, dtype=np.int64), classes, order, order.labels[1])
