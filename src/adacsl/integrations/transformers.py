"""AdaCSL in the Hugging Face ``Trainer``: one object is loss function, metric and callback.

.. code-block:: python

    cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    Trainer(..., compute_loss_func=cost.loss, compute_metrics=cost.metrics, callbacks=[cost])
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from adacsl.adaptive.controller import callback_controller
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix

with requires("transformers"):
    import torch
    from torch import Tensor

    # a plain `import transformers` finds missing parts only when they are asked for
    from transformers.trainer_callback import TrainerCallback

    from adacsl.torch.losses import AdaptiveCrossEntropy, AdaptiveLoss
    from adacsl.torch.samples import IGNORED

STATE = "adacsl"
"""Under this name the state is kept in the checkpoint's trainer_state.json, among those of stateful callbacks."""


class AdaCSLCallback(TrainerCallback):
    """Hugging Face loss, metric and callback for heads of two or K classes or several labels, also per token or pixel.

    Pass its parts to the ``Trainer``: ``compute_loss_func=cost.loss``, ``compute_metrics=cost.metrics`` and
    ``callbacks=[cost]``. After each evaluation of a training the controller steps on the predictions that the
    ``Trainer`` has gathered from all processes; ``val_cost``, ``lambda`` and ``threshold`` (of K classes ``lambda_min``
    and ``lambda_max``; of several labels ``lambda_0``, ``threshold_0`` and so on) are logged, with the ``Trainer``'s
    prefix ``eval_``, so that ``metric_for_best_model="val_cost"`` with ``greater_is_better=False`` selects the
    checkpoint of lowest cost. The state is part of the checkpoints and comes back with ``resume_from_checkpoint``. A
    part that is missing is an error: the callback at the first batch, the metric at the first evaluation; a training
    without evaluations warns when it ends.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix, optional
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``, a list of them for one controller per
        label (``problem_type="multi_label_classification"``). Default: that of ``adaptive_loss``.
    every : int, default 1
        Adapt after every so many evaluations; ``val_cost`` is logged after each.
    adaptive_loss : AdaptiveLoss, optional
        The loss. Default: :class:`~adacsl.torch.AdaptiveCrossEntropy` with the controller and ``ignore_index=-100``.
    costs : CostMatrix, optional
        Per-sample costs of the evaluation set. With ``AdaCSLController(..., instance_weighted=True)`` labels have two
        columns: the label and the weight of the sample, ``costs.row_weights(labels)``.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.transformers import AdaCSLCallback
    >>> cost = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    >>> trainer = Trainer(net, args, train_dataset=train, eval_dataset=validation,
    ...                   compute_loss_func=cost.loss, compute_metrics=cost.metrics,
    ...                   callbacks=[cost])  # doctest: +SKIP
    """

    def __init__(
        self, controller: Any = None, every: int = 1, *,
        adaptive_loss: AdaptiveLoss | None = None, costs: CostMatrix | Sequence[CostMatrix] | None = None,
    ) -> None:  # fmt: skip
        own = callback_controller(controller, every)
        if own is None and adaptive_loss is None:
            raise TypeError("controller is missing: give AdaCSLCallback(CostMatrix(fp=1, fn=8)) or an AdaCSLController")
        # -100 is what the tokenizers' collators pad labels with
        self.adaptive_loss = AdaptiveCrossEntropy(own, ignore_index=IGNORED) if adaptive_loss is None else adaptive_loss
        self.adaptive_loss.watched = True
        if own is not None:
            self.adaptive_loss.controller = own
            self.adaptive_loss.refresh()
        self.every, self.evaluations, self.costs = every, 0, costs
        self._state: Any = None  # the Trainer's, while it trains
        self._measured_at = -1

    @property
    def controller(self) -> Any:
        """The controller: lambda, history, and ``correct`` for usable probabilities."""
        return self.adaptive_loss.controller

    def loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Return the loss of a batch, for ``Trainer(compute_loss_func=...)``.

        The sum is divided by ``num_items_in_batch``, the samples of all accumulated batches on all processes: gradients
        come out as those of one large batch.

        Parameters
        ----------
        outputs : ModelOutput
            Outputs of the model, with ``logits``.
        labels : Tensor of shape (n,) or (n, 2)
            Labels, or labels and weights of the samples.
        num_items_in_batch : Tensor or int, optional
            The number of samples of all accumulated batches on all processes, by which the sum is divided. Default:
            that of this batch.

        Returns
        -------
        Tensor
            A scalar.
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if not isinstance(logits, Tensor):
            raise TypeError(f"the model's first output must be its logits, got {type(logits).__name__}")
        if logits.requires_grad and self._state is None:
            raise RuntimeError(
                "AdaCSLCallback.loss is computed in a training without its callback, so nothing would adapt it: give "
                "the "
                "Trainer callbacks=[cost] too, or in a custom training loop use adacsl.torch.AdaptiveCrossEntropy"
            )
        labels, weight = self._labels_and_weights(labels)
        logits, labels = self._of_tokens(logits, labels)
        module = self.adaptive_loss.to(logits.device)
        before, module.reduction = module.reduction, "mean" if num_items_in_batch is None else "sum"
        try:
            result: Tensor = module(logits, labels, weight)
        finally:
            module.reduction = before
        return result if num_items_in_batch is None else result / num_items_in_batch

    def metrics(self, prediction: Any) -> dict[str, float]:
        """Return cost, lambda and threshold of an ``EvalPrediction``, for ``Trainer(compute_metrics=...)``.

        To log others too: ``compute_metrics=lambda p: cost.metrics(p) | own(p)``.

        Parameters
        ----------
        prediction : EvalPrediction
            Predictions and labels of the whole evaluation set.

        Returns
        -------
        dict
            Metrics by name.
        """
        predictions = _first(prediction.predictions)
        labels, _ = self._labels_and_weights(torch.as_tensor(np.asarray(prediction.label_ids)))
        logits, labels = self._of_tokens(torch.as_tensor(np.asarray(predictions)).float(), labels)
        rows = self.adaptive_loss.samples(logits, labels)
        adapt = self._is_time_to_adapt()
        measured = self.controller.step(
            rows.scores, rows.labels, costs=self.costs, sample_weight=rows.weight, adapt=adapt
        )
        self.adaptive_loss.refresh()
        self._save()
        return {"val_cost": measured.cost} | dict(measured.logged)

    def decide(self, predictions: Any, costs: CostMatrix | None = None) -> np.ndarray[Any, Any]:
        """Return the decision for each row of ``trainer.predict(...).predictions``.

        Parameters
        ----------
        predictions : array of shape (n,), (n, 1), (n, 2) or (n, K)
            Logits.
        costs : CostMatrix, optional
            Per-sample costs of these samples.

        Returns
        -------
        numpy.ndarray of shape (n,)
            0 or 1; of K classes the class of least expected cost.

        Examples
        --------
        >>> import numpy as np
        >>> from adacsl import CostMatrix
        >>> from adacsl.integrations.transformers import AdaCSLCallback
        >>> AdaCSLCallback(CostMatrix(fp=1, fn=8)).decide(np.asarray([-1.0, 2.0])).tolist()
        [0, 1]
        """
        return self.adaptive_loss.decide(torch.as_tensor(np.asarray(_first(predictions))), costs).numpy()

    def _of_tokens(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and labels of tokens, (batch, tokens, classes), as one row per token; others as they are."""
        several = self.adaptive_loss.n_labels is not None
        if logits.ndim == 3 and labels.shape == (logits.shape if several else logits.shape[:2]):
            return logits.flatten(0, 1), labels.flatten(0, 1)
        return logits, labels

    def _labels_and_weights(self, labels: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return labels, and the weights beside them where rows are weighted."""
        columns = labels.shape[1] if labels.ndim == 2 else 1
        if columns == 2 and self.controller.instance_weighted:
            return labels[:, 0], labels[:, 1].float()
        if columns > 1 and self.controller.instance_weighted:
            raise ValueError(f"labels must have two columns, label and weight, or one, got {tuple(labels.shape)}")
        one_hot = columns != 2 or self.adaptive_loss.n_labels is not None or bool((labels.sum(1) == 1).all())
        if not one_hot and bool((labels != IGNORED).all()):
            raise ValueError(
                f"labels must be class numbers, one for each row, or one-hot rows, got shape {tuple(labels.shape)}; "
                "two columns are label and weight with AdaCSLController(..., instance_weighted=True), and several "
                "labels need a list of costs"
            )
        return labels, None

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on from the checkpoint that the Trainer resumes, if there is one."""
        self._state, self._measured_at = state, -1
        if getattr(state, "is_hyper_param_search", False):  # a new trial: a new model
            self.controller.reset()
            self.evaluations = 0
        saved = state.stateful_callbacks.get(STATE) if state.global_step > 0 else None
        if saved is not None:
            self.controller.load_state_dict(saved["controller"])
            self.evaluations = int(saved["evaluations"])
            self._measured_at = state.global_step
        self.adaptive_loss.refresh()
        self._save()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """From now on evaluations only measure; warn, where none has adapted."""
        self._state = None
        if state.global_step > 0 and not self.controller.history:
            why = "there was no evaluation: set eval_strategy='epoch' and give eval_dataset"
            if self.evaluations:
                why = f"there were {self.evaluations} evaluations, and every={self.every} asks for more"
            warnings.warn(f"AdaCSLCallback has never adapted the loss, whose weights were fixed: {why}", stacklevel=2)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Raise where an evaluation of a training has not been measured."""
        if self._state is not None and self._measured_at != state.global_step:
            raise RuntimeError(
                "AdaCSLCallback has not seen the predictions of this evaluation: give the Trainer "
                "compute_metrics=cost.metrics too, and an evaluation set with labels"
            )

    def _is_time_to_adapt(self) -> bool:
        """Whether this is the first evaluation after new steps of a training, and ``every`` has come round."""
        if self._state is None or self._state.global_step == self._measured_at:
            return False  # evaluate() by hand, or a second evaluation set
        self._measured_at = self._state.global_step
        self.evaluations += 1
        return self.evaluations % self.every == 0

    def _save(self) -> None:
        if self._state is not None:
            saved = {"controller": self.controller.state_dict(), "evaluations": self.evaluations}
            self._state.stateful_callbacks[STATE] = saved


def _first(predictions: Any) -> Any:
    """Return the logits, which come first where a model has several outputs."""
    return predictions[0] if isinstance(predictions, tuple) else predictions


__all__ = ["AdaCSLCallback"]
