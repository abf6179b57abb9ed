"""Training of neural networks on Lightning, and the neural learner."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.neural.learner import NeuralLearner

_PLACES = {
    "NeuralLearner": "adacsl.neural.learner",
}

__all__ = [
    "NeuralLearner",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "train")
