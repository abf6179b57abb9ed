"""Fitted classifiers as ONNX graphs that encode, score, calibrate and decide."""

from __future__ import annotations

import json
import logging
import math
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl.adaptive.held_out import BLIND
from adacsl.base.extras import requires
from adacsl.base.scores import LEAST
from adacsl.datasets.columns import MISSING_TEXT, TRUTHS, Column, as_text, spellings
from adacsl.datasets.encoder import FAR, PERIODS, Category, Number, Scale, TableEncoder
from adacsl.estimators.classifier import CostSensitiveClassifier
from adacsl.fitting.rows import read_features
from adacsl.learners.arrays import LinearModel
from adacsl.learners.estimator_model import LOGIT_LIMITS, EstimatorModel
from adacsl.learners.stack import Stack, StackModel
from adacsl.neural.model import NetModel, preparation
from adacsl.torch.tabular import member_logits

with requires("onnx"):
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  torch's exporter needs it
    from onnx import TensorProto, helper


PARTS = ("seconds", "year", "day", "month", "weekday", "hour")
INDICATOR = Scale([0.0, 1.0], [0.0, 1.0])
ZERO = Scale([0.0, 1.0], [0.0, 0.0])
DAY = 86_400.0


class Columns(nn.Module):
    """The encoder as tensor operations on all columns at once, in float64.

    Takes one number for each training column: a number (NaN = missing), seconds since 1970, or the code of a level.
    """

    fill: Tensor
    dates: Tensor
    sources: Tensor
    bent: Tensor
    first: Tensor
    ramps: Tensor
    straight: Tensor
    turning: Tensor
    angles: Tensor
    order: Tensor

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        rules = encoder.rules()
        n, dates = len(rules), [i for i, rule in enumerate(rules) if rule is not None and rule.kind == "date"]
        # inputs of scales and circles: numbers, whether they are missing, the parts of each date
        parts = {(i, part): 2 * n + len(PARTS) * k + PARTS.index(part) for k, i in enumerate(dates) for part in PARTS}
        scales: list[tuple[int, Scale]] = []
        cycles: list[tuple[int, float]] = []
        places: list[tuple[str, int]] = []
        self.coded: list[int] = []
        for i, rule in enumerate(rules):
            if isinstance(rule, Number):
                own = [(parts.get((i, part), i), scale) for part, scale in rule.scales.items()]
                turns = [(parts[i, part], 2.0 * math.pi / PERIODS[part]) for part in rule.cycles]
                places += [("scaled", len(scales) + k) for k in range(len(own))]
                places += [(wave, len(cycles) + k) for k in range(len(turns)) for wave in ("sine", "cosine")]
                places += [("scaled", len(scales) + len(own))] * rule.missing
                scales += own + [(n + i, INDICATOR)] * rule.missing
                cycles += turns
            elif isinstance(rule, Category):
                table = torch.tensor(level_features(rule))
                self.register_buffer(f"table{i}", table)
                places += [(f"table{i}", k) for k in range(table.shape[1])]
                self.coded.append(i)
        if not places:  # nothing varied in training: the encoder gives one column of zeros
            scales, places = [(0, ZERO)], [("scaled", 0)]
        self._remember_numbers(rules, dates, scales or [(0, ZERO)], cycles)
        starts = self._starts(len(scales or [ZERO]), len(cycles))
        self.register_buffer("order", torch.tensor([starts[kind] + k for kind, k in places]))

    def _remember_numbers(
        self, rules: Sequence[Number | Category | None], dates: list[int], scales: list[tuple[int, Scale]],
        cycles: list[tuple[int, float]],
    ) -> None:  # fmt: skip
        fill = [rule.fill if isinstance(rule, Number) else 0.0 for rule in rules]
        own = [scale for _, scale in scales]
        first, slopes = ramps([(s.knots or ZERO.knots, s.scores or ZERO.scores) for s in own])
        straight = [[s.center, s.width, s.limit or math.inf] for s in own]
        self.register_buffer("fill", torch.tensor(fill, dtype=torch.float64))
        self.register_buffer("dates", torch.tensor(dates, dtype=torch.int64))
        self.register_buffer("sources", torch.tensor([source for source, _ in scales]))
        self.register_buffer("bent", torch.tensor([bool(s.knots) for s in own]))
        self.register_buffer("first", first)
        self.register_buffer("ramps", slopes)
        self.register_buffer("straight", torch.tensor(straight, dtype=torch.float64).T.contiguous())
        self.register_buffer("turning", torch.tensor([source for source, _ in cycles], dtype=torch.int64))
        self.register_buffer("angles", torch.tensor([angle for _, angle in cycles], dtype=torch.float64))

    def _starts(self, n_scales: int, n_cycles: int) -> dict[str, int]:
        """Return where the features of each kind begin, as ``forward`` puts them side by side."""
        starts, end = {"scaled": 0, "sine": n_scales, "cosine": n_scales + n_cycles}, n_scales + 2 * n_cycles
        for i in self.coded:
            starts[f"table{i}"] = end
            end += self.get_buffer(f"table{i}").shape[1]
        return starts

    def forward(self, inputs: Tensor) -> Tensor:
        """Return encoded features, float32."""
        gaps = torch.isnan(inputs) | torch.isinf(inputs)
        known = torch.where(gaps, self.fill, inputs)
        looked = torch.cat((known, gaps.double()), dim=1)
        if len(self.dates):
            looked = torch.cat((looked, date_parts(known.index_select(1, self.dates)).flatten(1)), dim=1)
        features = [self._scaled(looked.index_select(1, self.sources))]
        if len(self.turning):
            angles = looked.index_select(1, self.turning) * self.angles
            features += [torch.sin(angles), torch.cos(angles)]
        features += [self.get_buffer(f"table{i}").index_select(0, known[:, i].long()) for i in self.coded]
        return torch.cat(features, dim=1).index_select(1, self.order).float()

    def _scaled(self, values: Tensor) -> Tensor:
        center, width, limit = self.straight
        z = ((values - center) / width).clamp(-FAR, FAR)
        squashed = z / torch.sqrt(1.0 + (z / limit) ** 2)
        return torch.where(self.bent, interpolated(values, self.first, self.ramps), squashed)


def known_levels(rule: Category) -> list[str]:
    """Return the levels with a code of their own: their place; then come any other level, and a missing one."""
    return sorted({*rule.levels, *(rule.frequencies or {})})


def level_codes(rule: Category) -> dict[str, int]:
    """Return the code of each text that is known; any other has the number of known levels as its code.

    A graph cannot read numbers and dates in text: it knows their usual spellings besides the one of the encoder.
    """
    codes = {level: i for i, level in enumerate(known_levels(rule))}
    usual = [f"{level}{end}" for level in codes for end in (".0", " 00:00:00", "T00:00:00")]
    others = {text: codes[level] for text, level in spellings([*usual, *TRUTHS]).items() if level in codes}
    return others | codes | dict.fromkeys(MISSING_TEXT, len(codes) + 1)


def level_features(rule: Category) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the features of each code."""
    levels = known_levels(rule)
    unknown = "?" * (1 + max(map(len, levels), default=0))  # longer than any level
    text = as_text([*levels, unknown, ""])
    return rule.encode(Column(rule.name, "text", text))


def date_parts(seconds: Tensor) -> Tensor:
    """Return the parts of dates in the order of PARTS, as a last axis: the Gregorian calendar in whole float64 numbers.

    Years begin in March, so that a leap day is the last of its year; 400 years have 146,097 days.
    """
    whole = torch.floor(seconds)
    days = torch.floor(whole / DAY)
    hour = torch.floor((whole - days * DAY) / 3600.0)
    since = days + 719_468.0  # from the first of March of year 0
    era = torch.floor(since / 146_097.0)
    day = since - era * 146_097.0
    year = torch.floor(
        (day - torch.floor(day / 1460.0) + torch.floor(day / 36_524.0) - torch.floor(day / 146_096.0)) / 365.0
    )
    day = day - (365.0 * year + torch.floor(year / 4.0) - torch.floor(year / 100.0))
    month = torch.floor((5.0 * day + 2.0) / 153.0)
    early = (month >= 10.0).double()  # January and February belong to the next year
    day = day - torch.floor((153.0 * month + 2.0) / 5.0) + 1.0
    weekday = days + 3.0 - 7.0 * torch.floor((days + 3.0) / 7.0)
    parts = (seconds, year + 400.0 * era + early, day, month + 2.0 - 12.0 * early, weekday, hour)
    return torch.stack(parts, dim=-1)


def ramps(lines: list[tuple[list[float], list[float]]]) -> tuple[Tensor, Tensor]:
    """Return where each line through knots begins, and start, span and rise of its ramps; flat ones fill up."""
    longest = max(len(knots) for knots, _ in lines) - 1
    table = torch.zeros(3, len(lines), longest, dtype=torch.float64)
    table[1] = 1.0
    for row, line in enumerate(lines):
        knots, heights = torch.tensor(line, dtype=torch.float64)
        table[:, row, : len(knots) - 1] = torch.stack((knots[:-1], knots.diff(), heights.diff()))
    return torch.tensor([heights[0] for _, heights in lines], dtype=torch.float64), table


def interpolated(values: Tensor, first: Tensor, slopes: Tensor) -> Tensor:
    """Return the height of each column's line, as a sum of ramps."""
    start, span, rise = slopes
    climbed: Tensor = (((values.unsqueeze(2) - start) / span).clamp(0.0, 1.0) * rise).sum(2)
    return first + climbed


OUTPUTS = ("score", "probability", "decision")
PREFIX = "net/"
TAKES = {"number": "float64, NaN = missing", "date": "seconds since 1970 in UTC, float64, NaN = missing",
         "category": "string, empty = missing"}  # fmt: skip
ML_VERSION = 3


def _columns(encoder: TableEncoder) -> Iterator[tuple[int, str, Number | Category]]:
    """Yield place, input name and rule of each informative column; outputs keep their names."""
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
    if len(by_place) < encoder.n_features_in_:  # constant columns are no inputs
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


TOLERANCE = 1e-5
UNSEEN = -1e6
"""The sum of a class that a model has never seen."""


def export_onnx(clf: CostSensitiveClassifier, path: str | Path, sample: Any) -> Path:
    """Write a fitted classifier as ONNX; see :meth:`CostSensitiveClassifier.export_onnx`."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to: make it first")
    graph = DecisionGraph(clf, exportable(clf.model_)).eval()
    inputs = graph_inputs(clf, sample)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        draft = Path(scratch) / "model.onnx"
        _export(graph, inputs["inputs"] if graph.columns is None else matrix_of(graph.columns, inputs), draft)
        _finish(draft, clf, graph)
        _check(draft, clf, sample, inputs)
        draft.replace(path)
    return path


def graph_inputs(clf: CostSensitiveClassifier, X: Any) -> dict[str, np.ndarray[Any, Any]]:  # noqa: N803
    """Return what the exported graph takes for these rows, by the names of its inputs: numbers, columns or bytes."""
    model, rows = exportable(clf.model_).models[0], read_features(clf, X, reset=False)
    if model.encoder is None:
        return {"inputs": np.ascontiguousarray(model.inputs(rows).numpy())}
    if model.encoder.only_numbers:
        return {"inputs": model.encoder.raw_numbers(rows)}
    return input_columns(model.encoder, rows)


def exportable(model: Any) -> StackModel:
    """Return a model as a stack, if only of itself; raise where it has no graph."""
    if not isinstance(model, StackModel):
        model = model.as_read() if isinstance(model, EstimatorModel) else model
        if not isinstance(model, NetModel) and not _is_sum(model):
            raise ValueError(
                "only neural networks and logistic regressions of encoded tables can be exported to ONNX, not "
                f"{model.kind}: keep the model with save()"
            )
        outputs = model.outputs if isinstance(model, NetModel) else model.n_classes
        none = 0.0 if outputs <= 2 else np.zeros(outputs)
        return StackModel(Stack(np.ones(1), none, np.inf, 0.0), [model.kind], [model], [none])
    for name, own in zip(model.names, model.models, strict=True):
        if not isinstance(own, NetModel) and not _is_sum(own):
            raise ValueError(
                "only neural networks and logistic regressions of encoded tables can be exported to ONNX, such as "
                f"SklearnLearner(pipeline, encode=True), and base estimator {name!r} is made of {own.kind}: "
                "fit estimators=['logistic', 'net', 'net-bins']"
            )
        if _takes(own) != _takes(model.models[0]):
            raise ValueError(
                f"base estimators {model.names[0]!r} and {name!r} take different inputs, but a graph takes one"
            )
    return model


def _is_sum(model: Any) -> bool:
    """Return whether a base estimator of an ensemble is made of logistic regressions of encoded features."""
    own = isinstance(model, EstimatorModel) and model.encoder is not None
    kinds = ("logistic", "softmax")
    return own and all(isinstance(part, LinearModel) and part.kind in kinds for part in model.estimators)


def _takes(model: Any) -> Any:
    """Return what determines the inputs of a model."""
    return model.settings.image_size if model.encoder is None else model.encoder.to_dict()


def _nets(model: Any) -> nn.ModuleList:
    """Return the networks of a base estimator; a logistic regression is one of a single layer."""
    if isinstance(model, NetModel):
        return model.net if isinstance(model.net, nn.ModuleList) else nn.ModuleList([model.net])
    return nn.ModuleList(_layer(part, model.n_classes) for part in model.estimators)


def _layer(part: LinearModel, n_classes: int) -> nn.Module:
    weights = part.weights if part.scale is None else part.weights / part.scale
    intercept = part.intercept if part.center is None else part.intercept - weights @ part.center
    weights, intercept = np.atleast_2d(weights), np.atleast_1d(intercept)
    if n_classes == 2 and part.classes_.tolist() == [1, 0]:
        weights, intercept = -weights, -intercept
    if n_classes > 2:
        own = np.zeros((n_classes, weights.shape[1])), np.full(n_classes, UNSEEN)
        if part.kind == "logistic":  # two of the classes were in its rows
            weights, intercept = np.vstack((0.0 * weights, weights)), np.append(0.0, intercept)
        own[0][part.classes_], own[1][part.classes_] = weights, intercept
        weights, intercept = own
    layer = nn.Linear(weights.shape[1], len(weights))
    layer.weight.data, layer.bias.data = torch.tensor(weights).float(), torch.tensor(intercept).float()
    made = layer if n_classes == 2 else nn.Sequential(layer, LogChances())
    return made.requires_grad_(False)


class LogChances(nn.Module):
    """Log probabilities of K sums, none lower than the learner's."""

    def forward(self, sums: Tensor) -> Tensor:
        """Return as many as there are sums."""
        return torch.log_softmax(sums.double(), dim=1).clamp(min=math.log(LOGIT_LIMITS[0]))


class DecisionGraph(nn.Module):
    """From inputs to raw score, corrected probability and decision."""

    weights: Tensor
    shifts: Tensor
    intercept: Tensor

    def __init__(self, clf: CostSensitiveClassifier, model: StackModel) -> None:
        super().__init__()
        self.encoder, self.several = model.models[0].encoder, clf.costs_.n_classes > 2
        self.columns = None if self.encoder is None or self.encoder.only_numbers else self.encoder
        self.encode: nn.Module = (
            preparation(model.models[0].settings) if self.encoder is None else Columns(self.encoder)
        )
        self.members = nn.ModuleList(_nets(own) for own in model.models)
        # what is added to a base estimator's logits: a mean of sums is the sum of means
        shifts = [_undone(own) + shift for own, shift in zip(model.models, model.shifts, strict=True)]
        self.register_buffer("shifts", torch.tensor(np.asarray(shifts, dtype=np.float64)))
        self.register_buffer("weights", torch.tensor(model.stack.weights))
        self.register_buffer("intercept", torch.tensor(model.stack.intercept, dtype=torch.float64))
        self.limit = model.stack.limit
        self.decide: nn.Module = ClassHead(clf) if self.several else BinaryHead(clf)

    def forward(self, inputs: Tensor) -> Any:
        """Return scores, probabilities (of the positive class, or of each), and the index of the decided class."""
        x = self.encode(inputs)
        columns = [
            torch.cat([member_logits(net, x).mean(2) for net in networks], dim=1).mean(1).double()  # type: ignore[attr-defined]
            for networks in self.members
        ]
        stacked = torch.stack(columns, dim=1) + self.shifts
        if self.several:
            stacked = (stacked - stacked.amax(2, keepdim=True)).transpose(1, 2)
        if math.isfinite(self.limit):
            stacked = stacked.clamp(-self.limit, self.limit)
        return self.decide(stacked @ self.weights + self.intercept)


def _undone(model: Any) -> Any:
    """Return what is added to a base estimator's mean logits: a number, or one of each class."""
    return np.mean(model.undone, axis=0) if isinstance(model, NetModel) else model.undone


class BinaryHead(nn.Module):
    """From log-odds to the score, the probability of the positive class, and the decision."""

    first: Tensor
    ramps: Tensor

    def __init__(self, clf: CostSensitiveClassifier) -> None:
        super().__init__()
        decision, bayes = clf.decision_, float(clf.costs_.threshold)
        self.odds = bayes / (1.0 - bayes) * (1.0 - decision.mapped) / decision.mapped
        self.calibration = decision.calibration_
        self.isotonic = self.calibration is not None and self.calibration["kind"] == "isotonic"
        if self.calibration is not None and self.isotonic:
            first, slopes = ramps([(self.calibration["scores"], self.calibration["probabilities"])])
            self.register_buffer("first", first)
            self.register_buffer("ramps", slopes)
        # a calibrated probability is compared itself, and a score where there is nothing in between
        calibrated = decision.decide == "calibrated" and self.calibration is not None
        self.by_probability = calibrated or decision.offset_ is not None
        self.threshold = decision.probability_threshold if self.by_probability else decision.threshold_

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities of the positive class, and 1 where positive costs less."""
        score = torch.sigmoid(logits)
        probability = self._calibrated(score * self.odds / (score * self.odds + (1.0 - score)))
        compared = probability if self.by_probability else score
        return score, probability, (compared > self.threshold).long()

    def _calibrated(self, probability: Tensor) -> Tensor:
        if self.calibration is None:
            return probability
        if self.isotonic:
            return interpolated(probability[:, None], self.first, self.ramps)[:, 0]
        inside = probability.clamp(1e-12, 1.0 - 1e-12)
        return torch.sigmoid(
            self.calibration["slope"] * torch.log(inside / (1.0 - inside)) + self.calibration["intercept"]
        )


class ClassHead(nn.Module):
    """From K logits to scores, probabilities, and the class of least expected cost by the full matrix."""

    mapped: Tensor
    costs: Tensor
    matrix: Tensor
    moved: Tensor

    def __init__(self, clf: CostSensitiveClassifier) -> None:
        super().__init__()
        decision = clf.decision_
        self.way, self.calibrated = decision.decide, decision.calibration_ is not None
        self.register_buffer("mapped", torch.tensor(decision.mapped))
        self.register_buffer("costs", torch.tensor(clf.costs_.to_array()))
        if decision.calibration_ is not None:
            self.register_buffer("matrix", torch.tensor(decision.calibration_["matrix"], dtype=torch.float64))
            self.register_buffer("moved", torch.tensor(decision.calibration_["intercept"], dtype=torch.float64))

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities, and the index of the decided class."""
        score = torch.softmax(logits, dim=1)
        freed = score / self.mapped
        probability = freed / freed.sum(1, keepdim=True)
        if self.calibrated:
            logs = probability.clamp(min=LEAST).log()
            probability = torch.softmax((logs - logs.mean(1, keepdim=True)) @ self.matrix.T + self.moved, dim=1)
        if self.way in BLIND:
            return score, probability, (probability if self.way == "half" else score).argmax(1)
        return score, probability, (probability @ self.costs.T).argmin(1)


def _export(graph: nn.Module, inputs: np.ndarray[Any, Any], path: Path) -> None:
    example = torch.from_numpy(inputs[:2] if len(inputs) > 1 else np.repeat(inputs, 2, axis=0))
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript", "onnx_ir")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                graph, (example,), path, dynamo=True, verbose=False, external_data=False,
                input_names=["inputs"], output_names=["score", "probability", "decision"],
                dynamic_shapes=({0: torch.export.Dim("rows")},),
            )  # fmt: skip
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def _finish(path: Path, clf: CostSensitiveClassifier, graph: DecisionGraph) -> None:
    """Let the graph take columns by their names, where some are no numbers, and write the metadata."""
    model = onnx.load(path)
    takes = "images" if clf.images_ else "numbers" if graph.columns is None else "columns"
    if graph.columns is not None:
        model = name_inputs(model, graph.columns)
    entries = {"producer": "adacsl", "inputs": takes, "classes": json.dumps(clf.classes_.tolist())}
    if not graph.several:
        entries |= {
            "threshold": repr(clf.threshold_),
            "bayes_threshold": repr(float(clf.costs_.threshold)),
            "pos_label": json.dumps(np.asarray(clf.pos_label_).item()),
        }
    entries["costs"] = clf.costs_.to_json()
    if graph.columns is not None:
        entries["columns"] = json.dumps(input_names(graph.columns))
    if spec := getattr(clf, "cost_spec_", None):
        entries |= {
            "cost_spec": spec.to_json(),
            "note": "decision is by costs, what a row costs on average; per-sample costs (cost_spec) are decided "
            "outside, by comparing the probability with fp / (fp + fn) of the row",
        }
    onnx.helper.set_model_props(model, entries)
    onnx.save(model, path)


def _check(path: Path, clf: CostSensitiveClassifier, sample: Any, inputs: dict[str, Any]) -> None:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    scores = session.run(["score"], inputs)[0]
    gap = float(np.max(np.abs(scores - clf.decision_scores(sample))))
    if not gap <= TOLERANCE:
        raise RuntimeError(
            f"the exported graph differs from the classifier by {gap:.2g}: not written; please report it"
        )
