"""An ONNX graph that takes the columns of a table by their names: text as text, dates as seconds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.features import Category, Number
from adacsl.estimators.graphs.columns import known_levels, level_codes
from adacsl.extras import requires

with requires("onnx"):
    import onnx
    from onnx import TensorProto, helper

OUTPUTS = ("score", "probability", "decision")
PREFIX = "net/"
TAKES = {"number": "float64, NaN = missing", "date": "seconds since 1970 in UTC, float64, NaN = missing",
         "category": "string, empty = missing"}  # fmt: skip
ML_VERSION = 3


def _columns(encoder: TableEncoder) -> Iterator[tuple[int, str, Number | Category]]:
    """Yield place, input name and rule of each column that says something; outputs keep their names."""
    for i, rule in enumerate(encoder.rules()):
        if rule is not None:
            clash = rule.name in OUTPUTS or rule.name.startswith(PREFIX)
            yield i, f"column {rule.name}" if clash else rule.name, rule


def input_names(encoder: TableEncoder) -> list[dict[str, str]]:
    """Return the column, the input and its kind of each input of the graph."""
    return [{"column": rule.name, "input": name, "takes": TAKES[rule.kind]} for _, name, rule in _columns(encoder)]


def input_columns(encoder: TableEncoder, X: Any) -> dict[str, NDArray[Any]]:  # noqa: N803
    """Return what the graph takes for these rows, by input."""
    columns = encoder.raw_columns(X)
    return {
        name: columns[rule.name].astype(object) if rule.kind == "category" else columns[rule.name]
        for _, name, rule in _columns(encoder)
    }


def matrix_of(encoder: TableEncoder, inputs: Mapping[str, NDArray[Any]]) -> NDArray[np.float64]:
    """Return one number for each training column, as the named graph makes it of its inputs."""
    n_rows = len(next(iter(inputs.values())))
    out = np.zeros((n_rows, encoder.n_features_in_))
    for i, name, rule in _columns(encoder):
        if isinstance(rule, Category):
            codes, other = level_codes(rule), len(known_levels(rule))
            out[:, i] = [codes.get(text, other) for text in inputs[name].tolist()]
        else:
            out[:, i] = inputs[name]
    return out


def name_inputs(model: Any, encoder: TableEncoder) -> Any:
    """Return a graph of one matrix (``inputs``) as one that takes columns: levels become codes, then all one matrix."""
    net = onnx.compose.add_prefix(model, PREFIX)
    takes = [_take(name, rule) for _, name, rule in _columns(encoder)]
    nodes = [node for name, rule in ((n, r) for _, n, r in _columns(encoder)) for node in _coded(name, rule)]
    by_place = {i: f"{PREFIX}as number {name}" for i, name, _ in _columns(encoder)}
    first = next(iter(by_place.values()))
    if len(by_place) < encoder.n_features_in_:  # columns that say nothing are not asked for
        nodes += [helper.make_node("Sub", [first, first], [f"{PREFIX}nothing"])]
    joined = [by_place.get(i, f"{PREFIX}nothing") for i in range(encoder.n_features_in_)]
    nodes.append(helper.make_node("Concat", joined, [f"{PREFIX}inputs"], axis=1))
    nodes += net.graph.node
    nodes += [helper.make_node("Identity", [f"{PREFIX}{name}"], [name]) for name in OUTPUTS]
    outputs = [helper.make_tensor_value_info(out.name, *_kind(out)) for out in model.graph.output]
    graph = helper.make_graph(nodes, model.graph.name, takes, outputs, initializer=net.graph.initializer)
    versions = [*net.opset_import, helper.make_opsetid("ai.onnx.ml", ML_VERSION)]
    named = helper.make_model(graph, opset_imports=versions, ir_version=net.ir_version, functions=net.functions)
    onnx.checker.check_model(named)
    return named


def _kind(value: Any) -> tuple[int, list[Any]]:
    kind = value.type.tensor_type
    return kind.elem_type, [size.dim_param or size.dim_value for size in kind.shape.dim]


def _take(name: str, rule: Number | Category) -> Any:
    kind = TensorProto.STRING if rule.kind == "category" else TensorProto.DOUBLE
    return helper.make_tensor_value_info(name, kind, ["rows"])


def _coded(name: str, rule: Number | Category) -> list[Any]:
    """Return the nodes that make a column of one number a row, of shape (rows, 1)."""
    last, nodes = name, []
    if isinstance(rule, Category):
        codes = level_codes(rule)
        code, last = f"{PREFIX}code {name}", f"{PREFIX}double {name}"
        nodes = [
            helper.make_node(
                "LabelEncoder", [name], [code], domain="ai.onnx.ml", keys_strings=list(codes),
                values_int64s=list(codes.values()), default_int64=len(known_levels(rule)),
            ),
            helper.make_node("Cast", [code], [last], to=TensorProto.DOUBLE),
        ]  # fmt: skip
    axis = f"{PREFIX}axis {name}"
    one = helper.make_tensor(axis, TensorProto.INT64, [1], [1])
    return [
        *nodes,
        helper.make_node("Constant", [], [axis], value=one),
        helper.make_node("Unsqueeze", [last, axis], [f"{PREFIX}as number {name}"]),
    ]
