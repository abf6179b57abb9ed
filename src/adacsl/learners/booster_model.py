"""Trained boosters: from a table to logits, and to arrays that can be stored."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.fitting.candidates import mean_logits
from adacsl.integrations.boosting import Matrix
from adacsl.learners.boosting_libraries import load_library


class BoosterModel:
    """Boosters whose margins are averaged."""

    kind = "boosters"

    def __init__(self, library: str, boosters: list[Any], rounds: list[int], encoder: ColumnEncoder) -> None:
        self.library, self.boosters, self.rounds, self.encoder = library, boosters, rounds, encoder

    def logits(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the mean margin of each sample, or K of them, whose mean is 0."""
        return self.encoded_logits(self.encoder.transform(X))

    def encoded_logits(self, x: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the logits of samples that the encoder has read."""
        matrix = Matrix(x, None, None, self.encoder.categories)
        return mean_logits(map(centred, load_library(self.library).margins_of_each(self.boosters, matrix)))

    def numbers(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return everything as arrays (the library's own format, byte by byte) and plain values."""
        library = load_library(self.library)
        arrays = {
            f"booster.{i}": np.frombuffer(library.to_bytes(model, rounds), dtype=np.uint8)
            for i, (model, rounds) in enumerate(zip(self.boosters, self.rounds, strict=True))
        }
        return arrays, {"library": self.library, "rounds": self.rounds, "encoder": self.encoder.to_dict()}

    @classmethod
    def from_numbers(cls, arrays: dict[str, Any], document: dict[str, Any]) -> BoosterModel:
        """Return the model of what :meth:`numbers` gave."""
        library = load_library(document["library"])
        rounds = [int(value) for value in document["rounds"]]
        models = [library.from_bytes(np.asarray(arrays[f"booster.{i}"]).tobytes()) for i in range(len(rounds))]
        return cls(document["library"], models, rounds, ColumnEncoder.from_dict(document["encoder"]))


def centred(margins: NDArray[Any]) -> NDArray[Any]:
    """Return margins; those of K classes are centred to a mean of 0 in each sample."""
    return margins if margins.ndim == 1 else margins - margins.mean(axis=1, keepdims=True)
