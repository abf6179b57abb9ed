"""A trained classifier as an ONNX file that scores, corrects and decides."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.features import Scale
from adacsl.estimators.learners.netmodel import NetModel, preparation
from adacsl.estimators.predicting import CostClassifier
from adacsl.estimators.reading import read_features
from adacsl.extras import requires
from adacsl.torch.tablenet import member_logits

with requires("onnx"):
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  torch's exporter needs it

TOLERANCE = 1e-5
INDICATOR = Scale([0.0, 1.0], [0.0, 1.0])
ZERO = Scale([0.0, 1.0], [0.0, 0.0])


def export_onnx(clf: CostClassifier, path: str | Path, sample: Any) -> Path:
    """Write a fitted classifier as ONNX; see :meth:`Method.export_onnx`."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to: make it first")
    if not isinstance(clf.model_, NetModel):
        raise ValueError(  # noqa: TRY004  the type is right, its content is not
            f"ONNX files are written of nets only, and this model is made of {clf.model_.kind}: keep it with save()"
        )
    graph = DecisionGraph(clf).eval()
    inputs = graph_inputs(clf, sample)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        draft = Path(scratch) / "model.onnx"
        _export(graph, inputs, draft)
        _add_metadata(draft, clf, graph)
        _check(draft, clf, sample, inputs)
        draft.replace(path)
    return path


def graph_inputs(clf: CostClassifier, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
    """Return what the exported graph takes for these rows: raw numbers, encoded features or bytes."""
    rows, encoder = read_features(clf, X, reset=False), clf.model_.encoder
    if encoder is None:
        return np.ascontiguousarray(clf.model_.inputs(rows).numpy())
    return np.asarray(encoder.raw_numbers(rows) if encoder.only_numbers else encoder.transform(rows))


class DecisionGraph(nn.Module):
    """From inputs to raw score, corrected probability and decision."""

    undone: Tensor
    first: Tensor
    ramps: Tensor

    def __init__(self, clf: CostClassifier) -> None:
        super().__init__()
        model, decision = clf.model_, clf.decision_
        self.raw_numbers = model.encoder is not None and model.encoder.only_numbers
        self.encode: nn.Module = Numbers(model.encoder) if self.raw_numbers else nn.Identity()
        if model.encoder is None:
            self.encode = preparation(model.settings)
        self.nets = model.net if isinstance(model.net, nn.ModuleList) else nn.ModuleList([model.net])
        self.register_buffer("undone", torch.tensor(model.undone, dtype=torch.float32))
        bayes = float(clf.costs_.threshold)
        self.odds = bayes / (1.0 - bayes) * (1.0 - decision.mapped) / decision.mapped
        self.calibration = decision.calibration_
        self.isotonic = self.calibration is not None and self.calibration["kind"] == "isotonic"
        if self.calibration is not None and self.isotonic:
            first, ramps = _ramps([(self.calibration["scores"], self.calibration["probabilities"])])
            self.register_buffer("first", first)
            self.register_buffer("ramps", ramps)
        # a calibrated probability is compared itself, and a score where there is nothing in between
        self.by_probability = self.calibration is not None
        self.threshold = decision.probability_threshold if self.by_probability else decision.threshold_

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities of the positive class, and 1 where it is the cheaper decision."""
        x = self.encode(inputs)
        logits = torch.cat([member_logits(net, x).mean(2) for net in self.nets], dim=1)
        score = torch.sigmoid((logits + self.undone).mean(1).double())
        probability = self._calibrated(score * self.odds / (score * self.odds + (1.0 - score)))
        compared = probability if self.by_probability else score
        return score, probability, (compared > self.threshold).long()

    def _calibrated(self, probability: Tensor) -> Tensor:
        if self.calibration is None:
            return probability
        if self.isotonic:
            return _interpolated(probability[:, None], self.first, self.ramps)[:, 0]
        inside = probability.clamp(1e-12, 1.0 - 1e-12)
        return torch.sigmoid(
            self.calibration["slope"] * torch.log(inside / (1.0 - inside)) + self.calibration["intercept"]
        )


class Numbers(nn.Module):
    """The encoder's scaling of numeric columns as a few tensor operations on all columns at once, in float64."""

    fill: Tensor
    columns: Tensor
    bent: Tensor
    first: Tensor
    ramps: Tensor
    straight: Tensor

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        n = encoder.n_features_in_
        fill, scales = torch.zeros(n, dtype=torch.float64), []
        for i, rule in enumerate(encoder.to_dict()["columns"]):
            if rule is not None:
                fill[i] = rule["fill"]
                scales += [(i, scale) for scale in rule["scales"].values()]
                scales += [(n + i, vars(INDICATOR))] * rule["missing"]  # indicators of gaps stand behind the values
        # nothing varied in training: the encoder gives one column of zeros
        scales = scales or [(0, vars(ZERO))]
        own = [scale for _, scale in scales]
        first, ramps = _ramps([(s["knots"] or ZERO.knots, s["scores"] or ZERO.scores) for s in own])
        straight = [[s["center"], s["width"], s["limit"] or float("inf")] for s in own]
        self.register_buffer("fill", fill)
        self.register_buffer("columns", torch.tensor([i for i, _ in scales]))
        self.register_buffer("bent", torch.tensor([bool(s["knots"]) for s in own]))
        self.register_buffer("first", first)
        self.register_buffer("ramps", ramps)
        self.register_buffer("straight", torch.tensor(straight, dtype=torch.float64).T.contiguous())

    def forward(self, inputs: Tensor) -> Tensor:
        """Return encoded features, float32."""
        gaps = torch.isnan(inputs)
        known = torch.cat((torch.where(gaps, self.fill, inputs), gaps.double()), dim=1)
        values = known.index_select(1, self.columns)
        center, width, limit = self.straight
        z = (values - center) / width
        squashed = z / torch.sqrt(1.0 + (z / limit) ** 2)
        return torch.where(self.bent, _interpolated(values, self.first, self.ramps), squashed).float()


def _ramps(lines: list[tuple[list[float], list[float]]]) -> tuple[Tensor, Tensor]:
    """Return where each line through knots begins, and start, span and rise of its ramps; flat ones fill up."""
    longest = max(len(knots) for knots, _ in lines) - 1
    table = torch.zeros(3, len(lines), longest, dtype=torch.float64)
    table[1] = 1.0
    for row, line in enumerate(lines):
        knots, heights = torch.tensor(line, dtype=torch.float64)
        table[:, row, : len(knots) - 1] = torch.stack((knots[:-1], knots.diff(), heights.diff()))
    return torch.tensor([heights[0] for _, heights in lines], dtype=torch.float64), table


def _interpolated(values: Tensor, first: Tensor, ramps: Tensor) -> Tensor:
    """Return the height of each column's line, as a sum of ramps."""
    start, span, rise = ramps
    climbed: Tensor = (((values.unsqueeze(2) - start) / span).clamp(0.0, 1.0) * rise).sum(2)
    return first + climbed


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


def _add_metadata(path: Path, clf: CostClassifier, graph: DecisionGraph) -> None:
    model = onnx.load(path)
    takes = "images" if clf.images_ else "numbers" if graph.raw_numbers else "encoded"
    entries = {
        "producer": "adacsl",
        "inputs": takes,
        "threshold": repr(clf.threshold_),
        "bayes_threshold": repr(float(clf.costs_.threshold)),
        "classes": json.dumps(clf.classes_.tolist()),
        "positive": json.dumps(np.asarray(clf.positive_).item()),
        "costs": clf.costs_.to_json(),
        "features": json.dumps(clf.model_.encoder.describe() if takes == "encoded" else []),
    }
    onnx.helper.set_model_props(model, entries)
    onnx.save(model, path)


def _check(path: Path, clf: CostClassifier, sample: Any, inputs: np.ndarray[Any, Any]) -> None:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    scores = session.run(["score"], {"inputs": inputs})[0]
    gap = float(np.max(np.abs(scores - clf.decision_scores(sample))))
    if not gap <= TOLERANCE:
        raise RuntimeError(
            f"the exported graph differs from the classifier by {gap:.2g}: not written; please report it"
        )
