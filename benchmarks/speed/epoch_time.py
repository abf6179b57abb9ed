"""Seconds per epoch of the classifier's engine on HAM10K, against plain BCE in the same loop and a bare PyTorch loop.

    python -m benchmarks.speed.epoch_time --json result.json           # on a GPU
    python -m benchmarks.speed.epoch_time --limit 300 --epochs 2 --repeats 1         # does it run?

Each repeat trains a fresh net with each of the three, epoch by epoch in turns (in reversed order every other time):
what is compared ran within seconds of each other, alone on the device. The first epoch is left out. An epoch is
training and validation. The ratio is the median over all epochs of "ours / theirs of the same turn".
"""

from __future__ import annotations

import gc
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from adacsl import AdaCSLController, CostMatrix
from adacsl.adaptive.held_out import HeldOut
from adacsl.integrations.lightning import pl
from adacsl.neural.epoch_selection import Keeper
from adacsl.neural.loop import MemberTraining, quiet
from adacsl.neural.members import Data, Member, Settings
from adacsl.torch.augmentation import Augment, ChannelsFirst
from adacsl.torch.resnet import Normalise, resnet18
from benchmarks.harness import arguments, publish, ratio_row
from benchmarks.image_data import cut, data_folder, load_images
from benchmarks.quality.ham10k_bare import Settings as BareSettings
from benchmarks.quality.ham10k_bare import train as train_bare

BARS = {"plain BCE in the same Lightning loop": 1.02, "bare PyTorch loop": 1.15}


class Turns:
    """Lets one of several threads work at a time, an epoch each, in reversed order every other time."""

    def __init__(self, names: list[str], epochs: int) -> None:
        self._order = [name for turn in range(epochs) for name in (names, names[::-1])[turn % 2]]
        self._change = threading.Condition()
        self._broken = False

    def wait(self, name: str) -> None:
        """Return when it is this one's turn."""
        with self._change:
            self._change.wait_for(lambda: self._broken or self._order[0] == name)
        if self._broken:
            raise RuntimeError("another contender failed")

    def end(self, *, broken: bool = False) -> None:
        """Hand over to the next."""
        with self._change:
            self._broken |= broken
            del self._order[:1]
            self._change.notify_all()


class Stopwatch:
    """Times the epochs of one contender, each on an idle device, and hands over between them."""

    def __init__(self, turns: Turns, name: str) -> None:
        self.turns, self.name = turns, name
        self.seconds: list[float] = []
        self._start: float | None = None
        self._laps = 0

    def lap(self) -> None:
        """Note the end of an epoch, if one was running, and start the next when it is its turn."""
        self.stop()
        if self._laps:
            self.turns.end()
            self.turns.wait(self.name)
        self._laps += 1
        self._start = now()

    def stop(self) -> None:
        """Note the end of an epoch."""
        if self._start is not None:
            self.seconds.append(now() - self._start)
            self._start = None


def now() -> float:
    """Return the time, on an idle device."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter()


class Clock(pl.Callback):
    """Times Lightning's epochs."""

    def __init__(self, watch: Stopwatch) -> None:
        self.watch = watch

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: D102
        self.watch.lap()

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:  # noqa: D102
        self.watch.stop()


class PlainTraining(MemberTraining):
    """The same loop with plain cross-entropy and no adaptation."""

    def _member_losses(self, batch: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(self._logits(batch)[:, :, 0], self._data.y[batch])[None]

    def on_validation_epoch_end(self) -> None:  # noqa: D102
        rows, logits = torch.cat([r for r, _ in self._collected]), torch.cat([z for _, z in self._collected])
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, self._data.y[rows]))


def make_trainer(settings: Settings, clock: Clock) -> pl.Trainer:
    """Return a trainer as the engine's own, with a clock."""
    on_gpu = settings.device != "cpu"
    return pl.Trainer(
        max_epochs=settings.epochs, accelerator="cuda" if on_gpu else "cpu", devices=1,
        precision="bf16-mixed" if on_gpu else "32-true", callbacks=[clock], logger=False, enable_checkpointing=False,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0, use_distributed_sampler=False,
        log_every_n_steps=1000,
    )  # fmt: skip


def side_by_side(contenders: dict[str, Callable[[Stopwatch], None]], epochs: int) -> dict[str, list[float]]:
    """Run all contenders, an epoch each in turns, and return the seconds of their epochs."""
    turns = Turns(list(contenders), epochs)
    watches = {name: Stopwatch(turns, name) for name in contenders}

    def run(name: str) -> None:
        try:
            turns.wait(name)
            contenders[name](watches[name])
            turns.end()
        except BaseException:
            turns.end(broken=True)
            raise

    with ThreadPoolExecutor(len(contenders)) as pool:
        for done in [pool.submit(run, name) for name in contenders]:
            done.result()
    return {name: watch.seconds for name, watch in watches.items()}


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
        epochs=options.epochs, batch_size=64, learning_rate=3e-4, weight_decay=0.05, device=device, gradient_clip=None,
        evaluation_batch_size=1024,
    )  # fmt: skip

    def lightning(kind: type[MemberTraining], watch: Stopwatch) -> None:
        member = Member(parts[0], parts[1], controller=AdaCSLController(costs))
        keeper = Keeper(member, HeldOut(parts[1], data.labels[parts[1]], costs))
        net = resnet18(1, weights).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        prepare = nn.Sequential(ChannelsFirst(), Augment(), Normalise())
        module = kind(net, Data(images, labels), [member], [keeper], settings, prepare)
        make_trainer(settings, Clock(watch)).fit(module)

    on_device, labels_on_device = images.to(device), labels.to(device)
    bare_settings = BareSettings(method="net", epochs=options.epochs, shift=1 / 16)

    def bare(watch: Stopwatch) -> None:
        train_bare(on_device, labels_on_device, parts, costs, bare_settings, weights=weights, watch=watch)

    plain, by_hand = BARS
    contenders: dict[str, Callable[[Stopwatch], None]] = {
        plain: lambda watch: lightning(PlainTraining, watch),
        "adaptive": lambda watch: lightning(MemberTraining, watch),
        by_hand: bare,
    }
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    with quiet(False):
        for _ in range(options.repeats or 3):
            gc.collect()
            for name, series in side_by_side(contenders, options.epochs).items():
                seconds[name] += series[1:]
            print({name: round(float(np.median(series)), 4) for name, series in seconds.items()})
    rows = [
        ratio_row("adaptive epoch", seconds["adaptive"], seconds[name], bar=bar, against=name)
        for name, bar in BARS.items()
    ]
    return publish("ResNet-18 on HAM10K (64 x 64), seconds per epoch", rows, options, batch_size=64)


if __name__ == "__main__":
    sys.exit(main())
