"""Trained networks: from a table or images to logits, and to arrays that can be stored."""

from __future__ import annotations

import contextlib
import copy
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from adacsl.base.arrays import part_of
from adacsl.datasets.encoder import TableEncoder
from adacsl.datasets.images import resize
from adacsl.fitting.candidates import mean_logits
from adacsl.neural.device import alone, choose_device
from adacsl.neural.learner import SIDE_BY_SIDE, NeuralLearner, table_sizes
from adacsl.torch.augmentation import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.realmlp import RealMLP, check_realmlp_sizes
from adacsl.torch.resnet import Normalise, load_backbone, named_network
from adacsl.torch.tabular import MemberNet, TableNet, check_table_sizes, member_logits

KEPT = ("image_size", "views", "module")
"""Settings that predictions depend on; the last one unless it is code."""
STORED: Mapping[str, tuple[type[MemberNet], Callable[..., None]]] = {
    "TableNet": (TableNet, check_table_sizes), "RealMLP": (RealMLP, check_realmlp_sizes),
}  # fmt: skip
"""Networks of several members by the name they are stored under, and what checks their sizes."""
BLOCK = 8
"""Samples are scored by multiples of so many: libraries round products of fewer otherwise, and a sample's score would
depend on how many others are scored with it."""
LARGEST_IMAGE = 4096
"""Pixels on a side that images are enlarged to."""


class NetModel:
    """Neural networks whose logits are averaged.

    Parameters
    ----------
    net : nn.Module
        A :class:`~adacsl.torch.tabular.MemberNet` of several members, or a list of networks.
    settings : Net
        How they were made.
    encoder : TableEncoder, optional
        Of tables; None for images.
    undone : list of float, or of lists of K float
        What is added to each network's logits: the log of the weight, where it is undone.
    device : str
        Where to predict.
    outputs : int
        Of each network: 1 for two classes, K for K > 2.
    """

    kind = "net"

    def __init__(
        self,
        net: nn.Module,
        settings: NeuralLearner,
        encoder: TableEncoder | None,
        undone: list[Any],
        device: str = "auto",
        outputs: int = 1,
    ) -> None:
        self.net, self.settings, self.encoder, self.undone, self.device = net, settings, encoder, undone, device
        self.outputs = outputs
        self.net.requires_grad_(False).eval()

    def logits(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the mean logits of a table, or of images N x H x W x C: n, or n x K for more than two classes."""
        return self._logits(self.inputs(X))

    def encoded_logits(self, x: NDArray[np.float32]) -> NDArray[np.float64]:
        """Return the logits of samples that the encoder has read."""
        return self._logits(torch.from_numpy(x))

    def _logits(self, x: Tensor) -> NDArray[np.float64]:
        device = torch.device(choose_device(self.device, warn=False))  # fit or load has warned
        prepare = None if self.encoder is not None else preparation(self.settings)
        networks = list(self.net) if isinstance(self.net, nn.ModuleList) else [self.net]
        batch = self.settings.scored_at_once(images=self.encoder is None)
        parts = [predict_logits(net, x, device=device, batch_size=batch, prepare=prepare) for net in networks]
        columns = torch.cat(parts, dim=1).numpy().astype(np.float64)
        return mean_logits([columns[:, i] + np.asarray(undone) for i, undone in enumerate(self.undone)])

    def inputs(self, X: Any) -> Tensor:  # noqa: N803
        """Return the samples as the networks take them."""
        if self.encoder is not None:
            return torch.from_numpy(self.encoder.transform(X))
        pixels, size = torch.from_numpy(np.ascontiguousarray(X)), self.settings.image_size
        return pixels if size is None or pixels.shape[1:3] == (size, size) else resize(pixels, size)

    def numbers(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return everything as tensors and plain values."""
        own = self.encoder is None and (self.settings.module is None or isinstance(self.settings.module, str))
        if isinstance(self.net, MemberNet):
            about: dict[str, Any] = {"name": type(self.net).__name__, **self.net.sizes()}
        elif table_sizes(self.settings.module)[0] == "tabm":
            about = {"name": "tabm", **self.net[0].sizes}  # type: ignore[index]
        else:
            about = {"name": (self.settings.module or "resnet18") if own else "custom"}
            about |= {} if self.outputs == 1 else {"outputs": self.outputs}
        # code is never stored; names and sizes are, for members of an ensemble have no settings elsewhere
        kept = KEPT[:2] if about["name"] == "custom" else KEPT
        return dict(self.net.state_dict()), {
            "net": about, "encoder": None if self.encoder is None else self.encoder.to_dict(), "undone": self.undone,
            "settings": {name: getattr(self.settings, name) for name in kept},
        }  # fmt: skip

    @classmethod
    def from_numbers(
        cls,
        numbers: dict[str, Any],
        document: dict[str, Any],
        settings: NeuralLearner,
        *,
        module: Any = None,
        device: str,
    ) -> NetModel:
        """Return the model of what :meth:`numbers` gave, as arrays or tensors.

        ``module`` is needed where the network was not one of adacsl's.
        """
        tensors = {name: torch.as_tensor(value) for name, value in numbers.items()}
        about, undone = dict(document["net"]), np.asarray(document["undone"], dtype=np.float64).tolist()
        name, outputs = about.pop("name"), int(about.get("outputs", 1))
        encoder = None if document["encoder"] is None else TableEncoder.from_dict(document["encoder"])
        features = 0 if encoder is None else encoder.n_features_out_
        _set_kept(settings, document["settings"])
        if name in STORED:
            made, check = STORED[name]
            check(about, tensors, members=len(undone), n_features=features)
            net: nn.Module = made(**about, members=len(undone), seeds=[0] * len(undone))
        else:
            parts = [part_of(tensors, f"{i}.") for i in range(min(len(undone), len(tensors) + 1))]
            if sum(map(len, parts)) != len(tensors) or not all(parts):
                raise ValueError(f"these are not the weights of {len(undone)} networks")
            make = functools.partial(build_net, settings, features, outputs, images=encoder is None)
            if name == "tabm":
                net = nn.ModuleList(_tabm_of(about, part, features) for part in parts)
            else:
                settings.module = _checked_module(name, module)
                if name != "custom":  # the user's code is not run just to read shapes
                    _check_shapes(make, parts)
                net = nn.ModuleList(make() for _ in parts)
        try:
            net.load_state_dict(tensors)
        except RuntimeError as error:
            raise ValueError(
                f"the saved weights do not fit {type(net).__name__}: {str(error)[:150]}; "
                "give the network it was trained with, load(folder, module=...)"
            ) from error
        return cls(net, settings, encoder, undone, device, outputs)


def _set_kept(settings: NeuralLearner, kept: dict[str, Any]) -> None:
    """Set what :meth:`NetModel.numbers` keeps of the settings; paths and the like are none of it."""
    size = kept.get("image_size")
    if not set(kept) <= set(KEPT) or not (size is None or (type(size) is int and size <= LARGEST_IMAGE)):
        raise ValueError(f"a saved network has {', '.join(KEPT)} up to {LARGEST_IMAGE}, and nothing else")
    settings.set_params(**kept).check()


def _checked_module(name: str, module: Any) -> Any:
    """Return what a network is made with: its name, or code that is never stored."""
    if name == "custom" and module is None:
        raise ValueError(
            "it was trained with a custom network: give it too, load(folder, module=...), or on the command line "
            "--module module:function"
        )
    return module if name == "custom" else name


def _check_shapes(make: Callable[[], nn.Module], parts: Sequence[dict[str, Tensor]]) -> None:
    """Raise where shapes of weights are not the network's, before memory is allocated."""
    # some allocate in any case
    with contextlib.suppress(NotImplementedError, RuntimeError), torch.device("meta"):
        shapes = {name: value.shape for name, value in make().state_dict().items()}
        if any(shapes != {name: value.shape for name, value in part.items()} for part in parts):
            raise ValueError("the shapes of the saved weights are not those of the network")


def predict_logits(
    net: nn.Module, x: Tensor, *, device: torch.device, batch_size: int, prepare: nn.Module | None = None
) -> Tensor:
    """Return logits, rows x members, averaged over heads, in batches."""
    moved = any(parameter.device != device for parameter in net.parameters())
    net = net.to(device) if moved else net
    net = net.eval() if net.training else net
    prepare = None if prepare is None else prepare.to(device).eval()
    block = BLOCK if isinstance(net, MemberNet) and device.type == "cpu" else 1
    out = []
    with torch.inference_mode():
        for start in range(0, len(x), batch_size):
            part = x[start : start + batch_size].to(device)
            given = in_blocks(part, block)
            logits = member_logits(net, given if prepare is None else prepare(given)).float().mean(2)
            out.append(logits[: len(part)].cpu())
    if moved:
        net.to("cpu")
    return torch.cat(out)


def in_blocks(x: Tensor, block: int) -> Tensor:
    """Return samples with the last one repeated until their number is a multiple of ``block``."""
    lacking = -len(x) % block
    return torch.cat((x, x[-1:].expand(lacking, *x.shape[1:]))) if lacking else x


def table_net(kind: str) -> type[Any]:
    """Return the class of a network for tables that trains side by side with others."""
    return dict(zip(SIDE_BY_SIDE, (TableNet, RealMLP), strict=True))[kind]


def outputs_for(n_classes: int) -> int:
    """Return how many outputs a network for so many classes has: one logit for two."""
    return 1 if n_classes == 2 else n_classes


@alone()
def build_net(
    settings: NeuralLearner,
    n_features: int,
    outputs: int = 1,
    *,
    images: bool,
    bins: Mapping[str, Tensor] | None = None,
) -> nn.Module:
    """Return a fresh net: the user's, the default image net, or TabM with the bins of a state."""
    module = settings.module
    kind, sizes = table_sizes(module)
    if images:
        if kind and module is not None:
            raise TypeError(f"module={module!r} is a network for tables, but X holds images")
        module = "resnet18" if module is None else module
        net = named_network(module, outputs) if isinstance(module, str) else _made(module)
        if settings.weights is not None:
            load_backbone(net, settings.weights)
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return FlipAverage(net) if settings.views == 4 else net
    if kind == "tabm" and bins is not None:
        return _tabm({"n_features": n_features, "outputs": outputs, **sizes}, bins)
    if isinstance(module, str):
        raise TypeError(f"module={module!r} names an image network, but X is a table; give a network or a factory")
    return _made(module, n_features)


@alone()
def _tabm(sizes: dict[str, Any], bins: Mapping[str, Tensor]) -> nn.Module:
    from adacsl.integrations.tabm import BinnedTabM  # noqa: PLC0415

    return BinnedTabM(**sizes, numeric=bins["numeric"], borders=bins["borders"])


def _tabm_of(sizes: dict[str, Any], state: Mapping[str, Tensor], n_features: int) -> nn.Module:
    from adacsl.integrations.tabm import check_tabm_sizes  # noqa: PLC0415

    check_tabm_sizes(sizes, state, n_features=n_features)
    return _tabm(sizes, state)


def preparation(settings: NeuralLearner) -> nn.Module:
    """Return the transforms of images before the network: augmentation (in training only) and normalisation."""
    augment = [Augment()] if settings.augment is True else [settings.augment] if settings.augment else []
    return nn.Sequential(ChannelsFirst(), *augment, Normalise())


def _made(module: Any, *args: Any) -> nn.Module:
    """Return a fresh net from a module (copied, with its weights) or a factory."""
    net = copy.deepcopy(module) if isinstance(module, nn.Module) else module(*args)
    if not isinstance(net, nn.Module):
        raise TypeError(f"module must be an nn.Module or a callable that returns one, got {type(net).__name__}")
    return net
