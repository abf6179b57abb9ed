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
from adacsl.estimators.classifier import AdaCSLClassifier
from adacsl.estimators.training import member_logits
from adacsl.extras import requires

with requires("onnx"):
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  torch's exporter needs it

TOLERANCE = 1e-5


def export_onnx(clf: AdaCSLClassifier, path: str | Path, sample: Any) -> Path:
    """Write a fitted classifier as ONNX; see :meth:`AdaCSLClassifier.export_onnx`."""
    path = Path(path)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} to: make it first")
    graph = DecisionGraph(clf).eval()
    inputs = graph_inputs(clf, sample)
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=f".{path.name}-") as scratch:
        draft = Path(scratch) / "model.onnx"
        _export(graph, inputs, draft)
        _add_metadata(draft, clf, graph)
        _check(draft, clf, sample, inputs)
        draft.replace(path)
    return path


def graph_inputs(clf: AdaCSLClassifier, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
    """Return what the exported graph takes for these rows: raw numbers, encoded features or bytes."""
    if clf.images_:
        return np.ascontiguousarray(clf._encode(X).numpy())
    rows = clf._check_table(X, reset=False)
    return clf.encoder_.raw_numbers(rows) if clf.encoder_.only_numbers else clf.encoder_.transform(rows)


class DecisionGraph(nn.Module):
    """From inputs to raw score, corrected probability and decision."""

    shifts: Tensor

    def __init__(self, clf: AdaCSLClassifier) -> None:
        super().__init__()
        self.raw_numbers = not clf.images_ and clf.encoder_.only_numbers
        self.encode: nn.Module = clf._prepare() or (Numbers(clf.encoder_) if self.raw_numbers else nn.Identity())
        self.nets = clf.net_ if isinstance(clf.net_, nn.ModuleList) else nn.ModuleList([clf.net_])
        self.register_buffer("shifts", torch.tensor(clf.shifts_, dtype=torch.float32))
        bayes = float(clf.costs_.threshold)
        self.threshold = clf.threshold_
        self.odds = bayes / (1.0 - bayes) * (1.0 - clf.threshold_) / clf.threshold_

    def forward(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities of the positive class, and 1 where it is the cheaper decision."""
        x = self.encode(inputs)
        logits = torch.cat([member_logits(net, x).mean(2) for net in self.nets], dim=1)
        score = torch.sigmoid((logits + self.shifts).mean(1).double())
        probability = score * self.odds / (score * self.odds + (1.0 - score))
        return score, probability, (score > self.threshold).long()


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


def _add_metadata(path: Path, clf: AdaCSLClassifier, graph: DecisionGraph) -> None:
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
        "features": json.dumps(clf.encoder_.describe() if takes == "encoded" else []),
    }
    onnx.helper.set_model_props(model, entries)
    onnx.save(model, path)


def _check(path: Path, clf: AdaCSLClassifier, sample: Any, inputs: np.ndarray[Any, Any]) -> None:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    scores = session.run(["score"], {"inputs": inputs})[0]
    gap = float(np.max(np.abs(scores - clf.decision_scores(sample))))
    if not gap <= TOLERANCE:
        raise RuntimeError(
            f"the exported graph differs from the classifier by {gap:.2g}: not written; please report it"
        )
