"""AdaCSL in any Lightning module: one callback.

.. code-block:: python

    class Model(LightningModule):
        def __init__(self):
            self.loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))    # instead of BCEWithLogitsLoss()
            ...

    Trainer(callbacks=[AdaCSLCallback()])                                 # the second changed line
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from adacsl.adaptive.controller import callback_controller
from adacsl.base.extras import requires
from adacsl.costs.matrix import CostMatrix

with requires("lightning"):
    import torch
    from torch import Tensor, nn
    from torch.distributed.checkpoint.state_dict import (
        StateDictOptions,
        get_model_state_dict,
        set_optimizer_state_dict,
    )
    from torch.distributed.fsdp import fully_shard
    from torch.optim import Optimizer
    from torch.utils.data.distributed import DistributedSampler
    from torchmetrics.utilities.distributed import gather_all_tensors

    from adacsl.torch.losses import AdaptiveLoss
    from adacsl.torch.samples import Samples

# The same code is published as `lightning` and as `pytorch_lightning`: take the one the user's script has imported.
if TYPE_CHECKING:
    import lightning.pytorch as pl
elif sys.modules.get("pytorch_lightning") and "lightning.pytorch" not in sys.modules:
    import pytorch_lightning as pl
else:
    try:
        import lightning.pytorch as pl
    except ImportError:
        with requires("lightning"):
            import pytorch_lightning as pl

ModelParallelStrategy = pl.strategies.ModelParallelStrategy


class AdaCSLCallback(pl.Callback):
    """Lightning callback that steps the controller after every validation and adapts the module's loss.

    The loss, an :class:`~adacsl.torch.AdaptiveLoss` anywhere in the LightningModule, is found by its type. What
    ``validation_step`` passes to it (sample weights too) is collected, merged over all processes without the duplicates
    that distributed sampling pads with, and measured; a loss that is computed twice of the same logits counts once.
    Logs ``val_cost``, ``lambda`` and ``threshold`` (of K classes ``lambda_min`` and ``lambda_max``; of several labels
    ``lambda_0``, ``threshold_0`` and so on, and as ``val_cost`` the sum over the labels); its state is part of the
    checkpoint; sanity checking is ignored. A training without validation data is an error; one that ends before
    the first adaptation warns.

    Parameters
    ----------
    controller : AdaCSLController or CostMatrix, optional
        Adapts the class weights; costs stand for ``AdaCSLController(costs)``, a list of them for one controller per
        label. Default: the loss's own controller.
    every : int, default 1
        Adapt after every so many validations; ``val_cost`` is logged after each.
    costs : CostMatrix, optional
        Per-sample costs of the validation samples, in their order. Training samples weigh what the loss is given as
        ``sample_weight``: ``costs.row_weights(labels)``.

    See Also
    --------
    adacsl.torch.AdaptiveCrossEntropy : The loss.

    Examples
    --------
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.lightning import AdaCSLCallback
    >>> callback = AdaCSLCallback(CostMatrix(fp=1, fn=8))
    >>> trainer = pl.Trainer(callbacks=[callback], max_epochs=3)  # doctest: +SKIP
    """

    def __init__(
        self,
        controller: Any = None,
        every: int = 1,
        *,
        costs: CostMatrix | Sequence[CostMatrix] | None = None,
    ) -> None:
        self.controller: Any = callback_controller(controller, every)
        self.every, self.costs, self.validations = every, costs, 0
        self._seen: list[Samples] = []
        self._batch: Samples | None = None
        self._samples = 0
        self._weighted: set[bool] = set()
        self._collecting = False
        self._hook: Any = None
        self._restored: dict[str, Any] | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find the loss and register a hook on it."""
        if stage != "fit":
            return
        self._loss = find_adaptive_loss(pl_module)
        if self.controller is None:
            self.controller = self._loss.controller
        self._loss.controller, self._loss.watched = self.controller, True
        if self._restored is not None:
            self.controller.load_state_dict(self._restored)
            self._restored = None
        self._loss.refresh()
        self._hook = self._loss.register_forward_pre_hook(self._collect, with_kwargs=True)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Remove the hook."""
        if self._hook is not None:
            self._hook = self._hook.remove()

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raise where there is no validation data."""
        if not trainer.enable_validation:
            raise RuntimeError(
                "AdaCSLCallback needs validation data, but there is none: give trainer.fit(model, train, val), and "
                f"{type(pl_module).__name__} a validation_step that computes the loss"
            )

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Warn where the loss was never adapted."""
        if trainer.is_global_zero and trainer.global_step > 0 and not self._loss.controller.history:
            warnings.warn(
                f"AdaCSLCallback has never adapted the loss, whose weights were fixed: there were {self.validations} "
                f"validations, and every={self.every} asks for more (see check_val_every_n_epoch, val_check_interval)",
                stacklevel=2,
            )

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Reset the state of the callback."""
        self._seen.clear()
        self._weighted.clear()
        self._samples = 0

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Collect from the first validation loader only."""
        self._collecting = trainer.state.fn == "fit" and not trainer.sanity_checking and dataloader_idx == 0
        self._batch = None

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Keep the collected scores, and stop collecting before the next training batch."""
        self._collecting = False
        if self._batch is not None:
            self._seen.append(self._batch)
            self._batch = None

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure, adapt and log."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        if not self._seen:
            raise RuntimeError(
                f"validation_step of {type(pl_module).__name__} never called its {type(self._loss).__name__}, so "
                "there is nothing to adapt to; compute the loss of the validation batches with it"
            )
        rows = self._merged(trainer)
        self._seen.clear()
        self.validations += 1
        adapt = self.validations % self.every == 0
        step = self._loss.controller.step(
            rows.scores, rows.labels, costs=self.costs, sample_weight=rows.weight, adapt=adapt
        )
        self._loss.refresh()
        values = {"val_cost": step.cost} | step.logged
        pl_module.log_dict(values, prog_bar=True, sync_dist=trainer.world_size > 1)

    def state_dict(self) -> dict[str, Any]:
        """Return the state for checkpoints."""
        state = None if self.controller is None else self.controller.state_dict()
        return {"controller": state, "validations": self.validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restore the state from a checkpoint."""
        self.validations = int(state_dict["validations"])
        state = state_dict["controller"]
        if self._hook is None or state is None or self.controller is None:
            self._restored = state
        else:
            self.controller.load_state_dict(state)
            self._loss.refresh()

    def _collect(self, module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not self._collecting:
            return
        given = dict(zip(("logits", "targets", "sample_weight"), args, strict=False)) | kwargs
        logits, weight = given["logits"].float(), given.get("sample_weight")
        self._weighted.add(weight is not None)
        rows = self._loss.samples(logits, given["targets"], weight)
        if self._batch is None:
            self._batch = rows._replace(place=rows.place + self._samples)
            self._samples += len(logits)
        elif not _are_equal(self._batch, rows):
            raise RuntimeError(
                f"validation_step called its {type(module).__name__} twice for one batch, with different logits or "
                "labels, so it is not known which of them count: call it once, with all samples of the batch, and "
                "compute other losses with another module"
            )

    def _merged(self, trainer: pl.Trainer) -> Samples:
        """Return the samples of the whole validation set, each once, in its order."""
        if len(self._weighted) > 1:
            raise RuntimeError("the loss got sample_weight for some validation batches only: give it for all or none")
        device = self._seen[0].logits.device
        if trainer.world_size > 1 or any(part.weight is not None for part in self._seen):
            # ignored and soft labels weigh samples in some batches, and in some processes, only
            self._seen = [part._replace(weight=part.weights) for part in self._seen]
        rows = _joined(self._seen, lambda parts: torch.cat(parts).to(device))
        if trainer.world_size == 1:
            return rows
        # samples are distributed over the processes round-robin
        rows = rows._replace(place=rows.place * trainer.world_size + trainer.global_rank)
        rows = _joined([rows], lambda parts: torch.cat(gather_all_tensors(parts[0])))
        order = torch.argsort(rows.place, stable=True)
        order = order[rows.place[order] < _samples_without_padding(trainer)]
        rows = _joined([rows], lambda parts: parts[0][order])
        return rows._replace(weight=None) if bool((rows.weights == 1.0).all()) else rows


def _joined(parts: list[Samples], join: Callable[[list[Tensor]], Tensor]) -> Samples:
    """Return samples whose columns are joined from those of several parts; there may be no weights."""
    weights = [part.weight for part in parts if part.weight is not None]
    logits, labels = join([part.logits for part in parts]), join([part.labels for part in parts])
    place = join([part.place for part in parts])
    return Samples(logits, labels, join(weights) if weights else None, place, parts[0].n_labels)


def _are_equal(one: Samples, other: Samples) -> bool:
    """Return whether a loss was computed of the same samples."""
    if one.weight is None or other.weight is None:
        weights = one.weight is other.weight
    else:
        weights = torch.equal(one.weight, other.weight)
    return weights and torch.equal(one.logits, other.logits) and torch.equal(one.labels, other.labels)


class ShardedNet(ModelParallelStrategy):
    """FSDP of one network, ``strategy="fsdp"``: every process holds a part of the weights and can gather all.

    Lightning's own FSDP gives the whole net to the first process only, where all store the best epoch.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False, **settings)

    def setup_environment(self) -> None:
        """Share the weights out among all processes."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Return the whole network, in every process."""
        model: Any = self.model
        return get_model_state_dict(model, options=StateDictOptions(full_state_dict=True))

    def load_checkpoint(self, checkpoint_path: Any, weights_only: bool | None = True) -> dict[str, Any]:
        """Read without running code, whoever asks, and whether the weights were shared out before or not."""
        optimizers, self.optimizers = self.optimizers, []  # Lightning takes their weights to be in the net's order
        try:
            checkpoint = super().load_checkpoint(checkpoint_path, weights_only=True)
        finally:
            self.optimizers = optimizers
        model: Any = self.model
        whole = StateDictOptions(full_state_dict=True, broadcast_from_rank0=True)
        for optimizer, state in zip(optimizers, checkpoint["optimizer_states"], strict=True):
            set_optimizer_state_dict(model, optimizer, by_name(state, optimizer, model), options=whole)
        return checkpoint

    def shard(self, net: nn.Module) -> None:
        """Share out a net's weights; those of each block come together when it is its turn."""
        mesh = self.device_mesh["data_parallel"]
        for holder in net.modules():
            if isinstance(holder, nn.Sequential | nn.ModuleList):
                for block in holder:
                    if any(True for _ in block.parameters()) and not isinstance(block, nn.ModuleList | nn.ModuleDict):
                        fully_shard(block, mesh=mesh)
        fully_shard(net, mesh=mesh)


def by_name(state: dict[str, Any], optimizer: Optimizer, net: nn.Module) -> dict[str, Any]:
    """Return an optimizer's state under the names of a net's weights, whatever numbers it was saved under.

    They are identified by their positions in the groups, as in torch; weights and biases may be in groups of their own.
    """
    names = {weight: name for name, weight in net.named_parameters()}
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    called = {number: names[weight] for number, weight in zip(numbers, weights, strict=True)}
    groups = [group | {"params": [called[number] for number in group["params"]]} for group in state["param_groups"]]
    return {"state": {called[number]: own for number, own in state["state"].items()}, "param_groups": groups}


def find_adaptive_loss(module: nn.Module) -> AdaptiveLoss:
    """Return the one adaptive loss inside a module.

    Parameters
    ----------
    module : nn.Module
        Searched with all its submodules.

    Returns
    -------
    AdaptiveLoss
        The loss.

    Raises
    ------
    ValueError
        Where there is none, or more than one.

    Examples
    --------
    >>> from torch import nn
    >>> from adacsl import CostMatrix
    >>> from adacsl.integrations.lightning import find_adaptive_loss
    >>> from adacsl.torch import AdaptiveCrossEntropy
    >>> module = nn.ModuleDict({"loss": AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))})
    >>> find_adaptive_loss(module)
    AdaptiveCrossEntropy(negative_weight=0.125, reduction='mean')
    """
    result = [m for m in module.modules() if isinstance(m, AdaptiveLoss)]
    if len(result) == 1:
        return result[0]
    kinds = {type(m) for m in module.modules()}
    losses = sorted(k.__name__ for k in kinds if "Loss" in k.__name__ or k.__module__ == AdaptiveLoss.__module__)
    problem = "no adaptive loss" if not result else f"{len(result)} adaptive losses"
    raise LookupError(
        f"{problem} in {type(module).__name__}; found losses: {', '.join(losses) or 'none'}. "
        "Keep exactly one AdaptiveCrossEntropy or AdaptiveFocalLoss of adacsl.torch as an attribute of the module"
    )


def _samples_without_padding(trainer: pl.Trainer) -> float:
    """Return how many samples of the first validation loader are no duplicates that fill up the last round."""
    loader: Any = trainer.val_dataloaders
    if isinstance(loader, dict):
        loader = list(loader.values())
    loader = loader[0] if isinstance(loader, list | tuple) else loader
    for holder in (loader, getattr(loader, "batch_sampler", None)):
        sampler: Any = getattr(holder, "sampler", None)
        if isinstance(sampler, DistributedSampler):
            dealt: Any = sampler.dataset
            return len(dealt)
    return float("inf")  # another way of sharding: nothing is known of duplicates, so every sample counts


__all__ = ["AdaCSLCallback", "find_adaptive_loss", "pl"]
