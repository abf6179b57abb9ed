"""Fitted classifiers as ONNX graphs, evaluated by onnxruntime: an artefact then holds a graph, and no code.

A graph may come from anybody, so it is checked before onnxruntime sees it (:func:`check_graph`): its size, its
operations, and that it refers to no file. It then runs with bounded memory and time.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires
from adacsl.base.scores import to_probabilities

with requires("onnx"):
    import onnx
    import onnxruntime
    from onnx import AttributeProto, TensorProto
with requires("sklearn"):
    from sklearn.base import BaseEstimator, ClassifierMixin

__all__ = ["OnnxClassifier"]

DOMAINS = ("", "ai.onnx", "ai.onnx.ml")
"""Operations of the standard. Those of other domains are code that somebody else installs, or read files."""
ENDLESS = ("Loop", "Scan", "SequenceMap")
"""Operations that repeat a part of the graph as often as a number says."""
RANDOM = ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike")
MOST_BYTES = 1 << 31
"""Of a graph: what protocol buffers can hold."""
MOST_NODES = 100_000
DEEPEST = 20
"""Levels of graphs in graphs, the branches of an If."""
MOST_MEMORY = 1 << 31
"""Bytes that all graphs of a process may hold at a time, their weights among them."""
SECONDS = 60.0
"""After so long a batch is ended, between two operations."""
SECONDS_TO_TRY = 10.0
"""As long may two samples take when a graph is loaded."""
TYPES: dict[int, Any] = {
    TensorProto.FLOAT: np.float32, TensorProto.DOUBLE: np.float64, TensorProto.FLOAT16: np.float16,
    TensorProto.INT64: np.int64, TensorProto.INT32: np.int32, TensorProto.UINT8: np.uint8, TensorProto.BOOL: np.bool_,
    TensorProto.STRING: np.str_,
}  # fmt: skip
"""Inputs that can be given."""
SCORES = ("auto", "logits", "probabilities")
OUTPUTS = ("probabilities", "probability", "output_probability", "logits", "scores", "score")
"""Usual names of the output with the scores, where there are several."""
PROBABLE = ("Softmax", "Sigmoid", "Hardmax", "TreeEnsembleClassifier", "LinearClassifier", "SVMClassifier")
PASSING = ("Identity", "Cast", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Concat", "Sub", "Normalizer", "Clip")
"""Operations behind which probabilities may still be probabilities."""


class GraphInput(NamedTuple):
    """One input of a graph: its name, the numpy type, and the shape of one sample (None: not fixed)."""

    name: str
    dtype: Any
    shape: tuple[int | None, ...]
    batch: int | None
    """The number of samples, where the graph fixes it."""

    @property
    def size(self) -> int | None:
        """How many values a sample has, where that is fixed."""
        return None if None in self.shape else math.prod(side for side in self.shape if side is not None)


class OnnxClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted classifier in the ONNX format; use it as ``learner=OnnxClassifier("model.onnx")``.

    It is never fitted again: ``fit`` of a cost-sensitive classifier around it fits the decision alone.

    Parameters
    ----------
    path : path or bytes
        The graph. Its first axis is that of the samples. It takes a table of numbers; or images, uint8 or float, N x H
        x W x C or N x C x H x W; or columns by name, of shape N x 1; or several arrays, such as the tokens of a text.
    labels : sequence, optional
        The class of each column of the scores, as labels are written in ``y``; default 0 to K - 1.
    output : str, optional
        The output that holds the scores; default: the only one, or that with a usual name (``probabilities``,
        ``logits``).
    scores : {"auto", "logits", "probabilities"}, default "auto"
        What they are. "auto": probabilities where the graph ends in a softmax or a sigmoid, else logits. One column is
        about the second label.
    mean, std : float or sequence, optional
        For graphs that take images as floats: bytes are divided by 255, the mean of each channel is subtracted, and the
        result divided by its standard deviation.

    Attributes
    ----------
    classes_ : array of shape (K,)
    inputs_ : tuple of GraphInput
        What the graph takes.

    Examples
    --------
    >>> model = CostSensitiveClassifier(
    ...     CostMatrix(fp=1, fn=8), learner=OnnxClassifier("model.onnx"), decide="tuned"
    ... )  # doctest: +SKIP
    >>> model.fit(X_val, y_val).save("model")  # doctest: +SKIP
    """

    def __init__(
        self,
        path: Any,
        *,
        labels: Sequence[Any] | None = None,
        output: str | None = None,
        scores: str = "auto",
        mean: Any = None,
        std: Any = None,
    ) -> None:
        self.path, self.labels, self.output, self.scores = path, labels, output, scores
        self.mean, self.std = mean, std

    # what it is

    def __sklearn_clone__(self) -> Self:
        return self  # there is nothing to fit: a copy is as good

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __getstate__(self) -> dict[str, Any]:
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_session"}

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Return itself: it is fitted."""
        return self

    @functools.cached_property
    def _content(self) -> bytes:
        if isinstance(self.path, bytes | bytearray):
            return bytes(self.path)
        try:
            return Path(self.path).expanduser().read_bytes()
        except OSError as error:
            reason = error.strerror or str(error)
            raise type(error)(f"cannot read the ONNX graph {self.path}: {reason}") from None

    @functools.cached_property
    def _graph(self) -> Graph:
        if self.scores not in SCORES:
            raise ValueError(f"scores must be one of {', '.join(map(repr, SCORES))}, got {self.scores!r}")
        return read_graph(self._content, self.output)

    @functools.cached_property
    def _session(self) -> Any:
        return open_session(self._content, self._graph)

    @property
    def inputs_(self) -> tuple[GraphInput, ...]:
        """What the graph takes."""
        return self._graph.inputs

    @functools.cached_property
    def classes_(self) -> NDArray[Any]:
        """The label of each column of the scores."""
        width = self._graph.width if self._graph.width is not None else self._tried_width
        known = self.labels is not None
        labels = np.asarray(list(self.labels)) if self.labels is not None else np.arange(max(width or 0, 2))
        if width is None and not known:
            raise ValueError("the graph does not state its number of classes: give labels=[...]")
        if len(labels) != max(width or len(labels), 2) or len(np.unique(labels)) < len(labels):
            raise ValueError(
                f"the graph has scores of {max(width or 0, 2)} classes, and labels are {labels.tolist()}: give one "
                "label for each, all different"
            )
        return labels

    @functools.cached_property
    def _tried_width(self) -> int | None:
        """How many scores a sample has, where the graph does not say so, by trying it."""
        if any(each.size is None for each in self.inputs_):
            return None
        scores = self._scores({each.name: _zeros(each, each.batch or 2) for each in self.inputs_})
        return 1 if scores.ndim == 1 else scores.shape[1]

    @property
    def kind(self) -> str:
        """What a sample is: "images", "columns" (by name), "arrays" (tokens and others, by name) or "table"."""
        return self._graph.kind

    @property
    def takes_images(self) -> bool:
        """Whether the graph takes images."""
        return self.kind == "images"

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of its images."""
        height, width, _ = _image_shape(self.inputs_[0])
        return height, width

    # what it answers

    def to_rows(self, X: Mapping[str, Any]) -> Any:  # noqa: N803
        """Return arrays by name as one matrix with a row for each sample; shorter arrays of tokens end in zeros."""
        missing = [each.name for each in self.inputs_ if each.name not in X]
        if missing:
            raise ValueError(f"the graph takes {self._names()}, and X lacks {', '.join(missing)}")
        parts = [_fitting(each, np.asarray(X[each.name])) for each in self.inputs_]
        if len({len(part) for part in parts}) > 1:
            raise ValueError(f"the arrays of X have different lengths: {', '.join(str(len(part)) for part in parts)}")
        return np.concatenate([part.reshape(len(part), -1).astype(np.float64) for part in parts], axis=1)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, columns in the order of ``classes_``."""
        feeds = self._feeds(X)
        n = len(next(iter(feeds.values())))
        if n == 0:
            return np.empty((0, len(self.classes_)))
        step = _batch_size(self.inputs_)
        raw = np.concatenate(
            [self._scores({name: values[i : i + step] for name, values in feeds.items()}) for i in range(0, n, step)]
        ).astype(np.float64)
        raw = raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
        if not np.isfinite(raw).all():
            raise ValueError("the graph gives scores that are not finite: are there missing values it does not take?")
        probable = self._graph.probable if self.scores == "auto" else self.scores == "probabilities"
        if not probable:
            proba = to_probabilities(raw)
        elif (raw < -1e-4).any() or (raw > 1.0 + 1e-4).any():
            raise ValueError("the graph's scores are not probabilities: give OnnxClassifier(..., scores='logits')")
        else:
            proba = np.clip(raw, 0.0, 1.0)
        if proba.ndim == 1:
            return np.stack((1.0 - proba, proba), axis=1)
        sums = proba.sum(axis=1, keepdims=True)
        if probable and np.abs(sums - 1.0).max() > 1e-2:
            raise ValueError("the graph's probabilities do not sum to 1: its classes do not exclude each other")
        return np.asarray(proba / sums)

    def predict(self, X: Any) -> NDArray[Any]:  # noqa: N803
        """Return the likeliest label of each sample."""
        return np.asarray(self.classes_[np.argmax(self.predict_proba(X), axis=1)])

    def _names(self) -> str:
        return ", ".join(each.name for each in self.inputs_)

    def _feeds(self, X: Any) -> dict[str, NDArray[Any]]:  # noqa: N803
        """Return the inputs of the graph."""
        if self.kind == "images":
            return {self.inputs_[0].name: _pixels(self.inputs_[0], np.asarray(X), self.mean, self.std)}
        if self.kind == "columns" and (hasattr(X, "columns") or isinstance(X, Mapping)):
            return {each.name: _column(each, X) for each in self.inputs_}
        if isinstance(X, Mapping):
            X = self.to_rows(X)  # noqa: N806
        rows = np.asarray(X.toarray() if hasattr(X, "toarray") else X)
        if rows.ndim != 2:
            raise ValueError(f"the graph takes rows of numbers, got an array of shape {rows.shape}")
        sizes = [rows.shape[1] if each.size is None and len(self.inputs_) == 1 else each.size for each in self.inputs_]
        if None in sizes or sum(size or 0 for size in sizes) != rows.shape[1]:
            wanted = " + ".join("?" if size is None else str(size) for size in sizes)
            raise ValueError(f"the graph takes {wanted} values a sample ({self._names()}), got {rows.shape[1]}")
        ends = np.cumsum([size or 0 for size in sizes])[:-1]
        return {
            each.name: _cast(each, part).reshape(len(rows), *(each.shape if each.size is not None else (-1,)))
            for each, part in zip(self.inputs_, np.split(rows, ends, axis=1), strict=True)
        }

    def _scores(self, feeds: dict[str, NDArray[Any]], seconds: float | None = None) -> NDArray[Any]:
        n = len(next(iter(feeds.values())))
        try:
            result = np.asarray(run(self._session, self._graph.output, feeds, SECONDS if seconds is None else seconds))
        except MemoryError:
            if n == 1:
                raise ValueError(
                    f"the graph needs more than {MOST_MEMORY >> 30} GiB of memory for one sample"
                ) from None
            parts = ({name: each[part] for name, each in feeds.items()} for part in (np.s_[: n // 2], np.s_[n // 2 :]))
            return np.concatenate([self._scores(part) for part in parts])
        if result.ndim not in (1, 2) or len(result) != n or result.dtype.kind != "f":
            raise ValueError(
                f"the graph's output {self._graph.output!r} is {result.dtype} of shape {result.shape} for {n} samples, "
                "not scores of each of them: name another with output=..."
            )
        return result

    # as numbers

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the graph's bytes and plain values."""
        about = {"output": self._graph.output, "scores": self.scores, "classes": self.classes_.tolist()}
        about |= {name: None if value is None else np.ravel(value).astype(float).tolist() for name, value in (
            ("mean", self.mean), ("std", self.std))}  # fmt: skip
        return {"graph": np.frombuffer(self._content, dtype=np.uint8)}, about

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> OnnxClassifier:
        """Return the classifier of what :meth:`numbers` gave, once its graph is checked and has answered."""
        result = cls(
            np.asarray(arrays["graph"], dtype=np.uint8).tobytes(), labels=document["classes"],
            output=str(document["output"]), scores=document["scores"], mean=document["mean"], std=document["std"],
        )  # fmt: skip
        if not any(each.size is None for each in result.inputs_):
            rows = {each.name: _zeros(each, each.batch or 2) for each in result.inputs_}
            scores = result._scores(rows, SECONDS_TO_TRY)
            width = 1 if scores.ndim == 1 else scores.shape[1]
            if max(width, 2) != len(result.classes_):
                raise ValueError(f"its graph has scores of {width} classes, and {len(result.classes_)} labels")
        return result


# the graph


class Graph(NamedTuple):
    """What is known of a checked graph."""

    inputs: tuple[GraphInput, ...]
    output: str
    width: int | None
    probable: bool
    kind: str


def read_graph(content: bytes, output: str | None) -> Graph:
    """Return what a graph takes and gives, once it is checked."""
    model = check_graph(content)
    inner = model.graph
    weights = {each.name for each in inner.initializer}
    inputs = tuple(_input_of(each) for each in inner.input if each.name not in weights)
    if not inputs:
        raise ValueError("the ONNX graph takes nothing")
    kind = _kind_of(inputs)
    outputs = {each.name: each for each in inner.output}
    if output is None:
        numeric = [name for name, each in outputs.items() if each.type.HasField("tensor_type")]
        usual = [name for name in OUTPUTS if name in numeric]
        output = usual[0] if usual else numeric[0] if len(numeric) == 1 else None
        if output is None:
            raise ValueError(
                f"the graph has the outputs {', '.join(outputs) or 'none'}: name that of the scores, output=..."
            )
    if output not in outputs:
        raise ValueError(f"the graph has no output {output!r}, but {', '.join(outputs)}")
    if not outputs[output].type.HasField("tensor_type"):
        raise ValueError(
            f"the output {output!r} is not an array: export without ZipMap, to_onnx(..., options={{'zipmap': False}})"
        )
    tensor = outputs[output].type.tensor_type
    sides = [side.dim_value or None for side in tensor.shape.dim] if tensor.HasField("shape") else []
    width = sides[1] if len(sides) == 2 else 1 if len(sides) == 1 else None
    return Graph(inputs, output, width, _is_probable(inner, output), kind)


def check_graph(content: bytes) -> Any:
    """Return the model of a file, or refuse it by name: its size, its operations, and what it refers to."""
    if len(content) >= MOST_BYTES:
        raise ValueError(f"the ONNX graph has {len(content):,} bytes, the most are {MOST_BYTES:,}")
    try:
        model = onnx.ModelProto.FromString(content)
    except Exception as error:
        raise ValueError("it is not an ONNX graph, or it is damaged: export it again") from error
    if not model.graph.node:
        raise ValueError("it is not an ONNX graph, or it is empty: export it again")
    if model.functions:
        raise ValueError(
            "the ONNX graph defines functions of its own, which are not read: inline them with "
            "onnx.inliner.inline_local_functions"
        )
    if model.training_info:
        raise ValueError("the ONNX graph holds a training, which is not read: export it for inference")
    count = 0
    for graph, depth in _graphs(model.graph):
        count += len(graph.node)
        if count > MOST_NODES or depth > DEEPEST:
            raise ValueError(f"the ONNX graph has more than {MOST_NODES:,} operations or {DEEPEST} levels")
        for tensor in _tensors(graph):
            _check_tensor(tensor)
        for node in graph.node:
            _check_node(node)
    return model


def _check_tensor(tensor: Any) -> None:
    if tensor.data_location == TensorProto.EXTERNAL or tensor.external_data:
        raise ValueError(
            f"the ONNX graph has weights in another file ({tensor.name[:40]!r}), which is not read: store them in the "
            "graph, onnx.save(model, path, save_as_external_data=False)"
        )


def _check_node(node: Any) -> None:
    if node.domain not in DOMAINS:
        raise ValueError(
            f"the ONNX graph has the operation {node.domain[:60]}.{node.op_type[:60]}, which is not of the standard: "
            "export without custom or optimised operations"
        )
    if node.op_type in ENDLESS:
        raise ValueError(
            f"the ONNX graph has the operation {node.op_type}, which may never end: export a network without loops"
        )
    if node.op_type in RANDOM:
        raise ValueError(
            f"the ONNX graph has the operation {node.op_type}: its answers would differ each time; export it for "
            "inference, module.eval()"
        )


def _graphs(graph: Any) -> Iterator[tuple[Any, int]]:
    """Yield a graph and all that are in it, with their depth."""
    waiting = [(graph, 0)]
    while waiting:
        result, depth = waiting.pop()
        yield result, depth
        for node in result.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH or attribute.HasField("g"):
                    waiting.append((attribute.g, depth + 1))
                waiting += [(inner, depth + 1) for inner in attribute.graphs]


def _tensors(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from (sparse.values, sparse.indices)
    for node in graph.node:
        for attribute in node.attribute:
            yield attribute.t
            yield from attribute.tensors
            for sparse in (attribute.sparse_tensor, *attribute.sparse_tensors):
                yield from (sparse.values, sparse.indices)


def _input_of(given: Any) -> GraphInput:
    tensor = given.type.tensor_type
    if not given.type.HasField("tensor_type") or tensor.elem_type not in TYPES or not tensor.HasField("shape"):
        raise ValueError(f"the graph's input {given.name[:60]!r} is not an array of numbers or text with known axes")
    sides = [side.dim_value or None for side in tensor.shape.dim]
    if not sides or len(sides) > 5:
        raise ValueError(f"the graph's input {given.name[:60]!r} has {len(sides)} axes: the first is that of samples")
    if sides[0] not in (None, 1):
        raise ValueError(
            f"the graph takes {sides[0]} samples at a time: export it with a dynamic first axis (dynamic_shapes)"
        )
    if math.prod(side or 1 for side in sides) > 1 << 28:
        raise ValueError(f"the graph's input {given.name[:60]!r} has more than {1 << 28:,} values a sample")
    return GraphInput(given.name, TYPES[tensor.elem_type], tuple(sides[1:]), sides[0])


def _kind_of(inputs: Sequence[GraphInput]) -> str:
    one = inputs[0]
    if len(inputs) == 1 and len(one.shape) == 3 and one.dtype is not np.str_:
        _image_shape(one)
        return "images"
    text = any(each.dtype is np.str_ for each in inputs)
    if (len(inputs) > 1 or text) and all(each.shape in ((), (1,)) for each in inputs):
        return "columns"
    if text:
        raise ValueError("the graph takes text in another form than one column for each input, of shape N x 1")
    if len(inputs) == 1 and len(one.shape) == 1 and np.dtype(one.dtype).kind == "f":
        return "table"
    if any(each.size is None for each in inputs):
        raise ValueError(
            "the graph takes arrays of open length: export it with a fixed one (pad tokens to it), only the first axis "
            "dynamic"
        )
    return "arrays"


def _image_shape(given: GraphInput) -> tuple[int, int, int]:
    """Return height, width and channels of the images that a graph takes."""
    sides = given.shape
    if None not in sides and (_channels_first(given) or sides[2] in (1, 3, 4)):
        a, b, c = (int(side or 0) for side in sides)
        return (b, c, a) if _channels_first(given) else (a, b, c)
    raise ValueError(
        f"the graph's input {given.name[:60]!r} has samples of shape {sides}: images have fixed sides and 1, 3 or 4 "
        "channels, first or last"
    )


def _channels_first(given: GraphInput) -> bool:
    return given.shape[0] in (1, 3, 4) and (given.shape[2] not in (1, 3, 4) or np.dtype(given.dtype).kind == "f")


def _is_probable(graph: Any, output: str) -> bool:
    """Return whether an output is made by a softmax, a sigmoid or a classifier, maybe reshaped after it."""
    made_by = {name: node for node in graph.node for name in node.output}
    names, seen = [output], set[str]()
    while names:
        node = made_by.get(names.pop())
        if node is None:
            continue
        if node.op_type in PROBABLE:
            return _gives_probabilities(node)
        if node.op_type in PASSING:
            names += [name for name in node.input if name not in seen]
            seen.update(node.input)
    return False


def _gives_probabilities(node: Any) -> bool:
    """Return whether a node gives probabilities; scikit-learn's converters let boosters end in a link or in none."""
    links = {attribute.name: attribute for attribute in node.attribute}
    if node.op_type in ("LinearClassifier", "SVMClassifier") and "post_transform" in links:
        return links["post_transform"].s in (b"LOGISTIC", b"SOFTMAX", b"SOFTMAX_ZERO") or "prob_a" in links
    return True


# running it


@functools.cache
def _bounded_memory() -> bool:
    """Let sessions share one allocator that gives no more than so much; return whether there is one."""
    place = onnxruntime.OrtMemoryInfo(
        "Cpu", onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, onnxruntime.OrtMemType.DEFAULT
    )
    try:
        onnxruntime.create_and_register_allocator(place, onnxruntime.OrtArenaCfg({"max_mem": MOST_MEMORY}))
    except Exception:
        return False
    return True


def open_session(content: bytes, _: Graph) -> Any:
    """Return a session of a graph that was checked; the second argument is the proof."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    _bounded_memory()
    options.add_session_config_entry("session.use_env_allocators", "1")
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    try:
        # folding computes constants while the graph is loaded, without any limit of time
        return onnxruntime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], disabled_optimizers=["ConstantFolding"]
        )
    except Exception as error:
        raise ValueError(f"onnxruntime does not take the graph: {_line(error)}") from None


def run(session: Any, output: str, feeds: Mapping[str, Any], seconds: float) -> Any:
    """Return an output of a graph; an error after so many seconds, or beyond the memory there is."""
    options = onnxruntime.RunOptions()
    options.log_severity_level = 4
    timer = threading.Timer(seconds, setattr, (options, "terminate", True))
    timer.daemon = True
    timer.start()
    try:
        return session.run([output], dict(feeds), options)[0]
    except Exception as error:
        text = str(error)
        if "terminate flag" in text:
            raise ValueError(f"the graph took more than {seconds:g} seconds for {_rows(feeds)} samples") from None
        if any(sign in text for sign in ("Available memory", "bad_alloc", "Failed to allocate")):
            raise MemoryError from None
        raise ValueError(f"onnxruntime cannot evaluate the graph: {_line(error)}") from None
    finally:
        timer.cancel()


def _rows(feeds: Mapping[str, Any]) -> int:
    return len(next(iter(feeds.values())))


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return "".join(letter if letter.isprintable() else "?" for letter in text)[:200]


def _batch_size(inputs: Sequence[GraphInput]) -> int:
    """Return how many samples go through a graph at a time: fewer of larger ones."""
    if any(each.batch == 1 for each in inputs):
        return 1
    if any(np.dtype(each.dtype).kind == "i" and len(each.shape) for each in inputs):
        return 32  # tokens: what a network makes of each is hundreds of times larger
    return int(np.clip((1 << 20) // max(1, sum(each.size or 64 for each in inputs)), 16, 8192))


# inputs


def _zeros(given: GraphInput, n: int) -> NDArray[Any]:
    sides = [side or 1 for side in given.shape]
    return np.full((n, *sides), "", dtype=object) if given.dtype is np.str_ else np.zeros((n, *sides), given.dtype)


def _cast(given: GraphInput, values: NDArray[Any]) -> NDArray[Any]:
    """Return numbers in the type of an input; whole numbers stay what they are."""
    if given.dtype is np.str_:
        return np.asarray([str(value) for value in values.ravel().tolist()], dtype=object).reshape(values.shape)
    try:
        numbers = values.astype(np.float64)
    except (TypeError, ValueError):
        raise ValueError(f"the graph's input {given.name!r} takes numbers, got text: encode it before") from None
    if np.dtype(given.dtype).kind in "iu":
        info = np.iinfo(given.dtype)
        # float64 cannot hold the largest int64, and indices are far below it
        if not np.isfinite(numbers).all() or (numbers < info.min).any() or (numbers >= info.max).any():
            raise ValueError(f"the graph's input {given.name!r} takes whole numbers, got others")
        if (numbers != np.round(numbers)).any():
            raise ValueError(f"the graph's input {given.name!r} takes whole numbers, got others")
    return numbers.astype(given.dtype)


def _fitting(given: GraphInput, values: NDArray[Any]) -> NDArray[Any]:
    """Return an array of samples in the shape of an input; rows of tokens that are too short get zeros."""
    if values.ndim == 2 and len(given.shape) == 1 and given.shape[0] is not None:
        lacking = given.shape[0] - values.shape[1]
        if lacking > 0 and np.dtype(given.dtype).kind in "iub":
            values = np.pad(values, ((0, 0), (0, lacking)))
    wanted = given.shape
    got = values.shape[1:] if values.ndim else ()
    if len(got) != len(wanted) or any(side not in (None, own) for side, own in zip(wanted, got, strict=True)):
        raise ValueError(f"the graph's input {given.name!r} takes samples of shape {wanted}, got {got}")
    return values


def _column(given: GraphInput, table: Any) -> NDArray[Any]:
    names = table.keys() if isinstance(table, Mapping) else table.columns
    if given.name not in names:
        raise ValueError(f"X lacks the column {given.name!r}, which the graph takes")
    values = np.asarray(table[given.name])
    if given.dtype is np.str_:
        missing = np.asarray([value is None or value != value for value in values.tolist()])  # noqa: PLR0124  NaN
        values = np.where(missing, "", values.astype(object))
    return _cast(given, values).reshape(len(values), *(1 for _ in given.shape))


def _pixels(given: GraphInput, images: NDArray[Any], mean: Any, std: Any) -> NDArray[Any]:
    """Return images in the layout and type of a graph: bytes as they are, or normalised."""
    height, width, channels = _image_shape(given)
    if images.shape[1:] == (channels, height, width) and images.shape[1:] != (height, width, channels):
        images = images.transpose(0, 2, 3, 1)
    if images.shape[1:] != (height, width, channels):
        raise ValueError(
            f"the graph takes images of {height} x {width} pixels and {channels} channels, got an array of shape "
            f"{images.shape}"
        )
    if np.dtype(given.dtype).kind == "f" and images.dtype == np.uint8:
        pixels = images.astype(np.float32) / np.float32(255.0)
        pixels = pixels - np.asarray(0.0 if mean is None else mean, dtype=np.float32)
        images = pixels / np.asarray(1.0 if std is None else std, dtype=np.float32)
    layout = images.transpose(0, 3, 1, 2) if _channels_first(given) else images
    return np.ascontiguousarray(layout, dtype=given.dtype)
