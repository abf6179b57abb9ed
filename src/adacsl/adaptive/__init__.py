"""AdaCSL itself: the controller and the held-out samples it measures on. numpy only."""

from typing import TYPE_CHECKING

from adacsl.base.extras import lazy_exports

if TYPE_CHECKING:
    from adacsl.adaptive.controller import (
        AdaCSLController,
        ControllerStep,
        MultiLabelController,
        MultiLabelStep,
        step_factor,
    )
    from adacsl.adaptive.streamed import StreamedScores
    from adacsl.metrics.bins import Partition, QuantileBins, SingleBin, UniformBins

_PLACES = {
    "AdaCSLController": "adacsl.adaptive.controller",
    "ControllerStep": "adacsl.adaptive.controller",
    "MultiLabelController": "adacsl.adaptive.controller",
    "MultiLabelStep": "adacsl.adaptive.controller",
    "Partition": "adacsl.metrics.bins",
    "QuantileBins": "adacsl.metrics.bins",
    "SingleBin": "adacsl.metrics.bins",
    "StreamedScores": "adacsl.adaptive.streamed",
    "UniformBins": "adacsl.metrics.bins",
    "step_factor": "adacsl.adaptive.controller",
}

__all__ = [
    "AdaCSLController",
    "ControllerStep",
    "MultiLabelController",
    "MultiLabelStep",
    "Partition",
    "QuantileBins",
    "SingleBin",
    "StreamedScores",
    "UniformBins",
    "step_factor",
]

__getattr__, __dir__ = lazy_exports(__name__, _PLACES, "sklearn")
