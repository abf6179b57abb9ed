"""Labels that scikit-learn has numbered before it fits: which classes 0, 1, ... are then.

``cross_val_predict(method="predict_proba")``, ``VotingClassifier``, ``StackingClassifier`` and ``BaggingClassifier``
give their estimators the places of the sorted labels, and no word of what these were. But who numbered them is still
at work, and knows; in other processes (``n_jobs=2``) nobody does.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

from adacsl.core.labels import are_places, customary_positive, same_label, unnamed_positive
from adacsl.extras import requires

with requires("sklearn"):
    from sklearn.preprocessing import LabelEncoder


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
