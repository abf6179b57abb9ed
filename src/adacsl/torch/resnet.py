"""The default image network: a ResNet whose state-dict keys equal torchvision's, and local weights for it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacsl.base.extras import requires

IMAGENET_MEAN = (0.485, 0.456, 0.406)
IMAGENET_STD = (0.229, 0.224, 0.225)


class WeightsError(ValueError):
    """A weight file cannot be read, or does not fit the network."""


# the network


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions and a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Sequential | None = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Return the block's output, of the same or half the side."""
        shortcut = x if self.downsample is None else self.downsample(x)
        hidden = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(hidden)) + shortcut, inplace=True)


class ResNet(nn.Module):
    """A residual network of basic blocks: ``ResNet()`` is ResNet-18, ``ResNet((3, 4, 6, 3))`` is ResNet-34.

    Parameters
    ----------
    blocks : tuple of four int, default (2, 2, 2, 2)
        Blocks per stage.
    num_outputs : int, default 1
        Width of the head: 1 is one logit for two classes; K for K > 2.

    See Also
    --------
    resnet18 : With the backbone of a local weight file.

    Notes
    -----
    Takes normalised float images (B, 3, H, W) of any size from 32 x 32 (:class:`Normalise`). Fastest on a GPU in
    channels-last layout: ``net.to(memory_format=torch.channels_last)``.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.resnet import ResNet
    >>> ResNet()(torch.zeros(2, 3, 32, 32)).shape
    torch.Size([2, 1])
    """

    def __init__(self, blocks: tuple[int, int, int, int] = (2, 2, 2, 2), num_outputs: int = 1) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, 2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.layer1 = _stage(64, 64, blocks[0], stride=1)
        self.layer2 = _stage(64, 128, blocks[1], stride=2)
        self.layer3 = _stage(128, 256, blocks[2], stride=2)
        self.layer4 = _stage(256, 512, blocks[3], stride=2)
        self.fc = nn.Linear(512, num_outputs)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def features(self, x: Tensor) -> Tensor:
        """Return the 512 pooled features of each image.

        Parameters
        ----------
        x : Tensor of shape (B, 3, H, W)
            Normalised images.

        Returns
        -------
        Tensor of shape (B, 512)
            Features.
        """
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x)), inplace=True), 3, stride=2, padding=1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return x.mean(dim=(2, 3))

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits.

        Parameters
        ----------
        x : Tensor of shape (B, 3, H, W)
            Normalised images.

        Returns
        -------
        Tensor of shape (B, num_outputs)
            Logits.
        """
        return cast("Tensor", self.fc(self.features(x)))


def _stage(inputs: int, outputs: int, blocks: int, stride: int) -> nn.Sequential:
    first = BasicBlock(inputs, outputs, stride)
    return nn.Sequential(first, *(BasicBlock(outputs, outputs, 1) for _ in range(blocks - 1)))


def resnet18(num_outputs: int = 1, weights: str | Path | None = None) -> ResNet:
    """Return a ResNet-18.

    Parameters
    ----------
    num_outputs : int, default 1
        Width of the head: 1 is one logit for two classes; K for K > 2.
    weights : path, optional
        A local weight file for the backbone, see :func:`load_backbone`. Default: fresh weights.

    Returns
    -------
    ResNet
        The network.

    Examples
    --------
    >>> from adacsl.torch.resnet import resnet18
    >>> resnet18(num_outputs=3).fc
    Linear(in_features=512, out_features=3, bias=True)
    """
    net = ResNet(num_outputs=num_outputs)
    if weights is not None:
        load_backbone(net, weights)
    return net


# pixels to floats


class Normalise(nn.Module):
    """Module that turns bytes into ImageNet-normalised float32; grey images become three channels.

    The constants are buffers, so a training step copies nothing from the host; they are no part of the state dict.

    Parameters
    ----------
    mean : tuple of float, default (0.485, 0.456, 0.406)
        Mean of each channel.
    std : tuple of float, default (0.229, 0.224, 0.225)
        Standard deviation of each channel.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.resnet import Normalise
    >>> Normalise()(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).shape
    torch.Size([2, 3, 32, 32])
    """

    scale: Tensor
    shift: Tensor

    def __init__(self, mean: tuple[float, ...] = IMAGENET_MEAN, std: tuple[float, ...] = IMAGENET_STD) -> None:
        super().__init__()
        centre, spread = torch.tensor(mean).view(1, -1, 1, 1), torch.tensor(std).view(1, -1, 1, 1)
        self.register_buffer("scale", 1.0 / (255.0 * spread), persistent=False)
        self.register_buffer("shift", -centre / spread, persistent=False)

    def forward(self, images: Tensor) -> Tensor:
        """Return ``(images / 255 - mean) / std``; the layout is kept.

        Parameters
        ----------
        images : Tensor of shape (B, 1, H, W) or (B, 3, H, W)
            Bytes.

        Returns
        -------
        Tensor of shape (B, 3, H, W)
            Normalised images.
        """
        channels = self.scale.shape[1]
        if images.ndim != 4 or images.shape[1] not in (1, channels):
            raise ValueError(f"images must have shape (B, 1 or {channels}, H, W), got {tuple(images.shape)}")
        return torch.addcmul(self.shift, images.to(self.scale.dtype), self.scale)


def normalise(images: Tensor) -> Tensor:
    """Return a batch of bytes as normalised images; in a training loop keep a ``Normalise`` module instead.

    Parameters
    ----------
    images : Tensor of shape (B, 1, H, W) or (B, 3, H, W)
        Bytes.

    Returns
    -------
    Tensor of shape (B, 3, H, W)
        Normalised images.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.resnet import normalise
    >>> normalise(torch.zeros(2, 1, 32, 32, dtype=torch.uint8)).dtype
    torch.float32
    """
    return cast("Tensor", Normalise().to(images.device)(images))


# networks by name


def named_network(name: str, num_outputs: int = 1) -> nn.Module:
    """Return a network by name, with fresh weights: nothing is ever downloaded.

    Parameters
    ----------
    name : str
        ``"resnet18"`` and ``"resnet34"`` are built in; ``"timm:convnext_tiny"`` and ``"torchvision:resnet50"`` need the
        package named before the colon.
    num_outputs : int, default 1
        Width of the head.

    Returns
    -------
    torch.nn.Module
        The network.

    Raises
    ------
    ValueError
        Where there is no such network.

    See Also
    --------
    load_backbone : Loads local weights.

    Examples
    --------
    >>> from adacsl.torch.resnet import named_network
    >>> named_network("resnet18").fc
    Linear(in_features=512, out_features=1, bias=True)
    """
    package, _, model = name.rpartition(":")
    if package in PACKAGES:
        return _network_of(package, model, num_outputs)
    if package == "" and model in OWN_NETWORKS:
        return ResNet(OWN_NETWORKS[model], num_outputs)
    raise ValueError(
        f"there is no network {name!r} here: give {' or '.join(map(repr, OWN_NETWORKS))}, or 'timm:NAME' "
        f"(pip install timm) or 'torchvision:NAME' (pip install torchvision), such as 'timm:{model or 'convnext_tiny'}'"
    )


OWN_NETWORKS: dict[str, tuple[int, int, int, int]] = {"resnet18": (2, 2, 2, 2), "resnet34": (3, 4, 6, 3)}
PACKAGES = {"timm": "timm", "torchvision": "torchvision.models"}
"""Packages with networks, and the module that has them."""


def _network_of(package: str, model: str, num_outputs: int) -> nn.Module:
    try:
        models: Any = importlib.import_module(PACKAGES[package])
    except (ImportError, RuntimeError) as error:  # torchvision beside another build of torch: a RuntimeError
        raise ImportError(f"{package} cannot be imported ({error}): pip install {package}") from error
    if not (models.is_model(model) if package == "timm" else model in models.list_models(module=models)):
        where = f"{PACKAGES[package]}.list_models()"
        raise ValueError(f"{package} has no classification model {model!r}; {where} names all it has")
    if package == "timm":
        return cast("nn.Module", models.create_model(model, pretrained=False, num_classes=num_outputs))
    return cast("nn.Module", models.get_model(model, weights=None, num_classes=num_outputs))


# local weights


def load_backbone(net: nn.Module, path: str | Path) -> tuple[str, ...]:
    """Load local weights into a network; a head of another width is left out and the fresh one kept.

    Parameters
    ----------
    net : nn.Module
        Any network; its last linear layer is taken for the head.
    path : path
        A ``.safetensors`` file, or a ``.pth`` / ``.pt`` file (read with ``weights_only=True``: it can run no code).
        Half-precision tensors are cast to the network's dtype.

    Returns
    -------
    tuple of str
        Keys of the head that were not loaded; empty where the whole file fitted.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    WeightsError
        The file is damaged, or keys other than the head's do not fit.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from adacsl.torch.resnet import ResNet, load_backbone
    >>> net = ResNet()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(net.state_dict(), f"{folder}/resnet18.pth")
    ...     load_backbone(ResNet(num_outputs=3), f"{folder}/resnet18.pth")
    ('fc.weight', 'fc.bias')
    """
    result = read_weights(path)
    wanted = net.state_dict()
    fresh = _other_head(net, result, wanted)
    chosen = {k: v for k, v in result.items() if k not in fresh}
    _check_fit(path, chosen, wanted, fresh)
    net.load_state_dict({k: v.to(wanted[k].dtype) for k, v in chosen.items()}, strict=False)
    return fresh


def read_weights(path: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a ``.safetensors``, ``.pth`` or ``.pt`` file, on the CPU.

    Parameters
    ----------
    path : path
        The file; ``.pth`` and ``.pt`` are read with ``weights_only=True``: they can run no code.

    Returns
    -------
    dict
        Tensors by name.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    WeightsError
        The file is damaged.

    Examples
    --------
    >>> import tempfile
    >>> import torch
    >>> from adacsl.torch.resnet import read_weights
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save({"weight": torch.ones(2)}, f"{folder}/weights.pth")
    ...     read_weights(f"{folder}/weights.pth")
    {'weight': tensor([1., 1.])}
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no weight file {path}: give a local .safetensors, .pth or .pt file")
    if path.suffix == ".safetensors":
        return _read_safetensors(path)
    if path.suffix in (".pth", ".pt"):
        return _read_pickled(path)
    raise WeightsError(f"{path.name} must end in .safetensors, .pth or .pt")


def _read_pickled(path: Path) -> dict[str, Tensor]:
    try:
        content = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged zip or pickle raises anything
        line = str(error).split("\n", maxsplit=1)[0]
        raise WeightsError(f"{path.name} is damaged or holds more than tensors ({line}): get the file again") from error
    while isinstance(content, Mapping) and isinstance(content.get("state_dict", content.get("model")), Mapping):
        content = content.get("state_dict", content.get("model"))  # as training scripts wrap it
    if not isinstance(content, Mapping) or not all(isinstance(v, Tensor) for v in content.values()):
        raise WeightsError(f"{path.name} holds no state dict (a mapping of names to tensors)")
    return {str(key).removeprefix("module."): tensor for key, tensor in content.items()}


def _read_safetensors(path: Path) -> dict[str, Tensor]:
    with requires("train"):
        from safetensors import SafetensorError  # noqa: PLC0415  only this file format needs it
        from safetensors.torch import load_file  # noqa: PLC0415
    try:
        return load_file(path)
    except (SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise WeightsError(f"{path.name} is not a complete safetensors file ({error}): get the file again") from error


def _other_head(net: nn.Module, result: dict[str, Tensor], wanted: dict[str, Tensor]) -> tuple[str, ...]:
    """Return the head's keys if the file has none, or one that differs in width only."""
    linear = [name for name, module in net.named_modules() if isinstance(module, nn.Linear)]
    keys = [k for k in wanted if linear and k.rpartition(".")[0] == linear[-1]]
    fits = all(k in result and result[k].shape[1:] == wanted[k].shape[1:] for k in keys)
    other_width = fits and any(result[k].shape != wanted[k].shape for k in keys)
    return tuple(keys) if other_width or all(k not in result for k in keys) else ()


def _check_fit(path: str | Path, result: dict[str, Tensor], wanted: dict[str, Tensor], fresh: tuple[str, ...]) -> None:
    # files older than the counter lack it; batch norm starts it at 0
    missing = [k for k in wanted if k not in result and k not in fresh and not k.endswith("num_batches_tracked")]
    unknown = [k for k in result if k not in wanted]
    odd = [k for k in result if k in wanted and result[k].shape != wanted[k].shape]
    shapes = [f"{k} {tuple(result[k].shape)} instead of {tuple(wanted[k].shape)}" for k in odd]
    faults = [("missing", missing), ("unknown", unknown), ("of another shape", shapes)]
    more = {what: f" and {len(keys) - 4} more" if len(keys) > 4 else "" for what, keys in faults}
    if lines := [f"{what}: {', '.join(keys[:4])}{more[what]}" for what, keys in faults if keys]:
        raise WeightsError(f"{Path(path).name} does not fit this network; {'; '.join(lines)}")
