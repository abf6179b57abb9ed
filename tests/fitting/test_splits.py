"""Which rows train and which adapt: stratified, groups together, both classes on both sides, or a clear error."""

import numpy as np
import pytest
from sklearn.model_selection import GroupKFold, KFold, RepeatedStratifiedKFold, StratifiedKFold

from adacsl.fitting.splits import cross_splits, folds_of, one_split


def labels(n=200, share=0.15, seed=0):
    return (np.random.default_rng(seed).random(n) < share).astype(int)


@pytest.mark.parametrize("fraction", [0.1, 0.2, 0.5])
def test_one_split_is_stratified_and_complete(fraction):
    y = labels()
    ((train, test),) = one_split(y, None, fraction, seed=0)
    assert sorted([*train, *test]) == list(range(200))
    assert len(test) == round(200 * fraction)
    assert abs(y[test].mean() - y.mean()) < 0.02


@pytest.mark.parametrize("positives", [2, 3, 5])
@pytest.mark.parametrize("seed", range(5))
def test_rare_classes_are_on_both_sides(positives, seed):
    y = np.zeros(300, dtype=int)
    y[np.random.default_rng(seed).choice(300, positives, replace=False)] = 1
    ((train, test),) = one_split(y, None, 0.1, seed)
    assert set(y[train]) == set(y[test]) == {0, 1}
    assert sorted([*train, *test]) == list(range(300))


def test_few_samples_of_a_class():
    ((train, test),) = one_split(np.array([0, 1, 0, 1]), None, 0.2, 0)
    assert len(train) == len(test) == 2
    with pytest.raises(ValueError, match=r"at least 2 samples of each class .* but the classes have 5 and 1"):
        one_split(np.array([0, 0, 0, 0, 0, 1]), None, 0.2, 0)
    with pytest.raises(ValueError, match=r"at least 5 samples of each class .* 5 folds.* have 20 and 4"):
        cross_splits(np.array([0] * 20 + [1] * 4), None, 5, 0)


def test_wrong_settings():
    for fraction in (0.0, 1.0, -0.1, 3.0):
        with pytest.raises(ValueError, match="validation must be a fraction between 0 and 1"):
            one_split(labels(), None, fraction, 0)
    for cv in ("5", True, 2.5):
        with pytest.raises(TypeError, match="cv must be None, a number of folds, a splitter"):
            cross_splits(labels(), None, cv, 0)
    with pytest.raises(ValueError, match="cv must be at least 2 folds, got 1"):
        cross_splits(labels(), None, 1, 0)


@pytest.mark.parametrize("seed", range(3))
def test_groups_never_straddle(seed):
    y = labels(300, 0.3, seed)
    groups = np.random.default_rng(seed).integers(0, 40, 300)
    folds = [
        *one_split(y, groups, 0.25, seed),
        *cross_splits(y, groups, 4, seed),
        *cross_splits(y, groups, GroupKFold(3), 0),
    ]
    assert len(folds) == 8
    for train, test in folds:
        assert not set(groups[train]) & set(groups[test])
        assert set(y[train]) == set(y[test]) == {0, 1}
    assert sorted(np.concatenate([test for _, test in folds[1:5]])) == list(range(300))
    # without the groups some would have straddled
    ((train, test),) = one_split(y, None, 0.25, seed)
    assert set(groups[train]) & set(groups[test])


def test_few_groups_get_a_split_with_both_classes_or_a_clear_error():
    y = np.array([0] * 30 + [0, 1] * 15)
    groups = np.repeat([0, 1, 2, 3], 15)  # positives in the groups 2 and 3 only
    for seed in range(5):
        ((train, test),) = one_split(y, groups, 0.2, seed)
        assert set(y[train]) == set(y[test]) == {0, 1}
        assert not set(groups[train]) & set(groups[test])
    with pytest.raises(ValueError, match=r"no split by groups .* both classes"):
        one_split(y, np.where(y == 1, 9, groups), 0.2, 0)
    with pytest.raises(ValueError, match="both classes"):
        one_split(y, np.zeros(60), 0.2, 0)


def test_cross_splits_cover_every_sample_once():
    y = labels()
    folds = cross_splits(y, None, 5, seed=3)
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(200))
    for train, test in folds:
        assert sorted([*train, *test]) == list(range(200))
    again = cross_splits(y, None, 5, seed=3)
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(folds, again, strict=True))
    assert not np.array_equal(folds[0][1], cross_splits(y, None, 5, seed=4)[0][1])
    splitter = RepeatedStratifiedKFold(n_splits=2, n_repeats=2, random_state=0)
    assert len(cross_splits(y, None, splitter, 0)) == 4
    pairs = list(StratifiedKFold(3).split(y, y))
    for cv in (pairs, iter(pairs)):
        result = cross_splits(y, None, cv, 0)
        assert [list(test) for _, test in result] == [list(test) for _, test in pairs]


def test_a_fold_without_positives_is_an_error():
    y = np.array([0] * 50 + [1] * 10)
    with pytest.raises(ValueError, match=r"fold 0 has only one class in its validation part; use fewer folds"):
        cross_splits(y, None, KFold(6), 0)
    with pytest.raises(ValueError, match=r"fold 0 has only one class in its training part"):
        cross_splits(y, None, [(np.arange(40), np.arange(40, 60))], 0)


# folds to test on


@pytest.mark.parametrize("size", [1, 3])
def test_many_groups_are_dealt_out_as_evenly_as_scikit_learn_does(size, monkeypatch):
    y = np.repeat(labels(900, 0.2), size)[: 900 * size]
    groups = np.repeat(np.random.default_rng(0).permutation(900), size)
    groups[: 200 * size] = np.repeat(np.arange(100), 2 * size)  # some are larger, and of mixed labels
    for seed in range(3):
        monkeypatch.setattr("adacsl.fitting.splits.MANY_GROUPS", 10)
        result = folds_of(y, groups, 5, seed)
        assert all(len(set(result[groups == group])) == 1 for group in np.unique(groups))
        assert np.bincount(result) == pytest.approx([len(y) / 5] * 5, rel=0.05)
        assert [y[result == fold].mean() for fold in range(5)] == pytest.approx([y.mean()] * 5, abs=0.02)
        other = folds_of(y, groups, 5, seed + 1)
        assert not np.array_equal(result, other)
        assert np.array_equal(result, folds_of(y, groups, 5, seed))


def test_samples_that_are_nearly_all_alone_are_split_as_without_groups():
    y = labels(400, 0.1)
    groups = np.arange(400)
    groups[[3, 9]] = groups[[200, 300]]
    alone, tied = (one_split(y, own, 0.2, 0)[0] for own in (None, groups))
    assert len(tied[1]) == pytest.approx(len(alone[1]), abs=2)
    for train, test in (tied, *cross_splits(y, groups, 5, 0)):
        assert not set(groups[train]) & set(groups[test])
        assert sorted([*train, *test]) == list(range(400))
    result = folds_of(y, groups, 5, 0)
    assert result[3] == result[200]
    assert result[9] == result[300]
    assert np.bincount(result) == pytest.approx([80] * 5, abs=2)


def test_the_rarest_class_of_a_group_stands_for_it():
    y, groups = np.zeros(100, int), np.arange(100)
    y[[50, 60, 70, 80]] = 1
    groups[[50, 60, 70, 80]] = [0, 1, 2, 3]  # each with a negative that comes first
    ((train, test),) = one_split(y, groups, 0.25, 0)
    assert set(y[train]) == set(y[test]) == {0, 1}
    assert all(y[folds_of(y, groups, 4, 0) == fold].sum() == 1 for fold in range(4))


def test_folds_that_leave_too_little_are_refused():
    y = np.zeros(40, int)
    with pytest.raises(ValueError, match=r"3 folds leave too little .* 40 rows, 40 by class; use fewer folds"):
        folds_of(y, None, 3, 0)
    y[:2] = 1
    assert set(folds_of(y, None, 3, 0)) == {0, 1, 2}  # one fold has no positive
    with pytest.raises(ValueError, match=r"40 rows in 3 groups, 38, 2 by class"):
        folds_of(y, np.arange(40) % 3, 5, 0)
    with pytest.raises(ValueError, match="folds must be at least 2, got 1"):
        folds_of(y, None, 1, 0)
