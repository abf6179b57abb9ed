"""Images at the door of a method: read, brought to the shape of the training."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.images import Images, as_images, is_images

FILE_SIZE = 64
"""Side of images read from files, unless another is asked for."""


def read_images(method: Any, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
    """Return an array of images and their labels, or a checked table."""
    method.images_ = is_images(X)
    if not method.images_:
        return method._features(X, reset=True), y
    images = _read(method, X, None)
    pixels = _channels_last(images.pixels)
    method.image_shape_ = tuple(int(side) for side in pixels.shape[1:])
    method.n_features_in_ = math.prod(method.image_shape_)
    return pixels, images.labels if y is None else y


def more_images(method: Any, X: Any) -> NDArray[Any]:  # noqa: N803
    """Return images like those of the training: their size, their channels."""
    if not is_images(X):
        raise ValueError("this model was trained on images; give uint8 images, a folder or a Dataset")
    height, width, channels = method.image_shape_
    pixels = _channels_last(_read(method, X, (height, width)).pixels)
    if pixels.shape[3] != channels:
        raise ValueError(f"the model was trained on images of {channels} channels, got {pixels.shape[3]}")
    return pixels


def _read(method: Any, X: Any, size: tuple[int, int] | None) -> Images:  # noqa: N803
    """Read images, of a size if one is given; arrays keep theirs, and files get the net's or the usual one."""
    if size is None and not hasattr(X, "ndim"):
        wished = method.learner_.image_size
        return as_images(X, image_size=FILE_SIZE if wished is None else wished)
    return as_images(X, image_size=size)


def _channels_last(pixels: NDArray[Any]) -> NDArray[Any]:
    """Return N x H x W x C: rows of such an array are channels-last batches, the layout GPUs like best."""
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))
