"""Which rows train a net and which rows adapt it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.extras import requires

with requires("train"):
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit, check_cv


def one_split(
    y: NDArray[Any], groups: NDArray[Any] | None, fraction: float, seed: int
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return one (training rows, validation rows) pair, stratified; groups stay together."""
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"validation must be a fraction between 0 and 1 or a pair (X, y), got {fraction!r}")
    if groups is not None:
        return [_one_group_split(y, groups, max(2, round(1.0 / fraction)), seed)]
    _check_class_sizes(y, 2, "one sample of each class to train on and one to adapt to")
    # at least one sample of each class on both sides, however small the data
    count = min(max(2, round(fraction * len(y))), len(y) - 2)
    if y.max() > 1:
        return [_one_class_split(y, count, seed)]
    split = StratifiedShuffleSplit(1, test_size=count, random_state=seed)
    return [_with_both_classes(y, *pair) for pair in split.split(y, y)]


def _one_class_split(y: NDArray[Any], count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return a stratified split of more than two classes; a class of one row is trained on."""
    sizes = np.bincount(y)
    several = np.flatnonzero(sizes[y] > 1)
    classes = int((sizes > 1).sum())
    held = min(max(count, classes), len(several) - classes)
    split = StratifiedShuffleSplit(1, test_size=held, random_state=seed)
    train, test = next(split.split(several, y[several]))
    return np.sort(np.append(several[train], np.flatnonzero(sizes[y] == 1))), np.sort(several[test])


def cross_splits(
    y: NDArray[Any], groups: NDArray[Any] | None, cv: Any, seed: int
) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return the folds of ``cv``: a number of stratified folds, or any scikit-learn splitter."""
    if isinstance(cv, int) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}")
        if groups is None:
            _check_class_sizes(y, cv, f"one sample of each class in each of the {cv} folds")
        kind = StratifiedKFold if groups is None else StratifiedGroupKFold
        cv = kind(cv, shuffle=True, random_state=seed)
        if y.max(initial=0) > 1:
            return _class_folds(y, groups, cv)
    if isinstance(cv, str) or not (hasattr(cv, "split") or hasattr(cv, "__iter__")):
        raise TypeError(f"cv must be None, a number of folds, a splitter or (train, test) pairs, got {cv!r}")
    folds = [(np.asarray(train), np.asarray(test)) for train, test in check_cv(cv).split(y, y, groups)]
    for number, (train, test) in enumerate(folds):
        for part, name in ((train, "training"), (test, "validation")):
            if len(np.unique(y[part])) < 2:
                raise ValueError(
                    f"fold {number} has only one class in its {name} part; use fewer folds, or stratified ones"
                )
    return folds


def _class_folds(y: NDArray[Any], groups: NDArray[Any] | None, cv: Any) -> list[tuple[NDArray[Any], NDArray[Any]]]:
    """Return folds of more than two classes: a rare one may be absent from some, which is said."""
    sizes = np.bincount(y)
    if rare := [int(label) for label in np.flatnonzero((sizes > 0) & (sizes < cv.n_splits))]:
        warnings.warn(
            f"of the classes numbered {rare} there are fewer rows than {cv.n_splits} folds: some folds hold none",
            stacklevel=2,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same, in other words
        return [(train, test) for train, test in cv.split(y, y, groups)]


def _one_group_split(y: NDArray[Any], groups: NDArray[Any], parts: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the first of several near-stratified splits by groups that has both classes on both sides."""
    n_classes = len(np.unique(y))
    for count in sorted({parts, min(parts, 3), 2}, reverse=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes with fewer rows than parts: looked at below
            try:
                folds = list(StratifiedGroupKFold(count, shuffle=True, random_state=seed).split(y, y, groups))
            except ValueError:  # fewer groups or samples than parts
                continue
        for train, test in folds:
            # of more than two classes rare ones may be missing, but not from the training rows
            if len(np.unique(y[train])) == n_classes and len(np.unique(y[test])) >= 2:
                return train, test
    raise ValueError(
        f"no split by groups puts both classes on both sides: {len(np.unique(groups))} groups, "
        f"{len(np.unique(groups[y == 1]))} of them with positives; give more groups, or validation=(X, y)"
    )


def _check_class_sizes(y: NDArray[Any], needed: int, why: str) -> None:
    counts = np.bincount(y.astype(int), minlength=2)
    if len(counts) > 2 and np.count_nonzero(counts) >= 2 and counts.max() >= needed:
        return  # rare ones of many classes are left to the caller
    if counts.min() < needed:
        raise ValueError(
            f"at least {needed} samples of each class are needed ({why}), "
            f"but the classes have {counts[0]} and {counts[1]} samples"
        )


def _with_both_classes(y: NDArray[Any], train: NDArray[Any], test: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Move one sample across where a rare class ended up on one side only."""
    for label in (0, 1):
        if not np.any(y[test] == label):
            moved = train[y[train] == label][:1]
            train, test = np.setdiff1d(train, moved), np.append(test, moved)
        elif not np.any(y[train] == label):
            moved = test[y[test] == label][:1]
            train, test = np.append(train, moved), np.setdiff1d(test, moved)
    return train, test
