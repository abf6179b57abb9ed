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
from adacsl.serving.errors import Fault, RequestError, shown
from adacsl.serving.schema import EXPECTED, PICTURE

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""The decoders of other formats are less tested, or start other programs."""
PIXELS = 50_000_000
"""Limit of the pixels of all images of a request: a small file can hold a very large image."""


def read_images(values: Sequence[Any], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return images as bytes, N x H x W x C, of the size of the training."""
    height, width, channels = shape
    streams, total = [], 0
    for row, value in enumerate(values):
        stream, size = _opened(value, row)
        total += max(size, height * width)  # decoded, and as the model takes it
        if total > PIXELS:
            fault = f"the images up to this one have {total:,} pixels, at most {PIXELS:,} are taken in one request"
            raise RequestError([Fault(f"{fault}: send fewer or smaller ones", row, PICTURE)])
        streams.append(stream)
    names = [f"row {row}" for row in range(len(streams))]
    try:
        pixels = decode_files(streams, names, image_size=(height, width))
    except ValueError as error:
        raise RequestError([Fault(f"{error} (rows are counted from 0)", column=PICTURE)]) from None
    if channels == 3:
        return pixels
    coloured = np.flatnonzero((pixels != pixels[..., :1]).any(axis=(1, 2, 3)))
    if len(coloured):
        raise RequestError([Fault("the model takes grey pictures, this one has colours", int(coloured[0]), PICTURE)])
    return pixels[..., :1]


def _opened(value: Any, row: int) -> tuple[io.BytesIO, int]:
    """Return the file of an image, and the number of pixels in its header."""
    try:
        content = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise RequestError([Fault(f"expected {EXPECTED['picture']}, got {shown(value)}", row, PICTURE)]) from None
    stream = io.BytesIO(content)
    try:
        with Image.open(stream, formats=FORMATS) as image:
            size = image.width * image.height
    except Exception:  # decoders raise OSError, SyntaxError, struct.error, ...
        problem = f"these {len(content):,} bytes are no picture that can be read ({', '.join(FORMATS)})"
        raise RequestError([Fault(problem, row, PICTURE)]) from None
    stream.seek(0)
    return stream, size
