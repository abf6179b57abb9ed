"""Class labels as class indices, and which of two classes is positive.

0 and 1, -1 and 1, False and True need no naming, also where they are written as text. Of other labels, somebody has to
say which one is positive: the class whose misses cost ``fn``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

CUSTOM = ({"0", "1"}, {"-1", "1"}, {"false", "true"})


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


def same_label(name: str, said: object) -> bool:
    """Tell whether what somebody said means the class of this name.

    >>> same_label("1", "1.0"), same_label("True", 1), same_label("True", "true"), same_label("yes", "Yes")
    (True, True, True, False)
    """
    other = label_name(said)
    return name == other or _number(name) == _number(other)


def is_number(name: str) -> bool:
    """Tell whether a name is a number, as text.

    >>> is_number("01"), is_number("one")
    (True, False)
    """
    return not math.isnan(_number(name))


def are_places(labels: Sequence[object], names: Sequence[str]) -> bool:
    """Tell whether labels are the places of sorted names: ``cross_val_predict`` numbers texts before it fits.

    >>> are_places([0, 1, 2], ["ash", "elm", "oak"]), are_places([0, 1, 2], ["oak", "elm", "ash"])
    (True, False)
    """
    known = any(same_label(name, label) for name in names for label in labels)
    return list(labels) == list(range(len(names))) and list(names) == sorted(names) and not known


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


def customary_positive(labels: Iterable[Any]) -> Any:
    """Return the label that is positive by custom, or None where custom says nothing.

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


def choose_positive(labels: Iterable[Any], positive: Any = None) -> Any:
    """Return the positive one of at most two labels: the one named, or by custom.

    Raises
    ------
    ValueError
        If custom does not tell, or ``positive`` leaves more than one other class.
    """
    found = sorted(set(labels), key=str)
    if positive is not None:
        if len([label for label in found if label != positive]) > 1:
            raise ValueError(f"positive {positive!r} leaves more than one other class: {found}")
        return positive
    custom = customary_positive(found)
    if custom is None:
        raise unnamed_positive(found)
    return custom


def unnamed_positive(labels: Sequence[Any]) -> ValueError:
    """Return the error that asks which of two labels is positive."""
    choice = f": {' or '.join(map(repr, labels))}" if len(labels) == 2 else ""
    return ValueError(
        f"which of the classes {labels} is positive? Name the one whose false negatives cost fn as positive{choice}"
    )


def encode_labels(
    y: NDArray[Any], positive: Any = None, *, who: str = "the classifier", stacklevel: int = 1
) -> tuple[NDArray[np.int64], NDArray[Any], Any]:
    """Return labels as 0 and 1 (positive), the two classes sorted, and the positive one.

    More than two classes are numbered in sorted order, and none is positive (None).

    Parameters
    ----------
    y : array of shape (n,)
        Labels of two or more classes, none missing.
    positive : label, optional
        Needed for text. Of numbers other than 0 and 1, or -1 and 1, the greater one is taken, with a warning:
        scikit-learn's own checks have such labels.
    who : str
        Who needs two classes or more, for messages.
    stacklevel : int
        Whose line the warning names: 1 is the caller, 2 the caller of that, and so on.

    Examples
    --------
    >>> encode_labels(np.array(["ill", "well", "ill"]), "ill")
    (array([1, 0, 1]), array(['ill', 'well'], dtype='<U4'), 'ill')
    """
    classes, numbers = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise ValueError(f"{who} needs two classes, but y holds one class only: {classes.tolist()[0]!r}")
    if len(classes) > 2:
        if positive is not None:
            raise ValueError(f"positive {positive!r} is for two classes, y has {len(classes)}: leave it out")
        return np.asarray(numbers, dtype=np.int64), classes, None
    if positive is None:
        if customary_positive(classes.tolist()) is None:
            if classes.dtype.kind not in "biuf":
                raise unnamed_positive(classes.tolist())
            warnings.warn(
                f"the positive class was not named: taking {classes[1]!r} (the other is {classes[0]!r}); "
                "name it as positive to choose",
                stacklevel=stacklevel + 1,
            )
        positive = classes[1]  # by custom too, the greater one is positive
    elif positive not in classes.tolist():
        numbered = "; if these are the places of the sorted labels, say which place" * (classes.tolist() == [0, 1])
        raise ValueError(f"positive {positive!r} is no label of y; the labels are {classes.tolist()}{numbered}")
    return np.asarray(numbers if positive == classes[1] else 1 - numbers, dtype=np.int64), classes, positive
