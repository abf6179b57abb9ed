"""Random augmentation of image batches on their device."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn


class Augment(nn.Module):
    """Module that flips, shifts and turns each image of a batch at random; nothing in evaluation mode.

    Parameters
    ----------
    flip : bool or {"horizontal", "vertical"}, default True
        True flips along both axes, each with probability one half. Choose "horizontal" where up and down differ.
    shift : float, default 1/16
        Largest shift along each axis, as a share of the side (4 of 64 pixels); the border is mirrored.
    rotate : bool, default False
        Turn by 0, 90, 180 or 270 degrees, all equally likely (square images only).
    brightness : float, default 0.0
        Add up to this share of full scale.
    contrast : float, default 0.0
        Stretch about the image's mean by up to this share.
    generator : torch.Generator, optional
        Source of the random numbers. Default: the global one of the batch's device (``torch.manual_seed``).

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.augmentation import Augment
    >>> images = torch.zeros(8, 3, 64, 64, dtype=torch.uint8)
    >>> Augment()(images).shape, Augment().eval()(images) is images
    (torch.Size([8, 3, 64, 64]), True)
    """

    def __init__(
        self,
        flip: bool | Literal["horizontal", "vertical"] = True,
        *,
        shift: float = 1 / 16,
        rotate: bool = False,
        brightness: float = 0.0,
        contrast: float = 0.0,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        if flip not in (True, False, "horizontal", "vertical"):
            raise ValueError(f"flip must be True, False, 'horizontal' or 'vertical', got {flip!r}")
        for name, share in (("shift", shift), ("brightness", brightness), ("contrast", contrast)):
            if not 0.0 <= share < 1.0:
                raise ValueError(f"{name} must be a share from 0 to less than 1, got {share!r}")
        self.flip, self.shift, self.rotate = flip, shift, rotate
        self.brightness, self.contrast, self.generator = brightness, contrast, generator

    def extra_repr(self) -> str:
        """Name the settings in the module's repr."""
        light = f"brightness={self.brightness:g}, contrast={self.contrast:g}"
        return f"flip={self.flip}, shift={self.shift:g}, rotate={self.rotate}, {light}"

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Return a random view of each image.

        Parameters
        ----------
        images : Tensor of shape (B, C, H, W)
            The batch.

        Returns
        -------
        Tensor of shape (B, C, H, W)
            In the batch's dtype, laid out channels-last.
        """
        if not self.training:
            return images
        if images.ndim != 4:
            raise ValueError(f"images must have shape (B, C, H, W), got {tuple(images.shape)}")
        draw = self._draw(images)
        if self.flip or self.shift or self.rotate:
            images = self._move(images, draw)
        return self._light(images, draw) if self.brightness or self.contrast else images

    def _draw(self, images: Tensor) -> Tensor:
        """Draw seven numbers in [0, 1) for each image, always all of them: settings do not shift the stream."""
        device = images.device if self.generator is None else self.generator.device
        draw = torch.rand(7, images.shape[0], 1, 1, device=device, generator=self.generator)
        return draw.to(images.device, non_blocking=True)

    def _move(self, images: Tensor, draw: Tensor) -> Tensor:
        (n, _, height, width), device = images.shape, images.device
        rows = self._line(height, draw[0], draw[2], self.flip in (True, "vertical"), device).view(n, height, 1)
        columns = self._line(width, draw[1], draw[3], self.flip in (True, "horizontal"), device).view(n, 1, width)
        if self.rotate:
            rows, columns = self._turn(rows, columns, draw[4])
        samples = torch.arange(n, device=device).view(n, 1, 1)
        # indexing the channels-last view copies whole pixels, and its result is channels-last again
        return images.permute(0, 2, 3, 1)[samples, rows, columns].permute(0, 3, 1, 2)

    def _line(self, side: int, coin: Tensor, drift: Tensor, flip: bool, device: torch.device) -> Tensor:
        """Return, for each image, which source line each line of the view shows: shape (B, 1, side)."""
        line = torch.arange(side, device=device).view(1, 1, side)
        reach = min(int(self.shift * side), side - 1)
        if reach:
            line = line + ((drift * (2 * reach + 1)).long() - reach)
            line = (side - 1) - ((side - 1) - line.abs()).abs()  # mirror about the first and the last line
        if flip:
            line = torch.where(coin < 0.5, (side - 1) - line, line)
        return line.expand(coin.shape[0], 1, side)

    def _turn(self, rows: Tensor, columns: Tensor, draw: Tensor) -> tuple[Tensor, Tensor]:
        """Turn each view by 0 to 3 quarters: a transposition, and a flip of each axis."""
        side = rows.shape[1]
        if columns.shape[2] != side:
            raise ValueError(f"rotate=True needs square images, got {side} x {columns.shape[2]}")
        quarter = (draw * 4).long()
        rows = torch.where((quarter == 2) | (quarter == 3), rows.flip(1), rows)
        columns = torch.where((quarter == 1) | (quarter == 2), columns.flip(2), columns)
        odd = quarter % 2 == 1
        return torch.where(odd, rows.transpose(1, 2), rows), torch.where(odd, columns.transpose(1, 2), columns)

    def _light(self, images: Tensor, draw: Tensor) -> Tensor:
        full = 1.0 if images.is_floating_point() else 255.0
        pixels = images.float()
        gain = 1.0 + self.contrast * (2.0 * draw[6].view(-1, 1, 1, 1) - 1.0)
        offset = self.brightness * full * (2.0 * draw[5].view(-1, 1, 1, 1) - 1.0)
        mean = pixels.mean(dim=(1, 2, 3), keepdim=True)
        pixels = (pixels - mean) * gain + (mean + offset)
        if not images.is_floating_point():
            pixels = pixels.round_().clamp_(0, 255)
        return pixels.to(images.dtype)


class ChannelsFirst(nn.Module):
    """Module that reads a (B, H, W, C) batch as (B, C, H, W), without a copy: laid out channels-last.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.augmentation import ChannelsFirst
    >>> ChannelsFirst()(torch.zeros(1, 8, 9, 3)).shape
    torch.Size([1, 3, 8, 9])
    """

    def forward(self, images: Tensor) -> Tensor:
        """Return the same batch with its axes renamed.

        Parameters
        ----------
        images : Tensor of shape (B, H, W, C)
            The batch.

        Returns
        -------
        Tensor of shape (B, C, H, W)
            A view.
        """
        return images.permute(0, 3, 1, 2)


class FlipAverage(nn.Module):
    """Module that averages a network's outputs over the four flips of each image, in evaluation mode.

    While training it is the plain network. Four times the prediction time; suited to images without orientation.

    Parameters
    ----------
    net : nn.Module
        The network.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.augmentation import FlipAverage
    >>> from adacsl.torch.resnet import ResNet
    >>> FlipAverage(ResNet()).eval()(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 1])
    """

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: Tensor) -> Tensor:
        """Return the network's output.

        Parameters
        ----------
        images : Tensor of shape (B, C, H, W)
            The batch.

        Returns
        -------
        Tensor of shape (B, outputs)
            The mean over the flips.
        """
        if self.training:
            single: Tensor = self.net(images)
            return single
        views = (images, images.flip(2), images.flip(3), images.flip(2, 3))
        return torch.stack([self.net(view) for view in views]).mean(0)
