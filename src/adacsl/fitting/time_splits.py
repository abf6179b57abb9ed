"""Splits in the order of time: training samples precede held-out samples."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.time import Duration, time_text
from adacsl.fitting.splits import Fold, cross_splits

ONLY_TRAINS = 0.5
"""Share of the samples, the oldest, that a cross-fit never holds out: its first model needs something to learn."""


@dataclass(frozen=True, eq=False)
class Timeline:
    """When each sample was observed, and from when on it may train: the one place of gap and label delay.

    Parameters
    ----------
    time : array of shape (n,)
        datetime64 or numbers.
    ready : array of shape (n,)
        The time after which a sample may train and adapt: its own, later by the gap, or when its label is known.

    Examples
    --------
    >>> line = Timeline.of(np.arange(6.0), gap=2)
    >>> line.before(4.0).tolist()
    [0, 1]
    """

    time: NDArray[Any]
    ready: NDArray[Any]

    @classmethod
    def of(cls, time: NDArray[Any], gap: Any = None, label_delay: Any = None) -> Timeline:
        """Return the timeline of samples.

        Parameters
        ----------
        time : array of shape (n,)
            datetime64 or numbers.
        gap : duration, optional
            Samples so close before held-out ones are left out.
        label_delay : duration, optional
            A label is known only so long after its sample.
        """
        delays = (("gap", gap), ("label_delay", label_delay))
        return cls(time, np.maximum(*(Duration.read(value, name).after(time, name) for name, value in delays)))

    def rows(self, index: NDArray[Any]) -> Timeline:
        """Return the timeline of some samples."""
        return Timeline(self.time[index], self.ready[index])

    def before(self, cut: Any) -> NDArray[np.int64]:
        """Return the samples that may train a model for samples from ``cut`` on."""
        return np.flatnonzero(self.ready < cut)

    def folds(self, y: NDArray[Any], groups: NDArray[Any] | None, cv: Any, validation: Any, seed: int) -> list[Fold]:
        """Return (training, held-out) pairs as :func:`adacsl.fitting.splits.random_folds` does, in the order of time.

        Without ``cv`` the latest samples are held out; a number of folds are windows of the later half; the folds of a
        splitter have to be in order.
        """
        if cv is None:
            return latest_split(self, y, groups, float(validation))
        if isinstance(cv, Integral):
            return expanding_folds(self, y, groups, int(cv))
        folds = cross_splits(y, groups, cv, seed)
        check_order(self, folds, cv)
        return folds


def latest_split(line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, fraction: float) -> list[Fold]:
    """Return one pair: the latest samples are held out, those that were ready before them train."""
    if not 0.0 < fraction < 1.0:
        raise ValueError(f"validation must be a fraction between 0 and 1 or a pair (X, y), got {fraction!r}")
    return _pairs(line, y, groups, [len(y) * (1.0 - fraction), len(y)])


def expanding_folds(
    line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, count: int, *, first: float = ONLY_TRAINS
) -> list[Fold]:
    """Return pairs of a cross-fit: windows after the ``first`` share of samples, and all samples before each."""
    if count < 2:
        raise ValueError(f"cv must be at least 2 folds, got {count}")
    return _pairs(line, y, groups, len(y) * np.linspace(first, 1.0, count + 1))


def rolling_window(
    line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, share: float, number: int, count: int
) -> Fold:
    """Return the samples to learn from and those to test on, of one of ``count`` windows; number 0 is the latest."""
    if not 0 <= number < count:
        raise ValueError(f"there are windows 0 to {count - 1} to test on, got {number}")
    edges = len(y) * np.linspace(1.0 - share, 1.0, count + 1)
    starts = _starts(line.time, edges)
    return _checked(line, y, groups, *starts[count - 1 - number : count - number + 1])


def check_order(line: Timeline, pairs: Iterable[Fold], cv: Any) -> None:
    """Refuse folds that train on samples which were not ready before all of those that they hold out."""
    for number, (train, held) in enumerate(pairs):
        if len(train) and len(held) and line.ready[train].max() >= (cut := line.time[held].min()):
            last = line.time[train].max()
            why = "which is later" if last >= cut else "which gap and label_delay forbid"
            shown = "these pairs" if isinstance(cv, list | tuple) else repr(cv)
            raise ValueError(
                f"rows with a time are not shuffled, but fold {number} of cv={shown} trains on rows until "
                f"{time_text(last)} and holds out rows from {time_text(cut)} on, {why}; use a number of folds "
                "(expanding windows, cv=5), cv=None (the latest rows), or omit the time"
            )


def possible_folds(
    line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, most: int, *, first: float = ONLY_TRAINS
) -> list[Fold]:
    """Return as many expanding folds as have two classes everywhere: ``most``, or fewer; none where not even two do."""
    for count in range(most, 1, -1):
        try:
            return expanding_folds(line, y, groups, count, first=first)
        except ValueError:
            continue
    return []


# cuts


def _pairs(line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, edges: Sequence[float] | Any) -> list[Fold]:
    starts = _starts(line.time, edges)
    return [_checked(line, y, groups, *starts[i : i + 2]) for i in range(len(starts) - 1)]


def _starts(time: NDArray[Any], edges: Sequence[float] | Any) -> list[Any]:
    """Return the first time of each window, and None for the end; windows begin where the time changes."""
    times, counts = np.unique(time, return_counts=True)
    before = np.cumsum(counts) - counts  # samples before each time; the first of all begins no window
    windows = len(edges) - 1
    if len(times) <= windows:
        raise ValueError(
            f"{windows + 1} parts of different times are needed (one to train on, {windows} to hold out), "
            f"and there are {len(times)} different times: use fewer parts, or finer times"
        )
    wanted = np.asarray(edges[:-1], dtype=np.float64)
    places = np.abs(before[1:, None] - wanted).argmin(axis=0) + 1
    turn = np.arange(windows)  # no two windows begin at one time, and each has a time of its own
    places = np.maximum.accumulate(places - turn) + turn
    places = np.minimum(places, len(times) - windows + turn)
    return [*times[places], None]


def _checked(line: Timeline, y: NDArray[Any], groups: NDArray[Any] | None, start: Any, stop: Any) -> Fold:
    """Return what trains and what is held out from ``start`` until before ``stop``; both need two classes."""
    inside = line.time >= start if stop is None else (line.time >= start) & (line.time < stop)
    held, train = np.flatnonzero(inside), line.before(start)
    if groups is not None:  # a held-out group never trains, however early its samples
        train = train[~np.isin(groups[train], groups[held])]
    span = f"from {time_text(line.time[held].min())} to {time_text(line.time[held].max())}"
    if len(np.unique(y[held])) < 2:
        raise ValueError(
            f"the held-out window {span} has rows of one class only ({len(held)} rows): use fewer and longer "
            "windows (fewer folds, a larger share of validation or test)"
        )
    if len(np.unique(y[train])) < 2:
        left = f"{len(train)} may train, and they are of one class only" if len(train) else "none may train"
        raise ValueError(
            f"of the {int((line.time < start).sum())} rows before the held-out window {span} {left}: use fewer "
            "folds, a smaller share of validation or test, a smaller gap or label_delay"
            + (", or omit the groups (those of the window do not train)" if groups is not None else "")
        )
    return train, held


# described


def describe_folds(
    line: Timeline, pairs: Sequence[Fold], last: NDArray[Any] | None = None, *, use: NDArray[Any] | None = None,
    groups: bool = False,
) -> str:  # fmt: skip
    """Return what trained, what adapted and what was tested on, with their times, and how many samples were left out.

    Parameters
    ----------
    line : Timeline
        Of all samples.
    pairs : pairs of row numbers
        What trains, what adapts.
    last : array of row numbers, optional
        What was tested on.
    use : array of row numbers, optional
        The samples that could have been used; default all.
    groups : bool
        Whether samples were also left out because of their group.

    Examples
    --------
    >>> line = Timeline.of(np.arange(10.0), gap=1)
    >>> describe_folds(line, [(np.arange(5), np.arange(6, 8))], np.arange(9, 10))
    'trained on rows until 4, adapted on 6 to 7, tested on 9 to 9; 2 rows excluded for gap and label_delay'
    """
    train, held = (np.unique(np.concatenate([pair[part] for pair in pairs])) for part in (0, 1))
    windows = "" if len(pairs) == 1 else f" in {len(pairs)} windows, each by a model of what lies before it"
    words = f"trained on rows until {time_text(line.time[train].max())}, adapted on {_span(line, held)}{windows}"
    time, used = line.time if use is None else line.time[use], np.union1d(train, held)
    earlier = time <= line.time[used].max()
    if last is not None:
        words += f", tested on {_span(line, last)}"
        earlier = time < line.time[last].min()
    out = int(earlier.sum()) - len(used)
    why = "gap, label_delay and groups" if groups else "gap and label_delay"
    return words + (f"; {out} rows excluded for {why}" if out else "")


def _span(line: Timeline, rows: NDArray[Any]) -> str:
    return f"{time_text(line.time[rows].min())} to {time_text(line.time[rows].max())}"
