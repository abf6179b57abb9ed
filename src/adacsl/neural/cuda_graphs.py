"""Forward and backward passes recorded as CUDA graphs.

With a small network a GPU is idle: launching its hundreds of kernels takes longer than running them. A
recorded pass is one launch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from adacsl.integrations.lightning import pl
from adacsl.torch.augmentation import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.resnet import Normalise, ResNet
from adacsl.torch.tabular import TableNet

WARM_UP = 3
"""Passes that run as they are before one is recorded: libraries choose their kernels and allocate in them."""


class RecordedPass:
    """Computes a loss and its gradients; batches of a shape seen before are replayed instead of launched again.

    Parameters
    ----------
    run_pass : callable
        Takes a batch of row numbers, calls ``backward`` and returns the detached loss. It must do the same work for
        every batch of one shape, all of it on the GPU, and read what changes (weights of the loss) from tensors that
        are changed in place.
    parameters : iterable of nn.Parameter
        Those that get gradients.

    Notes
    -----
    Everything, the optimiser's step too, has to run within :meth:`stream`. A recording fixes which
    memory its gradients lie in; each replay hands them to the parameters. Random numbers follow the seed and go on from
    pass to pass, recorded or not.
    """

    def __init__(self, run_pass: Callable[[Tensor], Tensor], parameters: Iterable[nn.Parameter]) -> None:
        self._run_pass, self._parameters = run_pass, list(parameters)
        self._stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        # by shape: the graph, the samples it reads, the loss and the gradients it writes
        self._recordings: dict[torch.Size, tuple[torch.cuda.CUDAGraph, Tensor, Tensor, list[Tensor | None]]] = {}
        self._passes: dict[torch.Size, int] = {}
        self._given_up = False

    @contextmanager
    def stream(self) -> Iterator[None]:
        """Queue work on the recordings' own stream, in order with what comes before and after."""
        self._stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self._stream):
            yield
        torch.cuda.current_stream().wait_stream(self._stream)

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the loss of a batch and leave the gradients with the parameters."""
        recording = self._recordings.get(rows.shape)
        if recording is None:
            passes = self._passes[rows.shape] = self._passes.get(rows.shape, 0) + 1
            if passes <= WARM_UP or not self._record(rows):
                self._forget_gradients()
                return self._run_pass(rows)
            recording = self._recordings[rows.shape]
        graph, own_rows, loss, gradients = recording
        own_rows.copy_(rows)
        graph.replay()
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = gradient
        return loss.clone()

    def _record(self, rows: Tensor) -> bool:
        """Record a pass, which does not run it; return whether that worked."""
        if self._given_up:
            return False
        self._forget_gradients()  # so that the recording writes gradients instead of adding to them
        graph, own_rows = torch.cuda.CUDAGraph(), rows.clone()
        try:
            # threads of the caller (a progress bar, a logger) may go on with what they do
            with torch.cuda.graph(graph, stream=self._stream, capture_error_mode="thread_local"):
                loss = self._run_pass(own_rows)
        except RuntimeError:
            self._given_up = True  # a driver or build without graphs: slower, nothing else
            return False
        self._recordings[rows.shape] = graph, own_rows, loss, [p.grad for p in self._parameters]
        return True

    def _forget_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None


def can_record(
    net: nn.Module, parts: Sequence[nn.Module], trainer: Any, device: torch.device, options: Mapping[str, Any]
) -> bool:
    """Return whether passes do the same work for every batch, on one GPU, without hooks in between.

    ``parts`` are what images go through before the network; ``options`` are the user's arguments of the trainer.
    """
    inner = net.net if isinstance(net, FlipAverage) else net
    return (
        device.type == "cuda"
        and type(inner) in (ResNet, TableNet)
        and all(type(part) in (ChannelsFirst, Augment, Normalise) for part in parts)
        and all(part.generator is None for part in parts if isinstance(part, Augment))
        and trainer.world_size == 1
        and getattr(trainer.precision_plugin, "scaler", None) is None
        and not options.keys() & {"strategy", "plugins", "detect_anomaly", "profiler"}
        and not any(map(_looks_at_gradients, trainer.callbacks))
    )


def _looks_at_gradients(callback: pl.Callback) -> bool:
    """Return whether a callback has hooks in the middle of a pass, which a replay would leave out."""
    hooks = ("on_before_backward", "on_after_backward")
    return any(getattr(type(callback), hook) is not getattr(pl.Callback, hook) for hook in hooks)


@contextmanager
def uncached_autocast() -> Iterator[None]:
    """Cast weights again in each step: autocast would keep its copies of them over all steps of a training step."""
    before = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(before)
