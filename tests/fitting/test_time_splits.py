"""Splits in the order of time, against a brute-force reading of what they promise."""

import itertools

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from sklearn.model_selection import KFold, TimeSeriesSplit

from adacsl import CostMatrix, Task
from adacsl.comparison.protocol import Protocol
from adacsl.fitting.rows import Rows
from adacsl.fitting.time_splits import (
    ONLY_TRAINS,
    Timeline,
    check_order,
    describe_folds,
    expanding_folds,
    latest_split,
    possible_folds,
    rolling_window,
)

DAY = np.timedelta64(1, "D")


@st.composite
def data(draw):
    """Rows in no order, with ties, as dates or numbers; two to four classes; groups or none; gap and label_delay."""
    n = draw(st.integers(12, 80))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    time = rng.integers(0, draw(st.integers(8, 60)), n)
    y = rng.integers(0, draw(st.integers(2, 4)), n)
    gap, label_delay = (draw(st.integers(0, 6)) for _ in range(2))
    groups = rng.integers(0, draw(st.integers(n, 4 * n)), n) if draw(st.booleans()) else None
    if draw(st.booleans()):
        when = np.datetime64("2024-01-01", "us") + time * DAY
        return when, y, groups, f"{gap}d", f"{label_delay}d", gap * DAY, label_delay * DAY
    return time.astype(float), y, groups, gap, label_delay, float(gap), float(label_delay)


def teaches(time, groups, held, gap, label_delay, row):
    """Tell in a loop over all held-out rows whether a row may train for them."""
    if any(row == other for other in held):
        return False
    for other in held:
        if not (time[row] < time[other] and time[row] + gap < time[other] and time[row] + label_delay < time[other]):
            return False
    return groups is None or not any(groups[row] == groups[other] for other in held)


def check_pair(time, y, groups, gap, label_delay, pair, among):
    """A pair holds what it may hold, all of it, and nothing else."""
    train, held = (part.tolist() for part in pair)
    assert held
    assert train == [row for row in among if teaches(time, groups, held, gap, label_delay, row)]
    inside = [row for row in among if min(time[held]) <= time[row] <= max(time[held])]
    assert sorted(held) == inside  # equal times stand together
    assert len(set(y[train])) > 1
    assert len(set(y[held])) > 1


def made(split, *arguments, **named):
    """Return the folds, or skip the example where the data cannot be split that way (an error)."""
    try:
        return split(*arguments, **named)
    except ValueError as error:
        if not any(word in str(error) for word in ("window", "different times")):
            raise
        assume(False)


@given(drawn=data(), fraction=st.floats(0.05, 0.9))
def test_the_latest_rows_are_held_out(drawn, fraction):
    time, y, groups, gap, label_delay, *spans = drawn
    line = Timeline.of(time, gap, label_delay)
    (pair,) = made(latest_split, line, y, groups, fraction)
    check_pair(time, y, groups, *spans, pair, range(len(y)))
    assert time[pair[1]].max() == time.max()
    # no other cut between two times comes nearer to the share that was asked for
    counts = [(time >= cut).sum() for cut in np.unique(time)[1:]]
    wanted = len(y) * fraction
    assert abs(len(pair[1]) - wanted) == pytest.approx(min(abs(count - wanted) for count in counts))


@given(drawn=data(), count=st.integers(2, 5))
def test_expanding_folds(drawn, count):
    time, y, groups, gap, label_delay, *spans = drawn
    line = Timeline.of(time, gap, label_delay)
    pairs = made(expanding_folds, line, y, groups, count)
    assert len(pairs) == count
    for pair in pairs:
        check_pair(time, y, groups, *spans, pair, range(len(y)))
    held = np.concatenate([pair[1] for pair in pairs])
    assert len(held) == len(set(held.tolist()))
    assert set(held.tolist()) == set(np.flatnonzero(time >= time[held].min()).tolist())
    starts = [time[pair[1]].min() for pair in pairs]
    assert all(a < b for a, b in itertools.pairwise(starts))
    check_order(line, pairs, count)


@given(drawn=data(), windows=st.integers(1, 4), share=st.floats(0.1, 0.6))
def test_rolling_windows_never_overlap(drawn, windows, share):
    time, y, groups, gap, label_delay, *spans = drawn
    line = Timeline.of(time, gap, label_delay)
    pairs = [made(rolling_window, line, y, groups, share, number, windows) for number in range(windows)]
    for pair in pairs:
        check_pair(time, y, groups, *spans, pair, range(len(y)))
    assert time[pairs[0][1]].max() == time.max()
    for later, earlier in itertools.pairwise(pairs):
        assert time[earlier[1]].max() < time[later[1]].min()
    held = np.concatenate([pair[1] for pair in pairs])
    assert set(held.tolist()) == set(np.flatnonzero(time >= time[held].min()).tolist())


@given(drawn=data(), cv=st.sampled_from([None, 2, 3]), seed=st.integers(0, 5))
def test_samples_of_weight_zero_and_the_rest_of_a_comparison_stay_out(drawn, cv, seed):
    time, y, groups, gap, label_delay, *spans = drawn
    y = np.minimum(y, 1)
    rng = np.random.default_rng(seed)
    weight = rng.integers(0, 3, len(y)).astype(float)
    assume(weight.any())
    assume(len(set(y)) == 2)
    about = {"groups": groups, "sample_weight": weight, "time": time}
    task = Task.from_data(np.zeros((len(y), 1)), y, CostMatrix(fp=1, fn=2), pos_label=1, **about)
    rest = np.flatnonzero(rng.random(len(y)) < 0.8)
    rows = Rows.of_task(task, rest, gap=gap, label_delay=label_delay)
    for pair in made(rows.folds, cv, 0.3, seed):
        check_pair(time, y, groups, *spans, pair, rest[weight[rest] > 0].tolist())


def test_many_samples_are_split_by_shares():
    time = np.random.default_rng(0).permutation(10_000).astype(float)
    y = np.arange(10_000) % 2
    line = Timeline.of(time)
    pairs = expanding_folds(line, y, None, 5)
    assert [len(pair[1]) for pair in pairs] == [1000] * 5
    assert len(pairs[0][0]) == ONLY_TRAINS * 10_000
    assert np.array_equal(np.sort(time[pairs[4][1]]), np.arange(9000, 10_000))
    assert len(latest_split(line, y, None, 0.2)[0][1]) == 2000
    for number in range(4):
        rest, tested = rolling_window(line, y, None, 0.2, number, 4)
        assert np.sort(time[tested]).tolist() == list(range(9500 - 500 * number, 10_000 - 500 * number))
        assert len(rest) == 9500 - 500 * number


def test_samples_on_the_edge_of_gap_and_label_delay():
    """Seven days of gap leave out the seven days before a cut, and nothing more."""
    time = np.datetime64("2024-01-01", "us") + np.arange(20) * DAY
    y = np.arange(20) % 2
    ((train, held),) = latest_split(Timeline.of(time, "7d", "2d"), y, None, 0.25)
    assert held.tolist() == [15, 16, 17, 18, 19]
    assert train.tolist() == [0, 1, 2, 3, 4, 5, 6, 7]
    ((train, _),) = latest_split(Timeline.of(time, None, "10d"), y, None, 0.25)
    assert train.tolist() == [0, 1, 2, 3, 4]


def test_a_group_that_is_held_out_teaches_nothing():
    time, y = np.arange(12.0), np.arange(12) % 2
    groups = np.asarray([0, 1, 2, 3, 4, 5, 6, 7, 8, 2, 3, 9])
    ((train, held),) = latest_split(Timeline.of(time), y, groups, 0.25)
    assert held.tolist() == [9, 10, 11]
    assert train.tolist() == [0, 1, 4, 5, 6, 7, 8]


def test_windows_of_one_class_are_named():
    time = np.datetime64("2024-01-01", "us") + np.arange(40) * DAY
    y = np.where(np.arange(40) < 30, np.arange(40) % 2, 0)
    with pytest.raises(ValueError, match="window from 2024-02-02 to 2024-02-09 has rows of one class only"):
        latest_split(Timeline.of(time), y, None, 0.2)
    with pytest.raises(ValueError, match=r"of the 20 rows before the held-out window .* none may train"):
        latest_split(Timeline.of(time, "1y"), np.arange(40) % 2, None, 0.5)
    with pytest.raises(ValueError, match="10 may train, and they are of one class only"):
        latest_split(Timeline.of(time, "10d"), (np.arange(40) >= 15) * (1 - np.arange(40) % 2), None, 0.5)
    with pytest.raises(ValueError, match=r"4 parts of different times are needed .* there are 2 different times"):
        expanding_folds(Timeline.of(time.astype("datetime64[M]").astype("datetime64[us]")), y, None, 3)
    # as many folds as have two classes each
    assert possible_folds(Timeline.of(time), y, None, 5) == []
    y[35] = 1
    assert len(possible_folds(Timeline.of(time), y, None, 5)) == 3  # the last of four would begin after the 35th


@pytest.mark.parametrize("cv", [KFold(3, shuffle=True, random_state=0), KFold(3)])
def test_shuffles_are_refused_with_the_reason(cv):
    task = Task.from_data(np.zeros((30, 1)), np.arange(30) % 2, CostMatrix(fp=1, fn=2), time=np.arange(30))
    rows = Rows.of_task(task, np.arange(30))
    with pytest.raises(ValueError, match=r"not shuffled, but fold 0 of cv=KFold\(.*which is later; use a number"):
        rows.folds(cv, None, 0)


def test_splitters_that_keep_the_order_are_welcome_until_the_gap_forbids():
    task = Task.from_data(np.zeros((30, 1)), np.arange(30) % 2, CostMatrix(fp=1, fn=2), time=np.arange(30))
    result = Rows.of_task(task, np.arange(30)).folds(TimeSeriesSplit(3), None, 0)
    assert [part.tolist() for part in result[0]] == [list(range(9)), list(range(9, 16))]
    with pytest.raises(ValueError, match="which gap and label_delay forbid"):
        Rows.of_task(task, np.arange(30), gap=1).folds(TimeSeriesSplit(3), None, 0)
    with pytest.raises(ValueError, match="these pairs"):
        Rows.of_task(task, np.arange(30)).folds([(np.arange(10, 20), np.arange(10))], None, 0)


def test_the_description_counts_excluded_rows():
    time, y = np.arange(100.0), np.arange(100) % 2
    task = Task.from_data(np.zeros((100, 1)), y, CostMatrix(fp=1, fn=2), time=time)
    protocol = Protocol(windows=2, gap=3, label_delay=1)
    rest, tested = protocol.split(task, 1)
    assert tested.tolist() == list(range(80, 90))
    rows = protocol.rows(task, rest)
    ((train, adapts),) = rows.folds(None, protocol.inner_validation, 1)
    out = 80 - len(train) - len(adapts)
    assert out == 6
    assert rows.describe_times([(train, adapts)], tested) == protocol.describe_windows(task)[1] == (
        f"trained on rows until {train.max()}, adapted on {adapts.min()} to 76, tested on 80 to 89; "
        "6 rows excluded for gap and label_delay"
    )  # fmt: skip
    line = Timeline.of(time)
    assert describe_folds(line, expanding_folds(line, y, None, 2)) == (
        "trained on rows until 74, adapted on 50 to 99 in 2 windows, each by a model of what lies before it"
    )


def test_a_window_of_one_class_stops_a_comparison_at_once():
    y = np.where(np.arange(100) < 85, np.arange(100) % 2, 0)
    task = Task.from_data(np.zeros((100, 1)), y, CostMatrix(fp=1, fn=2), time=np.arange(100), name="loans")
    with pytest.raises(ValueError, match="test window 0 of loans: the held-out window from 90 to 99 has rows of one"):
        Protocol(windows=2).describe_windows(task)
    with pytest.raises(ValueError, match="with a time"):
        Protocol(gap="7d")
    with pytest.raises(ValueError, match="windows 0 to 1"):
        Protocol(windows=2).split(task, 2)
