"""AdaCSL in skorch: a criterion and a callback.

.. code-block:: python

    NeuralNetBinaryClassifier(
        net,
        criterion=AdaptiveCrossEntropy, criterion__costs=CostMatrix(fp=1, fn=8),    # 1
        callbacks=[AdaCSLCallback()],                                                 # 2
    )
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from adacsl.adaptive.controller import callback_controller
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix

with requires("skorch"):
    import torch
    from skorch.callbacks import Callback
    from skorch.dataset import unpack_data
    from torch import nn

    from adacsl.torch import losses
    from adacsl.torch.losses import AdaptiveLoss
    from adacsl.torch.samples import Samples


class AdaptiveCrossEntropy(losses.AdaptiveCrossEntropy, nn.BCEWithLogitsLoss):  # type: ignore[misc]
    """The adaptive loss for skorch networks with one output: ``NeuralNetBinaryClassifier``.

    :class:`adacsl.torch.AdaptiveCrossEntropy`, and a ``BCEWithLogitsLoss`` by type: that is how skorch knows that
    ``predict_proba`` needs a sigmoid.

    Parameters
    ----------
    costs : CostMatrix or AdaCSLController
        Class-wide costs, or a controller of your own.
    **settings : Any
        ``reduction`` and settings of the :class:`~adacsl.AdaCSLController`; in skorch ``criterion__target_threshold``,
        ...

    See Also
    --------
    AdaptiveSoftmaxCrossEntropy : Two or K outputs.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.skorch import AdaptiveCrossEntropy
    >>> AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))
    AdaptiveCrossEntropy(negative_weight=0.125, reduction='mean')
    """

    def __init__(self, costs: Any, **settings: Any) -> None:
        super().__init__(costs, **settings)
        if self.n_classes > 2:
            raise ValueError(
                f"these are costs of {self.n_classes} classes: use NeuralNetClassifier(..., "
                "criterion=AdaptiveSoftmaxCrossEntropy) and give the network one output for each"
            )


class AdaptiveSoftmaxCrossEntropy(losses.AdaptiveCrossEntropy, nn.CrossEntropyLoss):  # type: ignore[misc]
    """The adaptive loss for skorch networks with two or K outputs: ``NeuralNetClassifier``.

    ``predict`` takes the most probable class. The class of least expected cost is
    ``net.criterion_.decide(net.forward(X))``.

    Parameters
    ----------
    costs : CostMatrix, list of CostMatrix, AdaCSLController or MultiLabelController
        Class-wide costs, of several labels one matrix for each; or a controller of your own.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of samples that are not ignored.
    ignore_index : int, optional
        Samples with this label do not count. Default: -100 of K classes, as torch's CrossEntropyLoss; none of two.
    label_smoothing : float, default 0.0
        Labels move by this share towards the uniform distribution.
    **settings : Any
        Passed to :class:`~adacsl.AdaCSLController`: ``target_threshold``, ``partition``, ``damping``, ...

    See Also
    --------
    AdaptiveCrossEntropy : One output.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.skorch import AdaptiveSoftmaxCrossEntropy
    >>> AdaptiveSoftmaxCrossEntropy(CostMatrix(fp=1, fn=8))
    AdaptiveSoftmaxCrossEntropy(negative_weight=0.125, reduction='mean')
    """


class AdaCSLCallback(Callback):  # type: ignore[misc]  # skorch ships no types
    """skorch callback that steps the controller after every epoch's validation and adapts the criterion.

    The history gets ``val_cost``, ``val_cost_best``, ``lambda`` and ``threshold`` (of K classes ``lambda_min`` and
    ``lambda_max``; of several labels ``lambda_0``, ``threshold_0`` and so on): put the callback before
    ``EarlyStopping(monitor="val_cost")`` and ``Checkpoint(monitor="val_cost_best")``. A checkpoint's criterion
    holds the controller's state.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix, optional
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``, a list of them for one controller per
        label. Default: the criterion's own controller, which is new in every ``fit``. One given here is copied, and
        starts again too.
    every : int, default 1
        Adapt after every so many epochs; ``val_cost`` is recorded after each.
    costs : CostMatrix, optional
        Per-sample costs of the validation samples, in their order: for a ``train_split`` that is known, such as
        ``predefined_split(dataset)``.

    Examples
    --------
    >>> from skorch import NeuralNetBinaryClassifier
    >>> from torch import nn
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.skorch import AdaCSLCallback, AdaptiveCrossEntropy
    >>> net = NeuralNetBinaryClassifier(
    ...     nn.Linear(2, 1), criterion=AdaptiveCrossEntropy,
    ...     criterion__costs=CostMatrix(fp=1, fn=8), callbacks=[("cost", AdaCSLCallback())])
    """

    def __init__(
        self,
        controller: Any = None,
        every: int = 1,
        *,
        costs: CostMatrix | Sequence[CostMatrix] | None = None,
    ) -> None:
        self.controller, self.every, self.costs = controller, every, costs

    def initialize(self) -> AdaCSLCallback:
        """Reset the state, as the network does."""
        self.controller_ = copy.deepcopy(callback_controller(self.controller, self.every))
        if self.controller_ is not None:
            self.controller_.reset()
        self.seen_: list[Samples] = []
        return self

    def on_train_begin(self, net: Any, X: Any = None, y: Any = None, **kwargs: Any) -> None:  # noqa: N803
        """Give the criterion the controller; go on where a loaded criterion has been."""
        loss = _adaptive_loss(net)
        loss.watched = True
        if self.controller_ is None or self.controller_ is loss.controller:
            return
        if loss.controller.history and not self.controller_.history:
            self.controller_.load_state_dict(loss.controller.state_dict())
        loss.controller = self.controller_
        loss.refresh()

    def on_epoch_begin(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Discard the last epoch's scores."""
        self.seen_ = []

    def on_batch_end(self, net: Any, batch: Any = None, training: bool | None = None, **kwargs: Any) -> None:
        """Collect the scores of validation batches."""
        if training:
            return
        predicted = kwargs["y_pred"]
        logits = predicted[0] if isinstance(predicted, tuple) else predicted
        _, labels = unpack_data(batch)
        self.seen_.append(_adaptive_loss(net).samples(logits.float(), labels))

    def on_epoch_end(self, net: Any, dataset_train: Any = None, dataset_valid: Any = None, **kwargs: Any) -> None:
        """Measure, adapt and record."""
        if not self.seen_:
            raise RuntimeError(
                "AdaCSLCallback needs validation data, but the network has none: "
                "set train_split, for instance ValidSplit(5, stratified=True)"
            )
        seen, self.seen_ = self.seen_, []
        logits, labels = torch.cat([each.logits for each in seen]), torch.cat([each.labels for each in seen])
        weighted = any(each.weight is not None for each in seen)
        weight = torch.cat([each.weights for each in seen]) if weighted else None
        rows, loss = Samples(logits, labels, weight, labels, seen[0].n_labels), _adaptive_loss(net)
        adapt = len(net.history) % self.every == 0
        measured = loss.controller.step(
            rows.scores, rows.labels, costs=self.costs, sample_weight=rows.weight, adapt=adapt
        )
        loss.refresh()
        earlier = [row["val_cost"] for row in net.history if "val_cost" in row]
        net.history.record("val_cost", measured.cost)
        net.history.record("val_cost_best", measured.cost < min(earlier, default=float("inf")))
        for name, value in measured.logged.items():
            net.history.record(name, value)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"seen_": []}


def _adaptive_loss(net: Any) -> AdaptiveLoss:
    criterion = getattr(net.criterion_, "_orig_mod", net.criterion_)  # what torch.compile has wrapped
    if isinstance(criterion, AdaptiveLoss):
        return criterion
    raise LookupError(
        f"the criterion is {type(criterion).__name__}, which cannot be adapted; give criterion=AdaptiveCrossEntropy "
        "(two or more outputs: AdaptiveSoftmaxCrossEntropy) of adacsl.integrations.skorch and "
        "criterion__costs=CostMatrix(...)"
    )


__all__ = ["AdaCSLCallback", "AdaptiveCrossEntropy", "AdaptiveSoftmaxCrossEntropy"]
