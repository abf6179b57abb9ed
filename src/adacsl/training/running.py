"""Running the loop: devices, Lightning's trainer, checkpoints, interrupts; and predicting with what was trained."""

from __future__ import annotations

import contextlib
import inspect
import logging
import signal
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adacsl.datasets.errors import did_you_mean
from adacsl.integrations.lightning import ShardedNet, pl
from adacsl.torch.tablenet import TableNet, member_logits
from adacsl.training.checkpoints import Checkpoints, KeepLast
from adacsl.training.keepers import Keeper
from adacsl.training.loop import MemberTraining
from adacsl.training.members import Data, Member, Settings

_MAKING_NETS = threading.RLock()


@contextlib.contextmanager
def alone() -> Iterator[None]:
    """Let one thread at a time make or train nets: torch's random numbers and Lightning's loggers are the process's.

    The caller's random numbers are left alone.
    """
    with _MAKING_NETS, torch.random.fork_rng(devices=_cuda_devices()):
        yield


def train(
    net: nn.Module,
    data: Data,
    members: Sequence[Member],
    keepers: Sequence[Keeper],
    settings: Settings,
    *,
    prepare: nn.Module | None = None,
    resume: Checkpoints | None = None,
    identity: Callable[[], Mapping[str, str]] | None = None,
) -> None:
    """Train the members of one net; what is worth keeping is with the keepers afterwards.

    From the last checkpoint in ``resume``, if there is one; the caller's random numbers are left alone. ``identity``
    tells digests of what is fitted by name: several processes compare theirs.
    """
    resume = resume and resume.of(net)
    path = resume and resume.last()
    if isinstance(net, TableNet) and settings.trainer.get("strategy") == "fsdp":
        raise ValueError("strategy='fsdp' is for large nets, module=...; the nets for tables are small: use 'ddp'")
    module = MemberTraining(net, data, members, keepers, settings, prepare, identity)
    with alone(), quiet(settings.verbose), _tuned_convolutions(prepare):
        trainer = _make_trainer(settings, resume)
        with _plain_interrupt(), _lost_processes():
            trainer.fit(module, ckpt_path=path, weights_only=True if path else None)
    if any(keeper.held.best < 0 for keeper in keepers):
        raise RuntimeError(
            f"training ended ({trainer.state.status.value}) without a measured epoch in this process: use at least one "
            "epoch, and strategies that run the script in every process ('ddp', not 'ddp_spawn' or 'ddp_notebook')"
        )
    for keeper in keepers:
        if keeper.weights is not None:
            keeper.weights = {name: value.cpu() for name, value in keeper.weights.items()}


def predict_logits(
    net: nn.Module, x: Tensor, *, device: torch.device, batch_size: int, prepare: nn.Module | None = None
) -> Tensor:
    """Return logits, rows x members, averaged over heads, in batches."""
    net = net.to(device).eval()
    prepare = None if prepare is None else prepare.to(device).eval()
    out = []
    with torch.inference_mode():
        for start in range(0, len(x), batch_size):
            part = x[start : start + batch_size].to(device)
            out.append(member_logits(net, part if prepare is None else prepare(part)).float().mean(2).cpu())
    net.to("cpu")
    return torch.cat(out)


def choose_device(device: str, *, warn: bool = True) -> str:
    """Return 'cpu', 'cuda', 'cuda:1' or 'mps'; a wish that cannot be met falls back to the CPU with one line."""
    count, mps = torch.cuda.device_count() if torch.cuda.is_available() else 0, torch.backends.mps.is_available()
    if device == "auto":
        return "cuda" if count else "mps" if mps else "cpu"
    kind, _, number = str(device).partition(":")
    if kind not in ("cpu", "cuda", "mps") or not (number.isdigit() or number == ""):
        raise ValueError(f"device must be 'auto', 'cpu', 'cuda', 'cuda:1' or 'mps', got {device!r}")
    if kind == "cpu" or (kind == "mps" and mps) or (kind == "cuda" and int(number or 0) < count):
        return "cpu" if kind == "cpu" else device
    if warn:
        there = "no such device" if count else "no GPU"
        warnings.warn(
            f"device={device!r} asked for, but {there} is available: using the CPU", stacklevel=_users_level()
        )
    return "cpu"


def _users_level() -> int:
    """Return how many frames above the caller somebody else's code stands."""
    level, frame = 0, inspect.currentframe()
    while frame is not None and frame.f_globals.get("__name__", "").startswith("adacsl."):
        level, frame = level + 1, frame.f_back
    return level


def check_trainer(options: Any) -> None:
    """Raise unless these are arguments of Lightning's Trainer by name, or none."""
    if not (options is None or isinstance(options, dict)):
        raise TypeError(f"trainer must be a dict of arguments of Lightning's Trainer, got {options!r}")
    known = inspect.signature(pl.Trainer).parameters
    if unknown := [name for name in options or () if name not in known]:
        raise ValueError(f"Lightning's trainer has no argument {unknown[0]!r}{did_you_mean(unknown[0], known)}")


def _make_trainer(settings: Settings, resume: Checkpoints | None) -> pl.Trainer:
    device = choose_device(settings.device)
    accelerator = settings.trainer.get("accelerator", device.split(":")[0])
    precision = settings.precision
    if precision == "auto":
        precision = "bf16-mixed" if accelerator in ("cuda", "gpu") else "32-true"
    callbacks = list(settings.trainer.get("callbacks") or [])
    keeping = resume is not None or any(isinstance(callback, pl.callbacks.Checkpoint) for callback in callbacks)
    options: dict[str, Any] = {
        "max_epochs": settings.epochs,
        "accelerator": accelerator,
        "devices": [int(device.split(":")[1])] if ":" in device else 1,
        "precision": precision,
        "logger": False,
        "enable_checkpointing": keeping,
        "enable_progress_bar": settings.verbose,
        "enable_model_summary": False,
        "num_sanity_val_steps": 0,
        "use_distributed_sampler": False,
        "log_every_n_steps": 1000,
    }
    if resume is not None:
        callbacks.append(KeepLast(resume))
    options |= settings.trainer
    if options.get("strategy") == "fsdp":
        options["strategy"] = ShardedNet()
    return pl.Trainer(**(options | {"callbacks": callbacks}))


def _cuda_devices() -> list[int]:
    return list(range(torch.cuda.device_count())) if torch.cuda.is_available() else []


@contextlib.contextmanager
def _tuned_convolutions(prepare: nn.Module | None) -> Iterator[None]:
    """Let a GPU try which convolution of images is fastest: all batches are of (nearly) the same shape."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = before or prepare is not None
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before


@contextlib.contextmanager
def _plain_interrupt() -> Iterator[None]:
    """Turn Lightning's sys.exit(1) upon Ctrl-C, after which Ctrl-C would be ignored, back into KeyboardInterrupt."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    except SystemExit as error:
        if not isinstance(error.__context__, KeyboardInterrupt):
            raise
        signal.signal(signal.SIGINT, handler)
        raise KeyboardInterrupt from None


@contextlib.contextmanager
def _lost_processes() -> Iterator[None]:
    """Say in one line that another process is gone, where torch tells about its sockets."""
    try:
        yield
    except RuntimeError as error:
        gloo = any(words in str(error) for words in ("gloo", "timeout caused pair closure"))
        if gloo or isinstance(error, torch.distributed.DistError):
            raise RuntimeError(
                "another process of this fit has ended, or does not answer: its own output says why; start all of them "
                "again (with resume=, they go on from the last finished epoch)"
            ) from None
        raise


@contextlib.contextmanager
def quiet(verbose: bool) -> Iterator[None]:
    """Keep Lightning's advice (about workers we do not have, loggers we do not need) off the user's screen."""
    names = ("lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
    levels = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(logging.WARNING if verbose else logging.ERROR)
    logging.getLogger("lightning.fabric.strategies.launchers").setLevel(logging.INFO)  # who ended, and is killed
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"(lightning|pytorch_lightning|lightning_fabric)\..*")
        try:
            yield
        finally:
            for name, level in levels.items():
                logging.getLogger(name).setLevel(level)
