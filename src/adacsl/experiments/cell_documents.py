"""Cells, failures and splits as documents, and back."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix, as_host, unchecked_costs
from adacsl.durable import DamagedError
from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import pack, unpack

if TYPE_CHECKING:
    from adacsl.datasets.segments import Segments

PRICES = ("fp", "fn", "tp", "tn")


class Failure(NamedTuple):
    """Why a cell has no result."""

    type: str
    message: str
    traceback: str = ""
    attempts: int = 1
    time: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Failure:
        """Describe an exception."""
        trace = "".join(traceback.format_exception(error))[-20_000:]
        # file names in messages may hold letters that no encoding takes
        message, trace = (text.encode("utf-8", "backslashreplace").decode() for text in (str(error), trace))
        return cls(type(error).__name__, message, trace)


class StoredSplit(NamedTuple):
    """The test rows of one split, in the order of the stored scores."""

    test_rows: NDArray[np.int64]
    labels: NDArray[np.int64]
    costs: CostMatrix
    units: NDArray[np.int64]  # the row itself, or one number for all rows of its group or copies of it


def cell_key(cell: Cell) -> dict[str, Any]:
    """Return a cell as JSON values."""
    return {"data": cell.data, "ratio": float(cell.ratio), "method": cell.method, "seed": int(cell.seed)}


def cell_of(key: Mapping[str, Any]) -> Cell:
    """Return what :func:`cell_key` was given."""
    cell = Cell(**key)
    wanted = (str, float, str, int)
    if not all(isinstance(value, kind) for value, kind in zip(cell, wanted, strict=True)) or not cell.ratio < math.inf:
        raise TypeError("a cell is named by two texts and two numbers")
    return cell


def cell_body(result: CellResult) -> dict[str, Any]:
    """Return a result as JSON values."""
    scores, decisions = np.asarray(result.scores, dtype="<f4"), np.asarray(result.decisions)
    if scores.ndim not in (1, 2) or decisions.shape != scores.shape[:1]:
        raise ValueError(
            f"{result.cell}: scores and decisions must be vectors of one length (or scores n x K), got shapes "
            f"{scores.shape} and {decisions.shape}"
        )
    packed = np.packbits(decisions.astype(bool)) if scores.ndim == 1 else decisions.astype("<i8")
    classes = {} if scores.ndim == 1 else {"classes": scores.shape[1]}
    return {
        "cell": cell_key(result.cell),
        "metrics": result.metrics,
        "threshold": None if result.threshold is None else float(result.threshold),
        "seconds": float(result.seconds),
        "provenance": result.provenance,
        "history": result.history,
        "scores": pack(scores),
        "decisions": pack(packed),
        **classes,
    }


def cell_result(body: dict[str, Any]) -> CellResult:
    """Return what :func:`cell_body` was given."""
    try:
        scores, packed = unpack(body["scores"]).astype(np.float32), unpack(body["decisions"])
        if classes := body.get("classes"):
            scores, decisions = scores.reshape(-1, int(classes)), packed.astype(np.int64)
        else:
            decisions = np.unpackbits(packed, count=len(scores)).astype(bool)
        if len(decisions) != len(scores) or (not classes and len(packed) != (len(scores) + 7) // 8):
            raise ValueError(f"{len(packed)} numbers of decisions for {len(scores)} scores")
        return CellResult(
            cell=cell_of(body["cell"]),
            metrics=dict(body["metrics"]),
            scores=scores,
            decisions=decisions,
            threshold=body["threshold"],
            history=list(body["history"]),
            seconds=body["seconds"],
            provenance=dict(body["provenance"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error


def result_row(result: CellResult) -> dict[str, Any]:
    """Return a result as a row of the results frame."""
    threshold = math.nan if result.threshold is None else result.threshold
    known = {"threshold": threshold, "seconds": result.seconds, "device": result.provenance.get("device")}
    return result.cell._asdict() | result.metrics | known


def failed_cell(body: dict[str, Any]) -> tuple[Cell, Failure]:
    """Return a cell and why it failed."""
    try:
        return cell_of(body["cell"]), Failure(*(body[name] for name in Failure._fields))
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedError(f"its form is wrong: {str(error)[:60]}") from error


def split_body(split: StoredSplit) -> dict[str, Any]:
    """Return test rows with their labels, costs and units as JSON values."""
    rows, labels = np.asarray(split.test_rows, dtype="<i8"), np.asarray(split.labels)
    units, costs = np.asarray(split.units, dtype="<i8"), split.costs
    if rows.ndim != 1 or {labels.shape, units.shape} != {rows.shape} or costs.n_instances not in (None, len(rows)):
        raise ValueError(
            f"a split needs one label and unit for each test row and costs of these rows, got {len(rows)} rows, "
            f"{len(labels)} labels, {len(units)} units and {costs!r}"
        )
    kind, known = "<i8" if costs.n_classes > 2 else "i1", costs.deciding
    more = {} if known is costs else {"deciding": _encode_prices(known)}
    more |= {} if np.array_equal(units, rows) else {"units": pack(units)}
    return {"test_rows": pack(rows), "labels": pack(labels.astype(kind)), **_encode_prices(costs), **more}


def stored_split(body: dict[str, Any]) -> StoredSplit:
    """Return what :func:`split_body` was given."""
    rows, labels = (unpack(body[name]).astype(np.int64) for name in ("test_rows", "labels"))
    units = unpack(body["units"]).astype(np.int64) if "units" in body else rows
    costs = _decode_prices(body)
    costs = costs.decided_by(_decode_prices(body["deciding"])) if "deciding" in body else costs
    if {labels.shape, units.shape} != {rows.shape} or costs.n_instances not in (None, len(rows)):
        raise ValueError("labels, units or costs are not those of its rows")
    if len(labels) and not 0 <= labels.min() <= labels.max() < costs.n_classes:
        raise ValueError("it has labels of no class")
    return StoredSplit(rows, labels, costs, units)


def segments_body(segments: Mapping[str, Segments]) -> dict[str, Any]:
    """Return segments as JSON values, by column."""
    return {
        column: {"names": list(cut.names), "numbers": pack(cut.numbers.astype("i1"))}
        for column, cut in segments.items()
    }


def stored_segments(columns: Mapping[str, Any]) -> dict[str, Segments]:
    """Return what :func:`segments_body` was given."""
    from adacsl.datasets.segments import Segments  # noqa: PLC0415  a run needs no pandas until its end

    return {
        column: Segments(tuple(body["names"]), unpack(body["numbers"]).astype(np.int64))
        for column, body in columns.items()
    }


def _encode_prices(costs: CostMatrix) -> dict[str, Any]:
    if costs.n_classes > 2:
        return {"matrix": _encode_matrix(costs)}
    return {"costs": {name: _encode_cost(getattr(costs, name)) for name in PRICES}}


def _decode_prices(body: dict[str, Any]) -> CostMatrix:
    if "matrix" in body:
        return _decode_matrix(body["matrix"])
    fp, fn, tp, tn = (_decode_cost(body["costs"][name]) for name in PRICES)
    # all errors on these rows alone may be free
    return unchecked_costs(((tn, fn), (fp, tp)))


def _encode_matrix(costs: CostMatrix) -> dict[str, Any]:
    table = costs.to_array()
    return {"shape": list(table.shape), "prices": pack(table.astype("<f8")), "classes": costs.classes}


def _decode_matrix(matrix: dict[str, Any]) -> CostMatrix:
    table = unpack(matrix["prices"]).reshape(matrix["shape"])
    names = matrix["classes"] and tuple(matrix["classes"])
    if table.ndim == 2:
        return unchecked_costs(tuple(map(tuple, table.tolist())), names)
    table.flags.writeable = False
    return unchecked_costs(tuple(map(tuple, np.moveaxis(table, 0, -1))), names)


def _encode_cost(cost: Any) -> Any:
    return cost if isinstance(cost, float) else pack(as_host(cost).astype("<f8"))


def _decode_cost(cost: Any) -> Any:
    if not isinstance(cost, dict):
        return float(cost)
    vector = unpack(cost)
    vector.flags.writeable = False
    return vector
