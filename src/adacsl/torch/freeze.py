"""A trained network as a fitted classifier: a graph that needs neither its code nor PyTorch."""

from __future__ import annotations

import io
import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.base.extras import requires, resolve

TOLERANCE = 1e-3
"""How far scores of the graph may be from those of the network, in log-odds and as a share of the largest."""
ADVICE = (
    "score the samples in PyTorch and decide by adacsl.learners.scores.ScoreClassifier, or train the network by "
    "NeuralLearner(module=...)"
)


def freeze(
    module: nn.Module,
    example_inputs: Any,
    *,
    preprocess: Callable[..., Any] | None = None,
    labels: Sequence[Any] | None = None,
    scores: str = "auto",
) -> Any:
    """Return a trained network as a fitted classifier, an ONNX graph run by onnxruntime.

    The classifier is a ``learner=`` whose fit fits the decision alone; what is saved of it holds a graph and no code,
    and predicts without PyTorch.

    Parameters
    ----------
    module : nn.Module
        The network, of any training loop. It returns logits or probabilities: one for each class, or one for the second
        of two; or a mapping or object with ``logits``, as Hugging Face's models do.
    example_inputs : tensor, array, or dict of them
        A few samples, as they will be given to ``predict``: rows of numbers, images (uint8, N x H x W x C) or arrays by
        name. The first axis is that of the samples; all others are fixed.
    preprocess : callable, optional
        Makes of such inputs what the module takes, in operations of PyTorch; it becomes part of the graph.
    labels : sequence, optional
        The class of each logit, as labels are written in ``y``; default 0 to K - 1.
    scores : {"auto", "logits", "probabilities"}, default "auto"
        What the module returns. "auto": probabilities where it ends in a softmax or a sigmoid.

    Returns
    -------
    OnnxClassifier

    Raises
    ------
    ValueError
        Where the network cannot be exported, or its graph gives other scores: score such a network in PyTorch and
        decide by :class:`~adacsl.learners.scores.ScoreClassifier`, or train it by ``NeuralLearner(module=...)``.

    Examples
    --------
    >>> net = nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    >>> classifier = freeze(net, torch.randn(4, 3))  # doctest: +SKIP
    >>> classifier.predict_proba(np.zeros((2, 3))).shape  # doctest: +SKIP
    (2, 2)
    """
    if not isinstance(module, nn.Module):
        raise TypeError(f"module must be a trained torch.nn.Module, got {type(module).__name__}")
    names = list(map(str, example_inputs)) if isinstance(example_inputs, Mapping) else None
    given = example_inputs.values() if isinstance(example_inputs, Mapping) else (example_inputs,)
    examples = tuple(_tensor(each) for each in given)
    if not examples or any(each.ndim == 0 or len(each) != len(examples[0]) or not len(each) for each in examples):
        raise ValueError("example_inputs must be some samples: arrays whose first axis is that of the samples")
    modes = {part: part.training for part in module.modules()}
    place = next((tensor.device for tensor in (*module.parameters(), *module.buffers())), torch.device("cpu"))
    try:
        graph = _Scores(module.eval().cpu(), preprocess, names)
        with torch.no_grad():
            wanted = [graph(*examples), graph(*(each[:1] for each in examples))]
            content = _exported(graph, tuple(_two(each) for each in examples), names or ["inputs"])
    finally:
        for part, training in modes.items():
            part.training = training
        module.to(place)
    classifier = resolve("adacsl.integrations.onnx:OnnxClassifier")(content, labels=labels, scores=scores)
    try:
        _compare(classifier, examples, wanted)
    except ValueError as error:
        raise ValueError(f"{error}: {ADVICE}") from None
    return classifier


class _Scores(nn.Module):
    """A network with what comes before it; returns its scores alone."""

    def __init__(self, module: nn.Module, preprocess: Any, names: list[str] | None) -> None:
        super().__init__()
        self.module, self.preprocess, self.names = module, preprocess, names

    def forward(self, *inputs: Tensor) -> Tensor:
        given: Any = inputs[0] if self.names is None else dict(zip(self.names, inputs, strict=True))
        if self.preprocess is not None:
            given = self.preprocess(given)
        if isinstance(given, Mapping):
            result = self.module(**given)
        else:
            result = self.module(*given) if isinstance(given, tuple) else self.module(given)
        return _scores_of(result)


def _scores_of(result: Any) -> Tensor:
    if isinstance(result, Mapping) and "logits" in result:
        result = result["logits"]
    elif hasattr(result, "logits"):
        result = result.logits
    elif isinstance(result, tuple | list) and result:
        result = result[0]
    if not isinstance(result, Tensor) or result.ndim not in (1, 2):
        shape = tuple(result.shape) if isinstance(result, Tensor) else type(result).__name__
        raise ValueError(f"the module must return scores of shape (n,) or (n, K), got {shape}")
    return result.float()


def _tensor(values: Any) -> Tensor:
    tensor = values.detach().cpu() if isinstance(values, Tensor) else torch.as_tensor(np.asarray(values))
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _two(values: Tensor) -> Tensor:
    """Return two samples: of one, exporters would fix the number."""
    return values[:2] if len(values) > 1 else torch.cat((values, values))


def _exported(graph: nn.Module, examples: tuple[Tensor, ...], names: list[str]) -> bytes:
    with requires("onnx"):
        import onnx  # noqa: PLC0415  only for those who freeze
        import onnxscript  # noqa: F401, PLC0415  torch's exporter needs it
        from onnx import inliner  # noqa: PLC0415
    levels = {name: logging.getLogger(name).level for name in ("torch.onnx", "onnxscript", "onnx_ir", "torch.export")}
    for name in levels:
        logging.getLogger(name).setLevel(logging.ERROR)
    rows = torch.export.Dim("rows")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                graph, examples, dynamo=True, verbose=False, input_names=names, output_names=["scores"],
                dynamic_shapes=(tuple({0: rows} for _ in examples),),
            )  # fmt: skip
            if program is None:
                raise RuntimeError("the exporter gave nothing")
            model = inliner.inline_local_functions(program.model_proto)
    except Exception as error:
        reason = " ".join(str(error).split())[:200] or type(error).__name__
        raise ValueError(f"the network cannot be exported to ONNX ({reason}): {ADVICE}") from error
    finally:
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)
    for node in model.graph.node:
        node.doc_string = ""
        del node.metadata_props[:]  # stack traces: paths of the machine that made it
    buffer = io.BytesIO()
    onnx.save_model(model, buffer)
    return buffer.getvalue()


def _compare(classifier: Any, examples: tuple[Tensor, ...], wanted: Sequence[Tensor]) -> None:
    """Refuse a graph that gives other scores than the network, for all samples or for the first alone."""
    for some, expected in zip((np.s_[:], np.s_[:1]), (each.detach().numpy() for each in wanted), strict=True):
        feeds = {
            each.name: values[some].numpy().astype(each.dtype)
            for each, values in zip(classifier.inputs_, examples, strict=True)
        }
        gap = float(np.max(np.abs(classifier._scores(feeds) - expected)))
        if not gap <= TOLERANCE * max(1.0, float(np.abs(expected).max())):
            raise ValueError(f"the exported graph gives other scores than the network, by {gap:.2g}")
