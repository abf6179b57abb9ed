"""Images of a request: base64 text, bytes of an Arrow column, or the body itself."""

from __future__ import annotations

import base64
import binascii
import io
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from adacsl.datasets.images import decode_files
from adacsl.serving.errors import ErrorDetail, RequestError, shown
from adacsl.serving.schema import EXPECTED, IMAGE

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Accepted formats; the decoders of others are less tested, or start other programs."""
PIXELS = 50_000_000
"""Limit of the pixels of all images of a request: a small file can hold a very large image."""


def read_images(values: Sequence[Any], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return decoded images, N x H x W x C, of the size of the training.

    Parameters
    ----------
    values : sequence
        Base64 text, or bytes, of each image file.
    shape : (int, int, int)
        Height, width and channels that the model expects.

    Raises
    ------
    RequestError
        Where an image cannot be read, is in colours where the model expects none, or all have too many pixels.
    """
    height, width, channels = shape
    streams, total = [], 0
    for row, value in enumerate(values):
        stream, size = _opened(value, row)
        total += max(size, height * width)  # decoded, and resized
        if total > PIXELS:
            problem = f"the images up to this one have {total:,} pixels; the limit of a request is {PIXELS:,}"
            raise RequestError([ErrorDetail(f"{problem}: send fewer or smaller ones", row, IMAGE)])
        streams.append(stream)
    names = [f"row {row}" for row in range(len(streams))]
    try:
        pixels = decode_files(streams, names, image_size=(height, width))
    except ValueError as error:
        raise RequestError([ErrorDetail(f"{error} (rows are counted from 0)", column=IMAGE)]) from None
    if channels == 3:
        return pixels
    in_colour = np.flatnonzero((pixels != pixels[..., :1]).any(axis=(1, 2, 3)))
    if len(in_colour):
        raise RequestError(
            [ErrorDetail("the model expects grayscale images, this one has colours", int(in_colour[0]), IMAGE)]
        )
    return pixels[..., :1]


def _opened(value: Any, row: int) -> tuple[io.BytesIO, int]:
    """Return the file of an image, and the number of pixels in its header."""
    try:
        content = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise RequestError([ErrorDetail(f"expected {EXPECTED['image']}, got {shown(value)}", row, IMAGE)]) from None
    stream = io.BytesIO(content)
    try:
        with Image.open(stream, formats=FORMATS) as image:
            size = image.width * image.height
    except Exception:  # decoders raise OSError, SyntaxError, struct.error, ...
        problem = f"these {len(content):,} bytes are not a readable image ({', '.join(FORMATS)})"
        raise RequestError([ErrorDetail(problem, row, IMAGE)]) from None
    stream.seek(0)
    return stream, size
