"""A weighted stack of fitted models."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.arrays import joined, part_of
from adacsl.base.scores import weighted_sums
from adacsl.datasets.columns import read_once
from adacsl.execution.threads import cores
from adacsl.learners.arrays import as_saved
from adacsl.learners.estimator_model import EstimatorModel


@dataclass(frozen=True)
class Stack:
    """A weighted sum of the base estimators' log-odds, or of their K logits.

    Parameters
    ----------
    weights : array of shape (m,)
        One per base estimator, whatever the class.
    intercept : float or array of shape (K,)
        What is added.
    limit : float
        Log-odds beyond it (of K classes: of each against the likeliest) are taken as it: so many samples cannot prove
        more.
    strength : float
        How far the weights were allowed to leave equality.
    """

    weights: NDArray[np.float64]
    intercept: Any
    limit: float
    strength: float

    def logits(self, columns: NDArray[Any]) -> NDArray[np.float64]:
        """Return the log-odds from those of the base estimators, n x m, or logits from theirs, n x m x K."""
        inside = limited(columns, self.limit)
        if columns.ndim == 2:
            return np.asarray(weighted_sums(inside, self.weights) + self.intercept)
        return np.asarray((inside * self.weights[:, None]).sum(axis=1) + self.intercept)


def limited(columns: NDArray[Any], limit: float) -> NDArray[np.float64]:
    """Return log-odds within the limit; K logits against the likeliest class, which is the same for two of them.

    Examples
    --------
    >>> limited(np.asarray([[5.0]]), 3.0).tolist(), limited(np.asarray([[[1.0, 6.0, 4.0]]]), 3.0).tolist()
    ([[3.0]], [[[-3.0, 0.0, -2.0]]])
    """
    if columns.ndim == 2:
        return np.asarray(np.clip(columns, -limit, limit))
    return np.asarray(np.maximum(columns - columns.max(axis=2, keepdims=True), -limit))


MANY_ROWS = 20_000
"""With so many samples base estimators predict at the same time."""


class StackModel:
    """Fitted base estimators and how they are weighed.

    Parameters
    ----------
    stack : Stack
        The weights.
    names, models, shifts
        Of each base estimator: its name, its model, and what turns its log-odds (K logits) into those of the
        probability.
    by_rows : list of float, optional
        Of each base estimator: the share of the samples' offsets that its log-odds need, as its loss weighed samples by
        their costs.
    """

    kind = "stack"

    def __init__(
        self, stack: Stack, names: list[str], models: list[Any], shifts: list[Any], by_rows: list[float] | None = None
    ) -> None:
        self.stack, self.names, self.models, self.shifts = stack, names, models, shifts
        self.by_rows = [0.0] * len(models) if by_rows is None else by_rows

    @property
    def instance_weighted(self) -> bool:
        """Whether the log-odds of a sample depend on its own costs."""
        return any(self.by_rows)

    def columns(self, X: Any, offsets: Any = 0.0) -> NDArray[np.float64]:  # noqa: N803
        """Return the log-odds of each base estimator, n x m, or their logits, n x m x K."""
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        few = n < MANY_ROWS or cores() == 1
        table = read_once(X) if few and any(encoder is not None for encoder, _ in self._by_encoder) else X
        columns: list[Any] = [None] * len(self.models)
        with contextlib.nullcontext() if few else ThreadPoolExecutor(min(cores(), len(self.models))) as pool:
            for encoder, numbers in self._by_encoder:
                asked = [getattr(self.models[i], "logits" if encoder is None else "encoded_logits") for i in numbers]
                x = X if encoder is None else encoder.transform(table)
                # threads compute without Python's lock
                logits = [ask(x) for ask in asked] if pool is None else pool.map(lambda ask, x=x: ask(x), asked)
                for number, own in zip(numbers, logits, strict=True):
                    columns[number] = own + (self.shifts[number] + self.by_rows[number] * offsets)
        return np.stack(columns, axis=1)

    @functools.cached_property
    def _by_encoder(self) -> list[tuple[Any, list[int]]]:
        """The numbers of the models that take samples of the same encoder, which encodes them once; None: of none."""
        groups: list[tuple[Any, Any, list[int]]] = []
        for number, model in enumerate(self.models):
            encoder = getattr(model, "encoder", None)
            about = None if encoder is None else (type(encoder), encoder.to_dict())
            same = next((numbers for _, known, numbers in groups if known == about), None)
            if same is None:
                groups.append((encoder, about, [number]))
            else:
                same.append(number)
        return [(encoder, numbers) for encoder, _, numbers in groups]

    def logits(self, X: Any, offsets: Any = 0.0) -> NDArray[np.float64]:  # noqa: N803
        """Return the stack's log-odds (or K logits) of each sample.

        ``offsets`` are those of the per-sample costs (:func:`~adacsl.costs.instance.row_offsets`), 0 where these are
        unknown: base estimators with a weighted loss then take each sample as one of average cost.
        """
        return self.stack.logits(self.columns(X, offsets))

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything as arrays and plain values; raise where a base estimator has no array form."""
        parts = [_numbers(name, model) for name, model in zip(self.names, self.models, strict=True)]
        members = [
            {"name": name, "kind": model.kind, "shift": np.asarray(shift).tolist(), "model": about, "by_rows": by_rows}
            for name, model, shift, by_rows, (_, about) in zip(
                self.names, self.models, self.shifts, self.by_rows, parts, strict=True
            )
        ]
        both = {name: np.asarray(getattr(self.stack, name)).tolist() for name in ("weights", "intercept")}
        stack = vars(self.stack) | both
        return joined(arrays for arrays, _ in parts), {"estimators": members, "stack": stack}

    @classmethod
    def from_numbers(
        cls, arrays: dict[str, Any], document: dict[str, Any], read: Callable[[str, dict[str, Any], Any], Any]
    ) -> StackModel:
        """Return the model of what :meth:`numbers` gave; ``read`` restores one base estimator."""
        members = document["estimators"]
        models = [read(own["kind"], part_of(arrays, f"{i}."), own["model"]) for i, own in enumerate(members)]
        about = dict(document["stack"])
        weights = np.asarray(about.pop("weights"), dtype=np.float64)
        stack = Stack(weights, number_or_array(about.pop("intercept")), **about)
        if len(stack.weights) != len(models):
            raise ValueError(f"{len(models)} base estimators and {len(stack.weights)} weights")
        shifts = [number_or_array(own["shift"]) for own in members]
        by_rows = [float(own.get("by_rows", 0.0)) for own in members]
        return cls(stack, [str(own["name"]) for own in members], models, shifts, by_rows)


def number_or_array(value: Any) -> Any:
    """Return what was written of two classes as a number, of K as an array."""
    return np.asarray(value, dtype=np.float64) if isinstance(value, list) else float(value)


def resolved(model: Any) -> Any:
    """Return a model whose predictions are, to the last bit, those of what would be saved and read."""
    if not isinstance(model, EstimatorModel):
        return model
    return EstimatorModel([as_saved(own) for own in model.estimators], model.encoder, model.undone, model.n_classes)


def _numbers(name: str, model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    try:
        arrays, about = model.numbers()
    except ValueError as error:
        raise ValueError(f"base estimator {name!r}: {error}") from None
    return arrays, about
