"""The neural learner: how networks are built and trained, and what its defaults stand for.

Settings alone: torch and Lightning are imported when a network is made or trained.
"""

from __future__ import annotations

import inspect
import math
from numbers import Integral
from typing import TYPE_CHECKING, Any

from adacsl.base.arrays import check_whole, number_or_nan
from adacsl.base.extras import requires, resolve
from adacsl.datasets.errors import did_you_mean
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.settings import keeps_settings

if TYPE_CHECKING:
    from torch import nn

    from adacsl.neural.members import Settings

with requires("train"):
    from sklearn.base import BaseEstimator


USUAL = {"epochs", "batch_size", "learning_rate", "weight_decay", "patience", "optimizer"}

SIZES: dict[str, dict[str, Any]] = {
    "tablenet": {"bins": 0, "heads": 1, "width": 64, "depth": 2, "dropout": 0.1},
    "realmlp": {"width": 128, "depth": 3, "dropout": 0.25, "frequencies": 16, "embedding": 3, "sigma": 0.1},
    "tabm": {"k": 8, "n_blocks": 2, "d_block": 128, "dropout": 0.1, "n_bins": 32, "d_embedding": 8},
}
"""Networks for tables whose sizes can be chosen, and the defaults."""

SIDE_BY_SIDE = ("tablenet", "realmlp")
"""Those of which many train as one batched computation."""


class NeuralLearner(BaseEstimator):
    """Settings of a neural network and its training; use it as ``learner=NeuralLearner(epochs=30)``.

    What "auto" stands for depends on the kind of data and the number of samples, see
    :func:`~adacsl.neural.learner.defaults_for`.

    Parameters
    ----------
    module : nn.Module, callable, dict or str, optional
        For tables: a network, or a factory called with the number of encoded features, with one logit per sample (or
        two; for K > 2 classes K); a dict of sizes of :class:`~adacsl.torch.tabular.TableNet` (``{"bins": 16, "heads":
        4, "width": 128}``); ``"realmlp"``, or ``{"kind": "realmlp", "width": 256, "dropout": 0.1}``, sizes of
        :class:`~adacsl.torch.realmlp.RealMLP`; ``"tabm"``, or ``{"kind": "tabm", "k": 32, "n_blocks": 3, "d_block":
        256, "n_bins": 48}`` (extra ``tabm``). For images: a network, a factory called without arguments, or a name
        (``"resnet18"``, ``"timm:..."``, ``"torchvision:..."``); it gets normalised images of three channels. Default:
        :class:`~adacsl.torch.tabular.TableNet` or ResNet-18.
    epochs : int or "auto", default "auto"
        Epochs at most.
    batch_size : int or "auto", default "auto"
        Samples per batch.
    learning_rate : float or "auto", default "auto"
        Learning rate of the optimizer.
    weight_decay : float or "auto", default "auto"
        Weight decay of the optimizer.
    optimizer : {"auto", "adamw", "sgd"} or callable, default "auto"
        The optimizer; a callable gets parameters and learning rate.
    patience : int, None or "auto", default "auto"
        Stop after so many epochs without a better one; None: no early stopping.
    schedule : {"auto", "cosine", "constant", "warm-constant"}, default "auto"
        Schedule of the learning rate: warm-up and cosine decay, constant, or constant after a short warm-up. "auto" is
        "warm-constant" for ``"realmlp"``, else "cosine".
    every : int, optional
        Adapt after every so many batches instead of once per epoch.
    weights : path, optional
        Local weights (.safetensors, .pth) of the backbone for images.
    image_size : int, optional
        Side to which images are resized; Default: arrays keep their size, files become 64 x 64. Small images may be
        enlarged for a backbone that was trained on large ones; training then takes longer.
    augment : bool or nn.Module, default True
        Random flips and small shifts of training images, on the device; or a module, such as ``Augment(rotate=True)``,
        that maps a (B, C, H, W) batch of bytes to another.
    views : {1, 4}, default 1
        4 averages the network's logits over the four flips of each image when predicting.
    precision : str or int, default "auto"
        Lightning's precision; "auto" is bf16-mixed on CUDA.
    trainer : dict, optional
        Further arguments of Lightning's ``Trainer``: strategies, devices, nodes, loggers, callbacks.

    Raises
    ------
    ValueError
        In ``fit``, where a setting is out of range.

    See Also
    --------
    adacsl.neural.learner.defaults_for : What "auto" stands for.
    adacsl.torch.tabular.TableNet : The network for tables.

    Examples
    --------
    >>> from adacsl import CostMatrix, CostSensitiveClassifier
    >>> from adacsl.neural import NeuralLearner
    >>> learner = NeuralLearner(epochs=30)
    >>> model = CostSensitiveClassifier(CostMatrix(fp=1, fn=8), learner=learner)
    >>> model.set_params(learner__epochs=5).learner.epochs
    5
    """

    tables_only = False
    trained_by = "adacsl.neural.fit:fit_networks"
    keeps_parts = True

    @keeps_settings
    def __init__(
        self,
        module: Any = None,
        *,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        learning_rate: float | str = "auto",
        weight_decay: float | str = "auto",
        optimizer: Any = "auto",
        patience: int | str | None = "auto",
        schedule: str = "auto",
        every: int | None = None,
        weights: Any = None,
        image_size: int | None = None,
        augment: bool | nn.Module = True,
        views: int = 1,
        precision: Any = "auto",
        trainer: dict[str, Any] | None = None,
    ) -> None:
        """Keep the settings."""

    def check(self) -> None:
        """Raise where settings make no sense, before data are read."""
        with requires("train"):
            import torch  # noqa: F401, PLC0415  what trains with these settings needs it
        check_sizes(*table_sizes(self.module))
        if not (self.module is None or isinstance(self.module, str | dict) or callable(self.module)):
            raise TypeError(
                f"module must be a network, a callable that makes one, a dict of sizes or a name, got {self.module!r}"
            )
        self._check_training()
        if self.views not in (1, 4):
            raise ValueError(f"views must be one of 1, 4, got {self.views!r}")
        if self.schedule not in ("auto", "cosine", "constant", "warm-constant"):
            raise ValueError(f"schedule must be 'auto', 'cosine', 'constant' or 'warm-constant', got {self.schedule!r}")
        if self.every is not None and (not isinstance(self.every, Integral) or self.every < 1):
            raise ValueError(f"every must be None or a number of batches from 1, got {self.every!r}")
        if self.image_size is not None and not number_or_nan(self.image_size) >= 8:
            raise ValueError(f"image_size must be None or a side of at least 8 pixels, got {self.image_size!r}")
        if self.optimizer not in ("auto", "adamw", "sgd") and not callable(self.optimizer):
            raise ValueError(f"optimizer must be 'adamw', 'sgd' or a callable, got {self.optimizer!r}")
        if str(self.precision).startswith("64"):
            raise ValueError(
                f"precision={self.precision!r} is not supported: networks train in 32 bits, or mixed with 16"
            )
        asked = (self.trainer or {}).get("strategy", "")
        strategy = asked if isinstance(asked, str) else type(asked).__name__
        if strategy in ("FSDPStrategy", "ModelParallelStrategy", "fsdp_cpu_offload"):
            raise ValueError(
                f"strategy={strategy!r} shows the whole network to one process, or to none, but each keeps the best "
                "epoch: use 'fsdp', or 'ddp'"
            )
        if any(kind in strategy for kind in ("spawn", "fork", "notebook")):
            raise ValueError(
                f"strategy={strategy!r} trains in processes that end with the fit and take the networks with them; "
                "use 'ddp', which runs the script in every process"
            )

    def _check_training(self) -> None:
        """Raise where epochs, rates or arguments of the trainer make no sense."""
        for name in ("epochs", "batch_size", "patience"):
            value = getattr(self, name)
            whole = isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= 1
            if not (whole or _is_auto(value) or (name == "patience" and value is None)):
                raise ValueError(f"{name} must be 'auto' or a whole number of at least 1, got {value!r}")
        for name in ("learning_rate", "weight_decay"):
            value = getattr(self, name)
            if not (_is_auto(value) or 0.0 <= number_or_nan(value) < math.inf):
                raise ValueError(f"{name} must be 'auto' or a number from 0, got {value!r}")
        check_trainer(self.trainer)

    def changed(self) -> dict[str, Any]:
        """Return the settings that differ from the defaults."""
        usual = type(self)().get_params(deep=False)
        return {name: value for name, value in self.get_params(deep=False).items() if value != usual[name]}

    def adapts(self, candidate: Candidate) -> bool:
        """Return whether "auto" adapts: with two classes, and on images.

        On tables of more classes adapting cost more than it saved (``benchmarks/quality/class_tables.py``).
        """
        many = candidate.costs.n_classes > 2 and not candidate.images
        return not (many and isinstance(candidate.method.controller, str))

    def settings(self, n: int, *, images: bool, device: str, verbose: bool) -> Settings:
        """Return the settings of the training loop for so many training samples."""
        from adacsl.neural.device import choose_device  # noqa: PLC0415  torch
        from adacsl.neural.members import Settings  # noqa: PLC0415  torch

        kind = "" if images else table_sizes(self.module)[0]
        chosen = defaults_for(n, images=images, kind=kind)
        chosen |= {name: getattr(self, name) for name in USUAL if not _is_auto(getattr(self, name))}
        chosen.pop("patience")
        schedule = self.schedule if not _is_auto(self.schedule) else "warm-constant" if kind == "realmlp" else "cosine"
        return Settings(
            **chosen, schedule=schedule, device=choose_device(device), precision=self.precision, verbose=verbose,
            trainer=dict(self.trainer or {}), evaluation_batch_size=self.scored_at_once(images=images),
            gradient_clip=None if images else 1.0, weight_average=0.995 if kind == "realmlp" else 0.0,
        )  # fmt: skip

    def scored_at_once(self, *, images: bool) -> int:
        """Return how many samples are scored in one pass: its memory grows with the heads."""
        kind, sizes = table_sizes(self.module)
        if kind == "realmlp":  # the embeddings of all numbers are held at once
            return 1024
        return 1024 if images else max(1024, 16384 // (sizes.get("heads") or sizes.get("k") or 1))

    def patience_for(self, n: int, *, images: bool) -> int | None:
        """Return after how many epochs without a better one training ends."""
        kind = "" if images else table_sizes(self.module)[0]
        chosen = defaults_for(n, images=images, kind=kind)["patience"] if _is_auto(self.patience) else self.patience
        return None if chosen is None else int(chosen)


def check_neural(given: Any) -> NeuralLearner:
    """Return the settings that a parameter ``neural`` holds; refuse anything else."""
    if not isinstance(given, NeuralLearner):
        raise TypeError(f"neural must be a NeuralLearner, such as NeuralLearner(epochs=30), got {given!r}")
    learner: NeuralLearner = given
    return learner


def check_trainer(options: Any) -> None:
    """Raise unless these are arguments of Lightning's Trainer by name, or none."""
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"trainer must be a dict of arguments of Lightning's Trainer, got {options!r}")
    if not options:
        return
    known = inspect.signature(resolve("adacsl.integrations.lightning:pl").Trainer).parameters
    if unknown := [name for name in options if name not in known]:
        raise ValueError(f"Lightning's trainer has no argument {unknown[0]!r}{did_you_mean(unknown[0], known)}")


MIN_STEPS = 2000
"""Steps of the optimizer that a RealMLP takes at least, however small the table."""


def defaults_for(n: int, *, images: bool, kind: str = "") -> dict[str, Any]:
    """Return the settings that "auto" stands for.

    Parameters
    ----------
    n : int
        The number of training samples.
    images : bool
        Whether the samples are images.
    kind : str, default ""
        Of network for tables: "tablenet", "realmlp" or "tabm"; "" for another.

    Returns
    -------
    dict
        Settings of :class:`~adacsl.neural.NeuralLearner` by name.

    Examples
    --------
    >>> from adacsl.neural.learner import defaults_for
    >>> defaults_for(1000, images=False)["batch_size"]
    32
    """
    if images:
        return {
            "epochs": 15, "batch_size": 64, "learning_rate": 3e-4, "weight_decay": 0.05, "patience": None,
            "optimizer": "adamw"
        }  # fmt: skip
    # small batches keep cross-fitting cheap: a batched step of five networks then costs little more than one network's
    # and with very many samples large ones: a step of four times the samples takes hardly twice the time
    batch = int(min(max(2 ** round(math.log2(max(n, 1) / 32)), 32), 256 if n < 50_000 else 1024))
    if kind == "realmlp":
        epochs = max(40, math.ceil(MIN_STEPS / math.ceil(max(n, 1) / batch)))
        return {
            "epochs": epochs, "batch_size": batch, "learning_rate": 0.015, "weight_decay": 0.02,
            "patience": epochs // 2, "optimizer": "adamw",
        }  # fmt: skip
    epochs = int(min(max(3000 * batch // max(n, 1), 15), 60))
    patience = max(10, epochs // 3)
    if kind == "tabm":  # its epochs take ten times as long, and a quarter of them is enough
        epochs = max(10, epochs // 4)
    return {
        "epochs": epochs, "batch_size": batch, "learning_rate": 2e-3, "weight_decay": 0.1, "patience": patience,
        "optimizer": "adamw",
    }  # fmt: skip


def table_sizes(module: Any) -> tuple[str, dict[str, Any]]:
    """Return which of the networks for tables a ``module`` stands for ("" where it is another) and its sizes.

    Examples
    --------
    >>> table_sizes({"bins": 16})
    ('tablenet', {'bins': 16, 'heads': 1, 'width': 64, 'depth': 2, 'dropout': 0.1})
    """
    if isinstance(module, str):
        return (module, SIZES[module]) if module in SIZES else ("", {})
    if not (module is None or isinstance(module, dict)):
        return "", {}
    given = {"kind": "tablenet"} | (module or {})
    if given["kind"] not in SIZES:
        return "", given
    kind = given.pop("kind")
    return kind, SIZES[kind] | given


def check_sizes(kind: str, sizes: dict[str, Any]) -> None:
    """Raise where a size is none of such a network's."""
    known = SIZES.get(kind, {})
    for name, size in sizes.items():
        if name not in known:
            there = f"{kind} has {', '.join(known)}" if known else f"kind is one of {', '.join(SIZES)}"
            raise ValueError(f"module has no size {name!r}: {there}")
        if name == "dropout" and not 0.0 <= number_or_nan(size) < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {size!r}")
        if name == "sigma" and not 0.0 < number_or_nan(size) < math.inf:
            raise ValueError(f"sigma must be a number above 0, got {size!r}")
        if name not in ("dropout", "sigma"):
            check_whole(name, size, {"bins": 0, "n_bins": 2}.get(name, 1))


def _is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"
