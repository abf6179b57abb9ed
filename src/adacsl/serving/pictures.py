"""Pictures of a request: base64 or bytes, looked at before they are decoded."""

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
from adacsl.serving.contract import PICTURE, SAID
from adacsl.serving.refusing import Fault, Refused, shown

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF")
"""Others have decoders that few have looked at, or start other programs."""
PIXELS = 50_000_000
"""So many may a picture have: a small file can hold a very large one."""


def read_pictures(values: Sequence[Any], shape: tuple[int, int, int]) -> NDArray[np.uint8]:
    """Return pictures as bytes, N x H x W x C, of the size of the training."""
    height, width, channels = shape
    streams = [_checked(value, row) for row, value in enumerate(values)]
    names = [f"row {row}" for row in range(len(streams))]
    try:
        pixels = decode_files(streams, names, image_size=(height, width))
    except ValueError as error:
        raise Refused([Fault(f"{error} (rows are counted from 0)", column=PICTURE)]) from None
    if channels == 3:
        return pixels
    coloured = np.flatnonzero((pixels != pixels[..., :1]).any(axis=(1, 2, 3)))
    if len(coloured):
        raise Refused([Fault("the model takes grey pictures, this one has colours", int(coloured[0]), PICTURE)])
    return pixels[..., :1]


def _checked(value: Any, row: int) -> io.BytesIO:
    try:
        content = value if isinstance(value, bytes) else base64.b64decode(value, validate=True)
    except (TypeError, ValueError, binascii.Error):
        raise Refused([Fault(f"expected {SAID['picture']}, got {shown(value)}", row, PICTURE)]) from None
    stream = io.BytesIO(content)
    try:
        with Image.open(stream, formats=FORMATS) as picture:
            size = picture.width * picture.height
    except Exception:  # decoders raise OSError, SyntaxError, struct.error, ...
        said = f"these {len(content):,} bytes are no picture that can be read ({', '.join(FORMATS)})"
        raise Refused([Fault(said, row, PICTURE)]) from None
    if size > PIXELS:
        raise Refused([Fault(f"the picture has {size:,} pixels, at most {PIXELS:,} are taken", row, PICTURE)])
    stream.seek(0)
    return stream
