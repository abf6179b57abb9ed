"""Seconds per epoch of the classifier's engine on HAM10K, against plain BCE in the same loop and a bare PyTorch loop.

    python benchmarks/epoch_time.py --json result.json           # on a GPU
    python benchmarks/epoch_time.py --limit 300 --epochs 2 --repeats 1         # does it run?

Each repeat trains a fresh net for some epochs with each of the three, in turns; the first epoch is left out. An epoch
is training and validation.
"""

from __future__ import annotations

import sys
import time

import numpy as np
import torch
from _data import cut, data_folder, load_images
from ham10k_bare import Settings as BareSettings
from ham10k_bare import train as train_bare
from harness import arguments, publish, ratio_row
from torch import Tensor, nn
from torch.nn import functional as F

from adacsl import AdaptiveWeight, CostMatrix
from adacsl.estimators.training import Data, Member, MemberTraining, Settings, _make_trainer, _quiet
from adacsl.integrations.lightning import pl
from adacsl.torch.augment import Augment, ChannelsFirst
from adacsl.torch.resnet import Normalise, resnet18

BARS = {"plain BCE in the same Lightning loop": 1.02, "bare PyTorch loop": 1.15}


class Clock(pl.Callback):
    """Notes when each epoch starts, on an idle device."""

    def __init__(self) -> None:
        self.starts: list[float] = []

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: D102
        self._note()

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: D102
        self._note()

    def _note(self) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.starts.append(time.perf_counter())


class PlainTraining(MemberTraining):
    """The same loop with plain cross-entropy and no adaptation."""

    def _loss(self, rows: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(self(self._data.x[rows])[:, 0, 0].float(), self._data.y[rows])

    def on_validation_epoch_end(self) -> None:  # noqa: D102
        rows, logits = torch.cat([r for r, _ in self._collected]), torch.cat([z for _, z in self._collected])
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits[:, 0], self._data.y[rows]))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--limit", type=int)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    device = options.device
    torch.backends.cudnn.benchmark = True
    folder = data_folder()
    data = load_images(folder / "ham10000_64.npz", options.limit)
    weights = folder / "resnet18_imagenet_fp16.safetensors"
    parts = tuple(cut(np.arange(data.labels.size), [0.65, 0.15, 0.20], seed=0))
    costs = CostMatrix.balanced(data.labels, factor=3)
    images, labels = torch.from_numpy(data.images), torch.from_numpy(data.labels)
    settings = Settings(
        epochs=options.epochs, batch_size=64, lr=3e-4, weight_decay=0.05, device=device, gradient_clip=None,
        evaluation_batch_size=1024,
    )  # fmt: skip

    def lightning(kind: type[MemberTraining]) -> list[float]:
        clock = Clock()
        member = Member(parts[0], parts[1], AdaptiveWeight(costs))
        net = resnet18(1, weights).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        prepare = nn.Sequential(ChannelsFirst(), Augment(), Normalise())
        module = kind(net, Data(images, labels), [member], settings, prepare)
        with _quiet(False):
            trainer = _make_trainer(settings, None)
            trainer.callbacks.append(clock)
            trainer.fit(module)
        return np.diff(clock.starts)[1:].tolist()

    on_device, labels_on_device = images.to(device), labels.to(device)
    bare_settings = BareSettings(method="ce", epochs=options.epochs, shift=1 / 16)

    def bare() -> list[float]:
        run = train_bare(on_device, labels_on_device, parts, costs, bare_settings, weights=weights)
        return run.epoch_seconds[1:]

    seconds: dict[str, list[float]] = {"adaptive": [], **{name: [] for name in BARS}}
    for _ in range(options.repeats or 3):
        seconds["plain BCE in the same Lightning loop"] += lightning(PlainTraining)
        seconds["adaptive"] += lightning(MemberTraining)
        seconds["bare PyTorch loop"] += bare()
    rows = [
        ratio_row("adaptive epoch", seconds["adaptive"], seconds[name], bar=bar, against=name)
        for name, bar in BARS.items()
    ]
    return publish("ResNet-18 on HAM10K (64 x 64), seconds per epoch", rows, options, batch_size=64)


if __name__ == "__main__":
    sys.exit(main())
