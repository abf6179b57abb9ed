"""AdaCSL in Keras 3: a loss and a callback, for the torch and JAX backends.

.. code-block:: python

    model.compile("adam", loss=AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8)))                   # 1
    model.fit(x, y, callbacks=[AdaCSLCallback(validation_data=(x_val, y_val))])                  # 2
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from adacsl.adaptive.controller import PLAIN_SETTINGS, AdaCSLController, as_controller, callback_controller
from adacsl.base.arrays import Array
from adacsl.base.extras import requires
from adacsl.base.scores import sigmoid, to_probabilities
from adacsl.costs.matrix import CostMatrix
from adacsl.metrics.bins import QuantileBins, SingleBin, UniformBins
from adacsl.storage.atomic import replace_file

try:
    import keras
    from keras import ops
except ImportError as error:
    if error.name in ("jax", "tensorflow", "torch", "openvino"):
        raise ImportError(
            f"Keras is set to a backend that is not installed ({error.name}): install it, or set the environment "
            "variable KERAS_BACKEND to torch or jax",
            name=error.name,
        ) from None
    with requires("keras"):
        raise

PARTITIONS: dict[str, Any] = {kind.__name__: kind for kind in (SingleBin, UniformBins, QuantileBins)}


@keras.saving.register_keras_serializable("adacsl")
class AdaptiveCrossEntropy(keras.losses.Loss):  # type: ignore[misc]
    """Keras cross-entropy whose class weights a controller adapts, for heads with one, two or K outputs.

    A saved model holds the controller's settings and state: ``keras.saving.load_model`` gives a model that goes on.

    Parameters
    ----------
    costs : CostMatrix or AdaCSLController
        Class-wide costs, or a controller of your own.
    from_logits : bool, default True
        Whether the model gives logits; False for a sigmoid or softmax as last activation.
    reduction : str, default "sum_over_batch_size"
        As of every Keras loss.
    name : str, default "adaptive_cross_entropy"
        Name of the loss.
    dtype : str, optional
        As of every Keras loss.
    **settings : Any
        Passed to :class:`~adacsl.AdaCSLController`: ``target_threshold``, ``partition``, ``damping``, ...

    See Also
    --------
    AdaCSLCallback : Adapts it.

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.keras import AdaptiveCrossEntropy
    >>> loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))
    >>> loss.decide(np.asarray([-1.0, 2.0], dtype="float32")).tolist()
    [0, 1]
    """

    def __init__(
        self,
        costs: CostMatrix | AdaCSLController,
        *,
        from_logits: bool = True,
        reduction: str = "sum_over_batch_size",
        name: str = "adaptive_cross_entropy",
        dtype: Any = None,
        **settings: Any,
    ) -> None:
        super().__init__(name=name, reduction=reduction, dtype=dtype)
        self.controller = as_controller(costs, settings)
        self.from_logits = from_logits
        held = "negative_weight" if self.controller.n_classes == 2 else "class_weights"
        self.held = keras.Variable(self._weight, trainable=False, dtype="float32", autocast=False, name=held)
        setattr(self, held, self.held)

    def call(self, y_true: Array, y_pred: Array) -> Array:
        """Return the loss of each sample."""
        k = self.controller.n_classes
        z = self._logits(y_pred) if k == 2 else self._class_logits(y_pred, k)
        y = ops.reshape(ops.cast(y_true, z.dtype), (-1,))
        if y.shape[0] != z.shape[0]:
            raise ValueError(
                f"one label, {'0 or 1' if k == 2 else f'0 to {k - 1}'}, is needed for each of the {z.shape[0]} "
                f"predictions, got labels of shape {tuple(y_true.shape)}; give class numbers, not one-hot rows"
            )
        known = _known_labels(y, k)
        if k > 2:
            own = ops.one_hot(ops.cast(y, "int32"), k, dtype=z.dtype) * ops.cast(self.class_weights, z.dtype)
            losses = -ops.sum(own * ops.log_softmax(z, axis=-1), axis=-1)
        else:
            weight = ops.cast(self.negative_weight, z.dtype)
            losses = y * ops.softplus(-z) + weight * (1.0 - y) * ops.softplus(z)
        return ops.where(known, losses, float("nan"))

    def scores(self, y_pred: Array) -> np.ndarray[Any, Any]:
        """Return the probabilities that predictions stand for.

        Parameters
        ----------
        y_pred : array of shape (n,), (n, 1), (n, 2) or (n, K)
            Outputs of the model.

        Returns
        -------
        numpy.ndarray of shape (n,) or (n, K)
            Raw scores of the positive class, or of every class.
        """
        raw = np.asarray(y_pred, dtype=np.float64)
        columns = raw.reshape(len(raw), -1)
        if self.controller.n_classes > 2:
            return to_probabilities(columns) if self.from_logits else columns / columns.sum(axis=1, keepdims=True)
        if not self.from_logits:
            return columns[:, -1]
        return sigmoid(columns[:, 0] if columns.shape[1] == 1 else columns[:, 1] - columns[:, 0])

    def decide(self, y_pred: Array, costs: CostMatrix | None = None) -> np.ndarray[Any, Any]:
        """Return the decision for each prediction.

        Parameters
        ----------
        y_pred : array of shape (n,), (n, 1), (n, 2) or (n, K)
            Outputs of the model.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        numpy.ndarray of shape (n,)
            0 or 1; of K classes the class of least expected cost.
        """
        return np.asarray(self.controller.decide(self.scores(y_pred), costs))

    def refresh(self) -> None:
        """Copy the controller's weights into the variable: compiled steps see them at once."""
        if self.controller.n_classes > 2 and self.held.shape != self._weight.shape:
            raise ValueError(
                f"the loss has weights of shape {tuple(self.held.shape)}, its controller {self.controller.n_classes} "
                "classes: make both with the same costs"
            )
        self.held.assign(self._weight)

    @property
    def _weight(self) -> Any:
        return self.controller.weight if self.controller.n_classes == 2 else self.controller.weights

    def get_config(self) -> dict[str, Any]:
        """Return settings and state of the controller, as plain JSON values."""
        controller = self.controller
        kind = type(controller.partition).__name__
        if kind not in PARTITIONS:
            raise ValueError(
                f"a custom partition ({kind}) cannot be saved with the model; "
                "save the weights, or load with compile=False"
            )
        own = {
            "costs": controller.costs.to_json(),
            "from_logits": self.from_logits,
            "settings": json.dumps({name: getattr(controller, name) for name in (*PLAIN_SETTINGS, "bounds")}),
            "partition": {"kind": kind, "bins": getattr(controller.partition, "bins", None)},
            "state": json.dumps(controller.state_dict()),
        }
        return dict(super().get_config()) | own

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> AdaptiveCrossEntropy:
        """Read what :meth:`get_config` wrote."""
        config = dict(config)
        settings, state = json.loads(config.pop("settings")), json.loads(config.pop("state"))
        kind, bins = config["partition"]["kind"], config.pop("partition")["bins"]
        costs = CostMatrix.from_json(config.pop("costs"))
        if costs.n_classes == 2:  # others have none
            settings["partition"] = PARTITIONS[kind]() if bins is None else PARTITIONS[kind](bins)
        settings["bounds"] = tuple(settings["bounds"])
        candidates = state["settings"]["candidates"]
        controller = AdaCSLController(costs, candidates=candidates, **settings)
        controller.load_state_dict(state)
        return cls(controller, **config)

    def _class_logits(self, y_pred: Array, k: int) -> Array:
        if len(y_pred.shape) != 2 or y_pred.shape[1] != k:
            raise ValueError(
                f"the model must have {k} outputs, one for each class, got predictions of shape {tuple(y_pred.shape)}"
            )
        tiny = keras.config.epsilon()
        return y_pred if self.from_logits else ops.log(ops.clip(y_pred, tiny, 1.0))

    def _logits(self, y_pred: Array) -> Array:
        outputs = ops.reshape(y_pred, (y_pred.shape[0], -1))
        if outputs.shape[1] not in (1, 2):
            raise ValueError(
                "the model must have one or two outputs (K classes need K x K costs), "
                f"got predictions of shape {tuple(y_pred.shape)}"
            )
        if not self.from_logits:
            tiny = keras.config.epsilon()
            inside = ops.clip(outputs, tiny, 1.0 - tiny)
            rest = 1.0 - inside if outputs.shape[1] == 1 else inside[:, :1]
            return (ops.log(inside[:, -1:]) - ops.log(rest))[:, 0]
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs[:, 1] - outputs[:, 0]


class AdaCSLCallback(keras.callbacks.Callback):  # type: ignore[misc]
    """Keras callback that steps the controller after every epoch and adapts the model's loss.

    Adds ``val_cost``, ``lambda`` and ``threshold`` (of K classes ``lambda_min`` and ``lambda_max``) to the logs: put it
    before other callbacks, such as ``EarlyStopping(monitor="val_cost", mode="min")``.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix, optional
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``. Default: the loss's own controller.
    every : int, default 1
        Adapt after every so many epochs; ``val_cost`` is logged after each.
    validation_data : (x, y), (x, y, sample_weight), or iterable of such batches
        What is measured. Keras shows callbacks no validation predictions, so they are made here; ``fit`` needs
        ``validation_data`` of its own only for ``val_loss`` and other metrics.
    batch_size : int, optional
        Batch size of the predictions. Default: that of Keras.
    costs : CostMatrix, optional
        Per-sample costs of the validation samples, in their order. Training samples weigh what ``fit`` is given as
        ``sample_weight``: ``costs.row_weights(labels)``.
    resume : path, optional
        A JSON file that keeps the state after each epoch, for ``BackupAndRestore`` and ``fit(initial_epoch=...)``: it
        is read where a training starts at a later epoch. Saved models need none: their loss has the state.

    Examples
    --------
    >>> adapt = AdaCSLCallback(validation_data=(x_val, y_val))  # doctest: +SKIP
    >>> model.fit(x, y, epochs=20, callbacks=[adapt])  # doctest: +SKIP
    """

    def __init__(
        self,
        controller: AdaCSLController | CostMatrix | None = None,
        every: int = 1,
        *,
        validation_data: Any,
        batch_size: int | None = None,
        costs: CostMatrix | None = None,
        resume: str | Path | None = None,
    ) -> None:
        super().__init__()
        self.controller: AdaCSLController | None = callback_controller(controller, every)
        self.every, self.costs = every, costs
        self.validation_data, self.batch_size = validation_data, batch_size
        self.resume = None if resume is None else Path(resume)
        self._loss: AdaptiveCrossEntropy

    def set_model(self, model: Any) -> None:
        """Find the loss; let compiled steps of JAX see its weight."""
        super().set_model(model)
        self._loss = find_adaptive_loss(model)
        if self.controller is None:
            self.controller = self._loss.controller
        self._loss.controller = self.controller
        self._loss.refresh()
        if keras.backend.backend() == "jax":
            _show_to_compiled_steps(model, self._loss.held)

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Note that the first epoch is to come."""
        self._starts = True

    def on_epoch_begin(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Where a training starts at a later epoch, go on from there."""
        if self._starts and epoch > 0 and self.resume is not None and self.resume.exists():
            state = json.loads(self.resume.read_text())
            # the file may be an epoch ahead of the weights, if the run was stopped between the two
            state["history"] = state["history"][: epoch // self.every]
            k = self._loss.controller.n_classes
            name, start = ("lambda_", 1.0) if k == 2 else ("lambdas", [1.0] * k)
            state["lambda"] = state["history"][-1][name] if state["history"] else start
            self._loss.controller.load_state_dict(state)
            self._loss.refresh()
        self._starts = False

    def on_epoch_end(self, epoch: int, logs: dict[str, Any] | None = None) -> None:
        """Measure, adapt and log."""
        if logs is not None and math.isnan(float(logs.get("loss", 0.0))):
            raise ValueError(
                f"the training loss is NaN: {_expected_labels(self._loss.controller.n_classes)}; if they do, look for "
                "NaN among the features, or lower the learning rate"
            )
        scores, labels, weight = self._predictions()
        adapt = (epoch + 1) % self.every == 0
        measured = self._loss.controller.step(scores, labels, costs=self.costs, adapt=adapt, sample_weight=weight)
        self._loss.refresh()
        if logs is not None:
            logs.update({"val_cost": measured.cost} | measured.logged)
        if self.resume is not None:
            replace_file(self.resume, json.dumps(self._loss.controller.state_dict()).encode())

    def _predictions(self) -> tuple[Array, Array, Array | None]:
        if isinstance(self.validation_data, tuple):
            x, y, *weight = self.validation_data
            predicted = self.model.predict(x, batch_size=self.batch_size, verbose=0)
            return self._loss.scores(predicted), _flat(y), _flat(weight[0]) if weight else None
        parts = [
            (self._loss.scores(self.model.predict_on_batch(x)), _flat(y), *map(_flat, weight))
            for x, y, *weight in _batches(self.validation_data)
        ]
        scores, labels, *weights = (np.concatenate(column) for column in zip(*parts, strict=True))
        return scores, labels, weights[0] if weights else None


class _CarriedWeight(keras.metrics.Metric):  # type: ignore[misc]
    """Carries the loss's weight among the variables that Keras hands to the compiled steps of JAX.

    JAX would take any other variable for a constant, and lambda would have no effect after the first step.
    """

    def __init__(self, weight: Any) -> None:
        super().__init__(name="negative_weight")
        self.weight = weight

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        pass

    reset_state = update_state

    def result(self) -> dict[str, Any]:
        return {}  # nothing to show


def find_adaptive_loss(model: Any) -> AdaptiveCrossEntropy:
    """Return the one adaptive loss that a model was compiled with.

    Parameters
    ----------
    model : keras.Model
        The compiled model.

    Returns
    -------
    AdaptiveCrossEntropy
        The loss.

    Raises
    ------
    ValueError
        Where there is none, or more than one.

    Examples
    --------
    >>> import keras
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.keras import AdaptiveCrossEntropy, find_adaptive_loss
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("adam", loss=AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8)))
    >>> find_adaptive_loss(model).from_logits
    True
    """
    losses = keras.tree.flatten(getattr(model, "loss", None))
    result = [loss for loss in losses if isinstance(loss, AdaptiveCrossEntropy)]
    if len(result) != 1 or len(losses) != 1:
        raise LookupError(
            f"the model must be compiled with one AdaptiveCrossEntropy of adacsl.integrations.keras, found "
            f"{', '.join(getattr(loss, 'name', None) or str(loss) for loss in losses) or 'none'}"
        )
    last = model.layers[-1] if model.layers else None
    activation = getattr(getattr(last, "activation", None), "__name__", "")
    if result[0].from_logits and activation in ("sigmoid", "softmax"):
        raise ValueError(
            f"the model ends with a {activation}, but the loss expects logits: "
            "use AdaptiveCrossEntropy(..., from_logits=False), or omit the activation"
        )
    return result[0]


def _expected_labels(k: int) -> str:
    return "labels must lie in [0, 1]" if k == 2 else f"labels must be class numbers from 0 to {k - 1}"


def _known_labels(y: Array, k: int) -> Array:
    """Return which labels are those of a class; raise at once where they can be looked at without waiting.

    The losses of others become NaN: compiled steps and other devices cannot raise.
    """
    known = ops.logical_and(y >= 0, y <= k - 1)
    if k > 2:
        known = ops.logical_and(known, y == ops.floor(y))
    if keras.backend.backend() == "torch" and y.device.type == "cpu":
        import torch  # noqa: PLC0415  the backend has imported it

        if not torch.compiler.is_compiling() and not bool(known.all()):
            raise ValueError(f"{_expected_labels(k)}, got {y[~known][0].item():g}")
    return known


def _show_to_compiled_steps(model: Any, weight: Any) -> None:
    carriers = [metric for metric in model._metrics if isinstance(metric, _CarriedWeight)]
    for carrier in carriers:
        if carrier.weight is not weight:  # of a loss the model had before
            model._metrics.remove(carrier)
    if not any(carrier.weight is weight for carrier in carriers):
        model._metrics.append(_CarriedWeight(weight))


def _batches(data: Any) -> Iterator[Any]:
    if hasattr(data, "__getitem__") and hasattr(data, "__len__"):  # PyDataset
        return (data[number] for number in range(len(data)))
    return iter(data)


def _flat(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(ops.convert_to_numpy(values)).reshape(-1)


__all__ = ["AdaCSLCallback", "AdaptiveCrossEntropy", "find_adaptive_loss"]
