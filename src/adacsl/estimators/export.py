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
        self.steps = _steps(self.calibration)
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
        if self.steps is not None:
            stepped: Tensor = self.steps(probability[:, None])[:, 0]
            return stepped
        inside = probability.clamp(1e-12, 1.0 - 1e-12)
        return torch.sigmoid(
            self.calibration["slope"] * torch.log(inside / (1.0 - inside)) + self.calibration["intercept"]
        )


def _steps(calibration: dict[str, Any] | None) -> BentScales | None:
    """Return isotonic scaling as interpolation between knots; nothing where there is none."""
    if calibration is None or calibration["kind"] != "isotonic":
        return None
    return BentScales([(0, {"knots": calibration["scores"], "scores": calibration["probabilities"]})])


class Numbers(nn.Module):
    """The encoder's scaling of numeric columns as a few tensor operations on all columns at once, in float64."""

    fill: Tensor
    order: Tensor

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        rules = [(i, rule) for i, rule in enumerate(encoder.to_dict()["columns"]) if rule is not None]
        scales = [(i, scale) for i, rule in rules for scale in rule["scales"].values()]
        self.bent = BentScales([(i, s) for i, s in scales if s["knots"]])
        self.straight = StraightScales([(i, s) for i, s in scales if not s["knots"]])
        gaps = [i for i, rule in rules if rule["missing"]]
        fill = torch.zeros(encoder.n_features_in_, dtype=torch.float64)
        for i, rule in rules:
            fill[i] = rule["fill"]
        self.register_buffer("fill", fill)
        self.register_buffer("gaps", torch.tensor(gaps, dtype=torch.int64))
        self.register_buffer("order", torch.tensor(self._positions(rules, len(gaps)), dtype=torch.int64))

    def _positions(self, rules: list[tuple[int, dict[str, Any]]], gaps: int) -> list[int]:
        """Return where each output feature stands among (bent, straight, missing, zero)."""
        bent, straight = 0, self.bent.count
        missing = straight + self.straight.count
        order = []
        for _, rule in rules:
            for scale in rule["scales"].values():
                order.append(bent if scale["knots"] else straight)
                bent, straight = (bent + 1, straight) if scale["knots"] else (bent, straight + 1)
            if rule["missing"]:
                order.append(missing)
                missing += 1
        # nothing varied in training: the encoder gives one column of zeros
        return order or [self.bent.count + self.straight.count + gaps]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return encoded features, float32."""
        gaps = torch.isnan(inputs)
        values = torch.where(gaps, self.fill, inputs)
        zero = torch.zeros_like(inputs[:, :1])
        missing = gaps.double().index_select(1, self.get_buffer("gaps"))
        parts = torch.cat((self.bent(values), self.straight(values), missing, zero), dim=1)
        return parts.index_select(1, self.order).float()


class BentScales(nn.Module):
    """Interpolation between knots, as sums of ramps; shorter lists of knots are padded with flat ramps."""

    def __init__(self, scales: list[tuple[int, dict[str, Any]]]) -> None:
        super().__init__()
        self.count = len(scales)
        longest = max((len(s["knots"]) for _, s in scales), default=2) - 1
        table = torch.zeros(3, self.count, longest, dtype=torch.float64)  # start, span and rise of each ramp
        table[1] = 1.0
        for row, (_, scale) in enumerate(scales):
            knots, scores = (torch.tensor(scale[name], dtype=torch.float64) for name in ("knots", "scores"))
            used = len(knots) - 1
            table[0, row, :used], table[1, row, :used], table[2, row, :used] = knots[:-1], knots.diff(), scores.diff()
        self.register_buffer("table", table)
        self.register_buffer("first", torch.tensor([s["scores"][0] for _, s in scales], dtype=torch.float64))
        self.register_buffer("columns", torch.tensor([i for i, _ in scales], dtype=torch.int64))

    def forward(self, values: Tensor) -> Tensor:
        """Return one column per scale."""
        start, span, rise = self.get_buffer("table")
        picked = values.index_select(1, self.get_buffer("columns")).unsqueeze(2)
        ramps = ((picked - start) / span).clamp(0.0, 1.0)
        total: Tensor = (ramps * rise).sum(2)
        return self.get_buffer("first") + total


class StraightScales(nn.Module):
    """(x - center) / width, squashed into (-limit, limit)."""

    def __init__(self, scales: list[tuple[int, dict[str, Any]]]) -> None:
        super().__init__()
        self.count = len(scales)
        rows = [[s["center"], s["width"], s["limit"] or float("inf")] for _, s in scales]
        self.register_buffer("table", torch.tensor(rows, dtype=torch.float64).reshape(-1, 3).T.contiguous())
        self.register_buffer("columns", torch.tensor([i for i, _ in scales], dtype=torch.int64))

    def forward(self, values: Tensor) -> Tensor:
        """Return one column per scale."""
        center, width, limit = self.get_buffer("table")
        z: Tensor = (values.index_select(1, self.get_buffer("columns")) - center) / width
        return z / torch.sqrt(1.0 + (z / limit) ** 2)


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
