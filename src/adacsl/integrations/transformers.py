"""AdaCSL in the Hugging Face ``Trainer``: one object is loss function, metric and callback.

.. code-block:: python

    cost = AdaptiveCost(AdaptiveWeight(CostMatrix(fp=1, fn=8)))
    Trainer(..., compute_loss_func=cost.loss, compute_metrics=cost.metrics, callbacks=[cost])
"""

from __future__ import annotations

from typing import Any

import numpy as np

from adacsl.core.control import AdaptiveWeight, check_settings
from adacsl.core.costs import CostMatrix
from adacsl.extras import requires

with requires("transformers"):
    import torch
    from torch import Tensor

    # a plain `import transformers` finds missing parts only when they are asked for
    from transformers.trainer_callback import TrainerCallback

    from adacsl.torch.functional import class_logits, class_scores
    from adacsl.torch.losses import AdaptiveCrossEntropy, AdaptiveLoss

STATE = "adacsl"
"""Under this name the state is kept in the checkpoint's trainer_state.json, among those of stateful callbacks."""


class AdaptiveCost(TrainerCallback):
    """Loss function, metric and callback for heads with one or two logits, or K for the costs of K classes.

    Give its parts to the ``Trainer``: ``compute_loss_func=cost.loss``, ``compute_metrics=cost.metrics`` and
    ``callbacks=[cost]``. After each evaluation of a training the controller steps on the predictions that the
    ``Trainer`` has gathered from all processes; ``eval_cost``, ``eval_lambda`` and ``eval_threshold`` (of K classes
    ``eval_lambda_min`` and ``eval_lambda_max``) are logged, so that ``metric_for_best_model="cost"`` with
    ``greater_is_better=False`` selects the cheapest checkpoint. The state is part of the checkpoints and comes back
    with ``resume_from_checkpoint``.

    Parameters
    ----------
    controller : AdaptiveWeight, optional
        Default: that of ``loss``.
    every : int, default 1
        Adapt after every so many evaluations; ``eval_cost`` is logged after each.
    adaptive_loss : AdaptiveLoss, optional
        Default: :class:`~adacsl.torch.AdaptiveCrossEntropy` with the controller.
    costs : CostMatrix, optional
        Costs of each row of the evaluation set, where they differ. Training rows weigh what a second column of their
        labels says: ``costs.row_weights(labels)``.
    """

    def __init__(
        self, controller: AdaptiveWeight | None = None, every: int = 1, *, adaptive_loss: AdaptiveLoss | None = None,
        costs: CostMatrix | None = None,
    ) -> None:  # fmt: skip
        check_settings(controller, every)
        if controller is None and adaptive_loss is None:
            raise TypeError("controller is missing: say AdaptiveCost(AdaptiveWeight(CostMatrix(fp=1, fn=8)))")
        self.adaptive_loss = AdaptiveCrossEntropy(controller) if adaptive_loss is None else adaptive_loss  # type: ignore[arg-type]
        if controller is not None:
            self.adaptive_loss.controller = controller
            self.adaptive_loss.refresh()
        self.every, self.evaluations, self.costs = every, 0, costs
        self._state: Any = None  # the Trainer's, while it trains
        self._measured_at = -1

    @property
    def controller(self) -> AdaptiveWeight:
        """The controller: lambda, history, and ``correct`` for usable probabilities."""
        return self.adaptive_loss.controller

    def loss(self, outputs: Any, labels: Tensor, num_items_in_batch: Tensor | int | None = None) -> Tensor:
        """Return the loss of a batch, as ``Trainer(compute_loss_func=...)`` wants it.

        The sum is divided by ``num_items_in_batch``, the samples of all accumulated batches on all processes:
        gradients come out as those of one large batch.
        """
        logits = outputs["logits"] if isinstance(outputs, dict) else outputs[0]
        if not isinstance(logits, Tensor):
            raise TypeError(f"the model's first output must be its logits, got {type(logits).__name__}")
        weight = None
        if labels.ndim == 2 and labels.shape[1] == 2:
            labels, weight = labels[:, 0].long(), labels[:, 1].float()
        module = self.adaptive_loss.to(logits.device)
        before, module.reduction = module.reduction, "mean" if num_items_in_batch is None else "sum"
        try:
            result: Tensor = module(logits, labels, weight)
        finally:
            module.reduction = before
        return result if num_items_in_batch is None else result / num_items_in_batch

    def metrics(self, prediction: Any) -> dict[str, float]:
        """Return cost, lambda and threshold of an ``EvalPrediction``, as ``Trainer(compute_metrics=...)`` wants them.

        To log others too: ``compute_metrics=lambda p: cost.metrics(p) | own(p)``.
        """
        predictions = prediction.predictions[0] if isinstance(prediction.predictions, tuple) else prediction.predictions
        logits = class_logits(torch.as_tensor(np.asarray(predictions)).float(), self.controller.n_classes)
        labels = np.asarray(prediction.label_ids)
        labels = labels[:, 0] if labels.ndim == 2 and labels.shape[1] == 2 else labels.reshape(-1)
        adapt = self._is_time_to_adapt()
        measured = self.controller.step(class_scores(logits), labels, costs=self.costs, adapt=adapt)
        self.adaptive_loss.refresh()
        self._save()
        return {"cost": measured.cost} | dict(measured.logged)

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
        """From now on evaluations only measure."""
        self._state = None

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


__all__ = ["AdaptiveCost"]
