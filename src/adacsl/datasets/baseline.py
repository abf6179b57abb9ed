"""Baseline of a data set: the current decisions, or scores to be thresholded at 0.5."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.labels import find_classes
from adacsl.datasets.errors import DataError, check_column, listed
from adacsl.datasets.labels import check_present

with requires("train"):
    import pandas as pd


class Baseline(NamedTuple):
    """Current decision about each sample, and the column it came from."""

    values: NDArray[Any]
    """With two classes scores from 0 to 1, decisions as 0.0 and 1.0; with more the number of the class."""
    column: str | None = None

    @property
    def kind(self) -> str:
        """Either ``decisions`` or ``scores``."""
        return "decisions" if np.isin(self.values, (0, 1)).all() or self.values.dtype.kind == "i" else "scores"

    def rows(self, rows: NDArray[Any]) -> Baseline:
        """Return the baseline of some samples."""
        return self._replace(values=self.values[rows])

    @classmethod
    def read(cls, given: Any, frame: Any, classes: Sequence[str]) -> Baseline | None:
        """Return a baseline from a column or values.

        Parameters
        ----------
        given : array of shape (n,), str or None
            Labels, 0 and 1, or scores from 0 to 1, or the column of ``frame`` that holds them.
        frame : DataFrame or array
            The data.
        classes : sequence of str
            Names of the classes.

        Examples
        --------
        >>> Baseline.read(["yes", "no"], None, ("no", "yes")).values.tolist()
        [1.0, 0.0]
        """
        if given is None:
            return None
        if not isinstance(given, str):
            return cls(_values(given, classes, "baseline"))
        if not isinstance(frame, pd.DataFrame):
            raise DataError(
                f"baseline={given!r} names a column, but X is not a table: give one decision for each sample"
            )
        check_column(given, frame.columns, "the table")
        return cls(_values(frame[given], classes, f"the baseline column {given!r}"), given)


def _values(given: Any, classes: Sequence[str], what: str) -> NDArray[Any]:
    series = pd.Series(given).reset_index(drop=True)
    check_present(series, what, "give every row a decision, or remove these rows")
    codes, result = pd.factorize(series)
    places = [-1 if index is None else index for index in find_classes(classes, result)]
    if min(places) >= 0:
        return np.asarray(places, dtype=np.int64 if len(classes) > 2 else np.float64)[codes]
    if len(classes) > 2:
        _refuse(result[places.index(-1)], series, f"{what} must hold one of the classes {listed(map(repr, classes))}")
    numbers = pd.to_numeric(series, errors="coerce").to_numpy(dtype=np.float64)
    wrong = ~((numbers >= 0) & (numbers <= 1))
    if wrong.any():
        named = " and ".join(map(repr, classes))
        expected = f"{what} must hold decisions ({named}, or 0 and 1) or scores from 0 to 1"
        strange = wrong & (np.asarray(places)[codes] < 0)  # rather than a label among scores
        _refuse(series[int((strange if strange.any() else wrong).argmax())], series, expected)
    return numbers


def _refuse(label: Any, series: pd.Series[Any], expected: str) -> None:
    row = int((series == label).to_numpy().argmax()) + 1
    raise DataError(f"{expected}, got {str(label)!r} in row {row}")
