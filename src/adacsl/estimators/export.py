"""A trained classifier as an ONNX file that scores, corrects and decides."""

from __future__ import annotations

import json
import logging
import math
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.core.heldout import BLIND
from adacsl.core.scores import LEAST
from adacsl.estimators.graphs.columns import Columns, interpolated, ramps
from adacsl.estimators.graphs.named import input_columns, input_names, matrix_of, name_inputs
from adacsl.estimators.learners.models import LOGIT_LIMITS, EstimatorModel
from adacsl.estimators.learners.netmodel import NetModel, preparation
from adacsl.estimators.learners.numbers import LinearModel
from adacsl.estimators.learners.stackmodel import StackModel
from adacsl.estimators.predicting import CostClassifier
from adacsl.estimators.reading import read_features
from adacsl.estimators.stacking import Stack
from adacsl.extras import requires
from adacsl.torch.tablenet import member_logits

with requires("onnx"):
    import onnx
    import onnxruntime
    import onnxscript  # noqa: F401  torch's exporter needs it

TOLERANCE = 1e-5
UNSEEN = -1e6
"""The sum of a class that a model has never seen."""


def export_onnx(clf: CostClassifier, path: str | Path, sample: Any) -> Path:
    """Write a fitted classifier as ONNX; see :meth:`Method.export_onnx`."""
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


def graph_inputs(clf: CostClassifier, X: Any) -> dict[str, np.ndarray[Any, Any]]:  # noqa: N803
    """Return what the exported graph takes for these rows, by the names of its inputs: numbers, columns or bytes."""
    model, rows = exportable(clf.model_).models[0], read_features(clf, X, reset=False)
    if model.encoder is None:
        return {"inputs": np.ascontiguousarray(model.inputs(rows).numpy())}
    if model.encoder.only_numbers:
        return {"inputs": model.encoder.raw_numbers(rows)}
    return input_columns(model.encoder, rows)


def exportable(model: Any) -> StackModel:
    """Return a model as a stack, if only of itself, or say why it has no graph."""
    if not isinstance(model, StackModel):
        model = model.as_read() if isinstance(model, EstimatorModel) else model
        if not isinstance(model, NetModel) and not _is_sum(model):
            raise ValueError(
                "ONNX files are written of nets and logistic regressions of encoded tables, and this model is made of "
                f"{model.kind}: keep it with save()"
            )
        outputs = model.outputs if isinstance(model, NetModel) else model.n_classes
        none = 0.0 if outputs <= 2 else np.zeros(outputs)
        return StackModel(Stack(np.ones(1), none, np.inf, 0.0), [model.kind], [model], [none])
    for name, own in zip(model.names, model.models, strict=True):
        if not isinstance(own, NetModel) and not _is_sum(own):
            raise ValueError(
                f"ONNX files are written of nets and logistic regressions, and member {name!r} is made of {own.kind}: "
                "fit members=['logistic', 'nets', 'nets-bent'], or a student with distil='net' and export student_"
            )
        if _takes(own) != _takes(model.models[0]):
            raise ValueError(f"members {model.names[0]!r} and {name!r} take other inputs, but a graph takes one")
    return model


def _is_sum(model: Any) -> bool:
    """Tell whether a member of a portfolio is made of logistic regressions of encoded features."""
    own = isinstance(model, EstimatorModel) and model.encoder is not None
    kinds = ("logistic", "softmax")
    return own and all(isinstance(part, LinearModel) and part.kind in kinds for part in model.estimators)


def _takes(model: Any) -> Any:
    """Return what decides about the inputs of a model."""
    return model.settings.image_size if model.encoder is None else model.encoder.to_dict()


def _nets(model: Any) -> nn.ModuleList:
    """Return the nets of a member; a logistic regression is one of a single layer."""
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

    def __init__(self, clf: CostClassifier, model: StackModel) -> None:
        super().__init__()
        self.encoder, self.several = model.models[0].encoder, clf.costs_.n_classes > 2
        self.columns = None if self.encoder is None or self.encoder.only_numbers else self.encoder
        self.encode: nn.Module = (
            preparation(model.models[0].settings) if self.encoder is None else Columns(self.encoder)
        )
        self.members = nn.ModuleList(_nets(own) for own in model.models)
        # what is added to a member's logits: a mean of sums is the sum of means
        shifts = [_undone(own) + shift for own, shift in zip(model.models, model.shifts, strict=True)]
        self.register_buffer("shifts", torch.tensor(np.asarray(shifts, dtype=np.float64)))
        self.register_buffer("weights", torch.tensor(model.stack.weights))
        self.register_buffer("intercept", torch.tensor(model.stack.intercept, dtype=torch.float64))
        self.limit = model.stack.limit
        self.decide: nn.Module = ClassHead(clf) if self.several else BinaryHead(clf)

    def forward(self, inputs: Tensor) -> Any:
        """Return scores, probabilities (of the positive class, or of each), and the number of the cheapest class."""
        x = self.encode(inputs)
        columns = [
            torch.cat([member_logits(net, x).mean(2) for net in nets], dim=1).mean(1).double()  # type: ignore[attr-defined]
            for nets in self.members
        ]
        stacked = torch.stack(columns, dim=1) + self.shifts
        if self.several:
            stacked = (stacked - stacked.amax(2, keepdim=True)).transpose(1, 2)
        if math.isfinite(self.limit):
            stacked = stacked.clamp(-self.limit, self.limit)
        return self.decide(stacked @ self.weights + self.intercept)


def _undone(model: Any) -> Any:
    """Return what is added to a member's mean logits: a number, or one of each class."""
    return np.mean(model.undone, axis=0) if isinstance(model, NetModel) else model.undone


class BinaryHead(nn.Module):
    """From log-odds to the score, the probability of the positive class, and whether it is the cheaper decision."""

    first: Tensor
    ramps: Tensor

    def __init__(self, clf: CostClassifier) -> None:
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
        self.by_probability = decision.decide == "calibrated" and self.calibration is not None
        self.threshold = decision.probability_threshold if self.by_probability else decision.threshold_

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities of the positive class, and 1 where it is the cheaper decision."""
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

    def __init__(self, clf: CostClassifier) -> None:
        super().__init__()
        decision = clf.decision_
        self.way, self.calibrated = decision.decide, decision.calibration_ is not None
        self.register_buffer("mapped", torch.tensor(decision.mapped))
        self.register_buffer("costs", torch.tensor(clf.costs_.to_array()))
        if decision.calibration_ is not None:
            self.register_buffer("matrix", torch.tensor(decision.calibration_["matrix"], dtype=torch.float64))
            self.register_buffer("moved", torch.tensor(decision.calibration_["intercept"], dtype=torch.float64))

    def forward(self, logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return scores, probabilities, and the number of the class that is decided for."""
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


def _finish(path: Path, clf: CostClassifier, graph: DecisionGraph) -> None:
    """Let the graph take columns by their names, where some are no numbers, and say what a reader must know."""
    model = onnx.load(path)
    takes = "images" if clf.images_ else "numbers" if graph.columns is None else "columns"
    if graph.columns is not None:
        model = name_inputs(model, graph.columns)
    entries = {"producer": "adacsl", "inputs": takes, "classes": json.dumps(clf.classes_.tolist())}
    if not graph.several:
        entries |= {
            "threshold": repr(clf.threshold_),
            "bayes_threshold": repr(float(clf.costs_.threshold)),
            "positive": json.dumps(np.asarray(clf.positive_).item()),
        }
    entries["costs"] = clf.costs_.to_json()
    if graph.columns is not None:
        entries["columns"] = json.dumps(input_names(graph.columns))
    if said := getattr(clf, "said_costs_", None):
        entries |= {
            "said_costs": said.to_json(),
            "note": "decision is by costs, what a row costs on average; prices of each row (said_costs) are decided "
            "outside, by comparing the probability with fp / (fp + fn) of the row",
        }
    onnx.helper.set_model_props(model, entries)
    onnx.save(model, path)


def _check(path: Path, clf: CostClassifier, sample: Any, inputs: dict[str, Any]) -> None:
    session = onnxruntime.InferenceSession(path.read_bytes(), providers=["CPUExecutionProvider"])
    scores = session.run(["score"], inputs)[0]
    gap = float(np.max(np.abs(scores - clf.decision_scores(sample))))
    if not gap <= TOLERANCE:
        raise RuntimeError(
            f"the exported graph differs from the classifier by {gap:.2g}: not written; please report it"
        )
