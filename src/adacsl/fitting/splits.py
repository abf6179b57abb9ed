"""Splits into training and held-out samples."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires

with requires("train"):
    from sklearn.model_selection import StratifiedGroupKFold, StratifiedKFold, StratifiedShuffleSplit, check_cv


Fold = tuple[NDArray[Any], NDArray[Any]]
"""Numbers of the training samples and of the held-out samples."""

MOSTLY = 0.9
"""Where this share of samples or more stand for a group each, folds are made of them, and their groups follow."""


def random_folds(y: NDArray[Any], groups: NDArray[Any] | None, cv: Any, validation: Any, seed: int) -> list[Fold]:
    """Return the (training, held-out) pairs of a fit whose samples have no times.

    Parameters
    ----------
    y : array of shape (n,)
        Class indices.
    groups : array of shape (n,), optional
        Samples of one group stay together.
    cv : None, int, splitter or pairs
        None: one pair; a number of stratified folds; or any scikit-learn splitter.
    validation : float
        Share that is held out without ``cv``.
    seed : int
        Of the random choice.
    """
    # of one pair as a comparison has it, where the seed itself has cut off the test samples
    return one_split(y, groups, float(validation), seed + 1) if cv is None else cross_splits(y, groups, cv, seed)


def one_split(y: NDArray[Any], groups: NDArray[Any] | None, fraction: float, seed: int) -> list[Fold]:
    """Return one (training samples, validation samples) pair, stratified; groups stay together."""
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"validation must be a fraction between 0 and 1 or a pair (X, y), got {fraction!r}")
    if groups is not None:
        one, place = _one_of_each(y, groups)
        if _mostly_ungrouped(one, place):
            return [_follow(place, *pair) for pair in one_split(y[one], None, fraction, seed)]
        return [_one_group_split(y, groups, max(2, round(1.0 / fraction)), seed)]
    _check_class_sizes(y, 2, "one sample of each class to train on and one to adapt to")
    # at least one sample of each class on both sides, however small the data
    count = min(max(2, round(fraction * len(y))), len(y) - 2)
    if y.max() > 1:
        return [_one_class_split(y, count, seed)]
    split = StratifiedShuffleSplit(1, test_size=count, random_state=seed)
    return [_with_both_classes(y, *pair) for pair in split.split(y, y)]


def _one_class_split(y: NDArray[Any], count: int, seed: int) -> Fold:
    """Return a stratified split of more than two classes; a class of one row is trained on."""
    sizes = np.bincount(y)
    several = np.flatnonzero(sizes[y] > 1)
    classes = int((sizes > 1).sum())
    held = min(max(count, classes), len(several) - classes)
    split = StratifiedShuffleSplit(1, test_size=held, random_state=seed)
    train, test = next(split.split(several, y[several]))
    return np.sort(np.append(several[train], np.flatnonzero(sizes[y] == 1))), np.sort(several[test])


def cross_splits(y: NDArray[Any], groups: NDArray[Any] | None, cv: Any, seed: int) -> list[Fold]:
    """Return the folds of ``cv``: a number of stratified folds, or any scikit-learn splitter."""
    if isinstance(cv, int) and not isinstance(cv, bool):
        if cv < 2:
            raise ValueError(f"cv must be at least 2 folds, got {cv}")
        if groups is None:
            _check_class_sizes(y, cv, f"one sample of each class in each of the {cv} folds")
        elif _mostly_ungrouped(*(each := _one_of_each(y, groups))):
            return [_follow(each[1], *pair) for pair in cross_splits(y[each[0]], None, cv, seed)]
        kind = StratifiedKFold if groups is None else _GroupFolds
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


def folds_of(y: NDArray[Any], groups: NDArray[Any] | None, count: int, seed: int) -> NDArray[np.int64]:
    """Return the number of the fold that each sample is tested in: stratified; groups stay together.

    A fold may have samples of one class only; its training samples may not.
    """
    if count < 2:
        raise ValueError(f"folds must be at least 2, got {count}")
    one, place = _one_of_each(y, np.arange(len(y)) if groups is None else groups)
    ungrouped = _mostly_ungrouped(one, place)
    labels = y[one] if ungrouped else y
    folds = (StratifiedKFold if ungrouped else _GroupFolds)(count, shuffle=True, random_state=seed)
    result = np.zeros(len(labels), dtype=np.int64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about classes with fewer samples than folds: handled below
        try:
            for number, (_, test) in enumerate(folds.split(labels, labels, None if ungrouped else place)):
                result[test] = number
        except ValueError:  # fewer samples of each class than folds
            result[:] = 0
    result = result[place] if ungrouped else result
    if min(len(np.unique(y[result != number])) for number in range(count)) < 2 or len(np.unique(result)) < count:
        by_class = ", ".join(map(str, np.bincount(y).tolist()))
        grouped = "" if groups is None else f" in {len(one)} groups"
        raise ValueError(
            f"{count} folds leave too little to learn from or to test on: {len(y)} rows{grouped}, {by_class} by class; "
            "use fewer folds"
        )
    return result


MANY_GROUPS = 20_000
"""scikit-learn looks at group after group: from so many on they are dealt out instead."""


class _GroupFolds(StratifiedGroupKFold):
    """Folds of groups, near-stratified; very many groups are assigned round-robin, sorted by their labels."""

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Any:  # noqa: N803  scikit-learn's name
        """Yield (training samples, held-out samples)."""
        one, place = _one_of_each(y, groups)
        if len(one) < MANY_GROUPS:
            yield from super().split(X, y, groups)
            return
        counts = [np.bincount(place, np.asarray(y) == label) for label in np.unique(y)]
        random_order = np.random.default_rng(self.random_state).permutation(len(one))
        order = np.lexsort((random_order, *counts))
        fold = np.empty(len(one), dtype=np.int64)
        fold[order] = np.arange(len(one)) % self.n_splits
        for number in range(self.n_splits):
            held = fold[place] == number
            yield np.flatnonzero(~held), np.flatnonzero(held)


def _one_of_each(y: NDArray[Any], groups: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return a sample for each group, of its rarest class, and the number of each sample's group."""
    place = np.unique(groups, return_inverse=True)[1]
    rarity = np.bincount(y)[y]
    order = np.lexsort((rarity, place))
    return order[np.flatnonzero(np.diff(place[order], prepend=-1))], place


def _mostly_ungrouped(one: NDArray[np.int64], place: NDArray[np.int64]) -> bool:
    """Whether hardly any sample has another in its group: then one row can stand for each group."""
    return len(one) >= MOSTLY * len(place)


def _follow(place: NDArray[np.int64], *parts: NDArray[Any]) -> Fold:
    """Return the samples of all groups of a split's parts."""
    train, test = (np.flatnonzero(np.isin(place, part)) for part in parts)
    return train, test


def _class_folds(y: NDArray[Any], groups: NDArray[Any] | None, cv: Any) -> list[Fold]:
    """Return folds of more than two classes: a rare one may be absent from some, with a warning."""
    sizes = np.bincount(y)
    if rare := [int(label) for label in np.flatnonzero((sizes > 0) & (sizes < cv.n_splits))]:
        warnings.warn(
            f"of the classes numbered {rare} there are fewer rows than {cv.n_splits} folds: some folds hold none",
            stacklevel=2,
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same, in other words
        return [(train, test) for train, test in cv.split(y, y, groups)]


def _one_group_split(y: NDArray[Any], groups: NDArray[Any], parts: int, seed: int) -> Fold:
    """Return the first of several near-stratified splits by groups that has both classes on both sides."""
    n_classes = len(np.unique(y))
    for count in sorted({parts, min(parts, 3), 2}, reverse=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about classes with fewer samples than parts: handled below
            try:
                folds = list(_GroupFolds(count, shuffle=True, random_state=seed).split(y, y, groups))
            except ValueError:  # fewer groups or samples than parts
                continue
        for train, test in folds:
            # of more than two classes rare ones may be missing, but not from the training samples
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


def _with_both_classes(y: NDArray[Any], train: NDArray[Any], test: NDArray[Any]) -> Fold:
    """Move one sample across where a rare class ended up on one side only."""
    for label in (0, 1):
        if not np.any(y[test] == label):
            moved = train[y[train] == label][:1]
            train, test = np.setdiff1d(train, moved), np.append(test, moved)
        elif not np.any(y[train] == label):
            moved = test[y[test] == label][:1]
            train, test = np.append(train, moved), np.setdiff1d(test, moved)
    return train, test
