"""AdaCSL in any Lightning module: one callback.

.. code-block:: python

    class Model(LightningModule):
        def __init__(self):
            self.loss = AdaptiveCrossEntropy(CostMatrix(fp=1, fn=8))    # instead of BCEWithLogitsLoss()
            ...

    Trainer(callbacks=[AdaptiveCost()])                                 # the second changed line
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from adacsl.core.control import AdaptiveWeight, check_settings
from adacsl.core.costs import CostMatrix
from adacsl.extras import requires

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

    from adacsl.torch.functional import class_logits, class_scores
    from adacsl.torch.losses import AdaptiveLoss

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


class AdaptiveCost(pl.Callback):
    """Step the controller after every validation and hand its weight to the module's loss.

    The loss, an :class:`~adacsl.torch.AdaptiveLoss` anywhere in the LightningModule, is found by its type. What
    ``validation_step`` passes to it (sample weights too) is collected, merged over all processes without the duplicates
    that distributed sampling pads with, and measured. Logs ``val_cost``, ``lambda`` and ``threshold`` (of K classes
    ``lambda_min`` and ``lambda_max``); its state is part of the checkpoint; sanity checking is ignored.

    Parameters
    ----------
    controller : AdaptiveWeight, optional
        Default: the loss's own.
    every : int, default 1
        Adapt after every so many validations; ``val_cost`` is logged after each.
    costs : CostMatrix, optional
        Costs of each validation row, in their order, where they differ. Training rows weigh what the loss is given as
        ``sample_weight``: ``costs.row_weights(labels)``.
    """

    def __init__(
        self, controller: AdaptiveWeight | None = None, every: int = 1, *, costs: CostMatrix | None = None
    ) -> None:
        check_settings(controller, every)
        self.controller, self.every, self.costs, self.validations = controller, every, costs, 0
        self._seen: list[tuple[Tensor, ...]] = []
        self._collecting = False
        self._hook: Any = None
        self._restored: dict[str, Any] | None = None

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Find the loss and listen to it."""
        if stage != "fit":
            return
        self._loss = find_adaptive_loss(pl_module)
        if self.controller is None:
            self.controller = self._loss.controller
        self._loss.controller = self.controller
        if self._restored is not None:
            self.controller.load_state_dict(self._restored)
            self._restored = None
        self._loss.refresh()
        self._hook = self._loss.register_forward_pre_hook(self._collect, with_kwargs=True)

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Stop listening."""
        if self._hook is not None:
            self._hook = self._hook.remove()

    def on_validation_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Start anew."""
        self._seen.clear()

    def on_validation_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        """Collect from the first validation loader only."""
        self._collecting = trainer.state.fn == "fit" and not trainer.sanity_checking and dataloader_idx == 0

    def on_validation_batch_end(
        self,
        trainer: pl.Trainer,
        pl_module: pl.LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        """Stop collecting, so that training batches stay out."""
        self._collecting = False

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Measure, adapt and log."""
        if trainer.state.fn != "fit" or trainer.sanity_checking:
            return
        if not self._seen:
            raise RuntimeError(
                f"validation_step of {type(pl_module).__name__} never called its {type(self._loss).__name__}, so "
                "there is nothing to adapt to; compute the loss of the validation batches with it"
            )
        logits, labels, *weights = self._merged(trainer)
        self._seen.clear()
        self.validations += 1
        adapt, weight = self.validations % self.every == 0, weights[0] if weights else None
        step = self._loss.controller.step(
            class_scores(logits), labels, costs=self.costs, sample_weight=weight, adapt=adapt
        )
        self._loss.refresh()
        values = {"val_cost": step.cost} | step.logged
        pl_module.log_dict(values, prog_bar=True, sync_dist=trainer.world_size > 1)

    def state_dict(self) -> dict[str, Any]:
        """Return what the checkpoint keeps."""
        state = None if self.controller is None else self.controller.state_dict()
        return {"controller": state, "validations": self.validations}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a checkpoint."""
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
        logits = class_logits(given["logits"].detach().float(), self._loss.controller.n_classes)
        part = [logits, given["targets"].detach().reshape(-1)]
        if given.get("sample_weight") is not None:
            part.append(given["sample_weight"].detach().reshape(-1))
        self._seen.append(tuple(part))

    def _merged(self, trainer: pl.Trainer) -> list[Tensor]:
        """Return logits, labels (and sample weights) of the whole validation set, each sample once, in its order."""
        if len({len(part) for part in self._seen}) > 1:
            raise RuntimeError("the loss got sample_weight for some validation batches only: give it for all or none")
        device = self._seen[0][0].device
        columns = [torch.cat(column).to(device) for column in zip(*self._seen, strict=True)]
        if trainer.world_size == 1:
            return columns
        # samples are dealt to the processes one by one, as cards are
        own = torch.arange(columns[0].shape[0], device=device) * trainer.world_size + trainer.global_rank
        places, *columns = [torch.cat(gather_all_tensors(part)) for part in (own, *columns)]
        order = torch.argsort(places)
        order = order[places[order] < _samples_without_padding(trainer)]
        return [column[order] for column in columns]


class ShardedNet(ModelParallelStrategy):
    """FSDP of one net, ``strategy="fsdp"``: every process holds its part of the weights, and sees the whole when asked.

    Lightning's own FSDP gives the whole net to the first process only, where all keep the cheapest epoch.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False, **settings)

    def setup_environment(self) -> None:
        """Share the weights out among all processes."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def lightning_module_state_dict(self) -> dict[str, Any]:
        """Return the whole net, in every process."""
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

    They are told by their places in the groups, as torch does; weights and biases may be in groups of their own.
    """
    names = {weight: name for name, weight in net.named_parameters()}
    numbers = [number for group in state["param_groups"] for number in group["params"]]
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    called = {number: names[weight] for number, weight in zip(numbers, weights, strict=True)}
    groups = [group | {"params": [called[number] for number in group["params"]]} for group in state["param_groups"]]
    return {"state": {called[number]: own for number, own in state["state"].items()}, "param_groups": groups}


def find_adaptive_loss(module: nn.Module) -> AdaptiveLoss:
    """Return the one adaptive loss inside a module, or raise with what was found instead."""
    found = [m for m in module.modules() if isinstance(m, AdaptiveLoss)]
    if len(found) == 1:
        return found[0]
    kinds = {type(m) for m in module.modules()}
    losses = sorted(k.__name__ for k in kinds if "Loss" in k.__name__ or k.__module__ == AdaptiveLoss.__module__)
    problem = "no adaptive loss" if not found else f"{len(found)} adaptive losses"
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


__all__ = ["AdaptiveCost", "find_adaptive_loss", "pl"]
