"""A task: data with their labels, groups and prices, which every method is run on."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.extras import requires

with requires("train"):
    import pandas as pd


@dataclass(frozen=True, eq=False)
class Task:
    """A data set and what its errors cost.

    Parameters
    ----------
    name : str
        A short name, fit for a file name.
    X : DataFrame of n rows, or uint8 array N x H x W x C
        Features as they came (text, dates, missing values), or images.
    y : array of shape (n,)
        1 = positive, the class whose misses cost ``fn``.
    costs : CostMatrix
        Class-wide, or of each row.
    groups : array of shape (n,), optional
        Rows of one group never stand on both sides of a split.
    classes : (str, str)
        What the negative and the positive class are called.
    source : str
        Where the data came from, for the report.
    """

    name: str
    X: Any
    y: NDArray[np.int64]
    costs: CostMatrix
    groups: NDArray[Any] | None = None
    classes: tuple[str, str] = ("0", "1")
    source: str = ""

    def __post_init__(self) -> None:
        n = len(self.y)
        if len(self.X) != n or (self.groups is not None and len(self.groups) != n):
            raise ValueError(f"X, y and groups must be equally long, got {len(self.X)} rows for {n} labels")
        if self.costs.n_classes != 2 or self.costs.n_instances not in (None, n):
            raise ValueError(f"a task of {n} rows needs costs of two classes, for all rows or each, got {self.costs!r}")
        if set(np.unique(self.y).tolist()) != {0, 1}:
            raise ValueError(f"the labels of a task are 0 and 1, both present; got {np.unique(self.y).tolist()[:5]}")

    @property
    def images(self) -> bool:
        """Whether the rows are pictures."""
        return isinstance(self.X, np.ndarray) and self.X.ndim == 4

    def take(self, rows: NDArray[Any]) -> Any:
        """Return some rows of X."""
        return self.X.iloc[rows] if isinstance(self.X, pd.DataFrame) else self.X[rows]

    @cached_property
    def digest(self) -> str:
        """SHA-256 of everything: features, labels, groups and costs."""
        sha = hashlib.sha256(self.costs.to_json().encode())
        sha.update(np.ascontiguousarray(self.y).tobytes())
        if self.groups is not None:
            sha.update("\0".join(map(str, self.groups.tolist())).encode())
        if isinstance(self.X, pd.DataFrame):
            sha.update("\0".join(f"{name}:{kind}" for name, kind in self.X.dtypes.items()).encode())
            sha.update(pd.util.hash_pandas_object(self.X, index=False).to_numpy().tobytes())
        else:
            sha.update(str(self.X.shape).encode())
            sha.update(np.ascontiguousarray(self.X).tobytes())
        return sha.hexdigest()
