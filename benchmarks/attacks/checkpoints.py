"""Checkpoints of an interrupted fit, damaged, exchanged and forged: refused in one line, or without any effect."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import pickle
import random
import shutil
import signal
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import nn

from adacsl import AdaCSLClassifier, CostMatrix
from adacsl.neural import NeuralLearner
from benchmarks.attacks.scoreboard import Attack, Attempt

CHECKPOINT, DIGESTS = "last.ckpt", "last.sha256"
FIRST, SECOND, MARK = "training-0/member-0", "training-0/member-1", "training-0/fit.sha256"
EXECUTED: list[str] = []
LATE = 60.0
"""Seconds after which a fit of two networks on 80 samples counts as hanging; a busy machine included."""


class Late(BaseException):
    """Time is up; no ``except Exception`` on the way takes it for a damaged file."""


class Evil:
    """Runs code when it is unpickled."""

    def __reduce__(self) -> Any:
        return EXECUTED.append, ("run",)


class Fits(NamedTuple):
    """A fit of two networks one by one that is finished, another one, and what each ended with."""

    folder: Path
    other: Path
    weights: list[torch.Tensor]


def _net(features: int) -> nn.Module:
    return nn.Linear(features, 1)


def _fit(folder: Path | None, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    y = (rng.random(80) < 0.4).astype(int)
    X = rng.normal(size=(80, 3)) + y[:, None]
    net = {"module": _net, "epochs": 2, "batch_size": 40}
    clf = AdaCSLClassifier(
        CostMatrix(fp=1, fn=5), learner=NeuralLearner(**net), cv=2, random_state=0, resume=folder
    ).fit(X, y)
    return [value.clone() for value in clf.net_.state_dict().values()]


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    """Yield tries: each kind of forgery first, then flips and cuts at random places."""
    fits = Fits(folder / "fit", folder / "other", _fit(folder / "fit"))
    _fit(fits.other, seed=1)
    drawing = random.Random(seed)  # noqa: S311
    for number in range(tries):
        name, change = _FORGERIES[number] if number < len(_FORGERIES) else _random_damage(fits, drawing)
        own = folder / "damaged"
        shutil.copytree(fits.folder, own)
        EXECUTED.clear()
        may_be_harmless = change(own, fits)
        yield Attempt(name, _fault(own, fits, bool(may_be_harmless)))
        shutil.rmtree(own)


def _fault(folder: Path, fits: Fits, may_be_harmless: bool) -> str:
    """Return what went wrong when the fit was started again."""
    try:
        with _bounded(LATE):
            weights = _fit(folder)
    except (ValueError, OSError) as error:
        answer = str(error)
        if "\n" in answer or not ("delete its folder" in answer or "give an empty folder" in answer):
            return f"refused, but with {answer[:200]!r}"
        return "code was run" if EXECUTED else ""
    except (Exception, Late) as error:  # a raw error is a fault
        return f"{type(error).__name__}: {str(error)[:100]!r}"
    if EXECUTED:
        return "code was run"
    if not all(torch.equal(a, b) for a, b in zip(weights, fits.weights, strict=True)):
        return "taken, and the result is another"
    return "" if may_be_harmless else "taken without a word"


@contextlib.contextmanager
def _bounded(seconds: float) -> Iterator[None]:
    """End what takes longer: a pipe nobody writes to, or a number of epochs that was flipped."""

    def late(number: int, frame: Any) -> None:
        raise Late(f"still busy after {seconds:.0f} s")

    handler = signal.signal(signal.SIGALRM, late)
    others = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, *others)
        signal.signal(signal.SIGALRM, handler)


def _random_damage(fits: Fits, drawing: random.Random) -> tuple[str, Callable[[Path, Fits], Any]]:
    file = drawing.choice((f"{FIRST}/{CHECKPOINT}", f"{SECOND}/{CHECKPOINT}", f"{FIRST}/{DIGESTS}", MARK))
    content = bytearray((fits.folder / file).read_bytes())
    kind = drawing.choice(("flip", "flip", "directory", "cut", "longer"))
    place = drawing.randrange(len(content))
    if kind == "directory":  # of the zip archive, at its end
        place = len(content) - 1 - drawing.randrange(min(len(content), 1500))
    if kind == "cut":
        content = content[:place]
    elif kind == "longer":
        content += drawing.randbytes(drawing.randrange(1, 99))
    else:
        content[place] ^= 1 << drawing.randrange(8)

    def change(folder: Path, fits: Fits) -> bool:
        (folder / file).write_bytes(content)
        return file.endswith(DIGESTS)  # it also holds the digest of the checkpoint before, which nobody needs now

    return f"{file}: {kind} at {place}", change


# forgeries: those that return True may be taken, if nothing changes


def _seal(path: Path) -> None:
    """Write the digest that belongs to a checkpoint, as somebody who knows how would."""
    content = path.read_bytes()
    path.with_name(DIGESTS).write_text(f"{hashlib.sha256(content).hexdigest()} {len(content)}\n")


def _of_another_fit(
    folder: Path, fits: Fits, *, files: tuple[str, ...], sealed: bool = False, unmarked: bool = False
) -> None:
    for file in files:
        shutil.copy(fits.other / file, folder / file)
    if unmarked:
        (folder / MARK).unlink()
    if sealed:
        _seal(folder / FIRST / CHECKPOINT)


def _of_another_member(folder: Path, fits: Fits) -> None:
    for file in (CHECKPOINT, DIGESTS):
        shutil.copy(fits.folder / SECOND / file, folder / FIRST / file)


def _evil(folder: Path, fits: Fits, *, form: str) -> None:
    path = folder / FIRST / CHECKPOINT
    if form == "bare":
        path.write_bytes(pickle.dumps(Evil()))
    elif form == "saved":
        torch.save({"fit": Evil(), "adacsl": Evil()}, path)
    else:  # the real one, with one value replaced
        content = torch.load(path, weights_only=True)
        content["callbacks"] = {"mine": Evil()}
        torch.save(content, path)
    _seal(path)


def _instead(folder: Path, fits: Fits, *, file: str, what: str) -> bool:
    path = folder / file
    kept = path.rename(path.with_name("kept"))
    if what == "fifo":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "device":
        path.symlink_to("/dev/zero")
    elif what == "giant":
        with path.open("wb") as giant:
            giant.truncate(2**40)
    elif what == "link":
        path.symlink_to(kept)
    elif what == "broken link":
        path.symlink_to(folder / "nowhere")
    # a link to the same bytes, or to nothing: the fit goes on, or starts again
    return what in ("link", "broken link") and not (what == "broken link" and file.endswith(DIGESTS))


def _without(folder: Path, fits: Fits, *, file: str) -> bool:
    (folder / file).unlink()
    return not file.endswith(DIGESTS)  # without its mark it still says inside whose it is; without itself it is new


def _bomb(folder: Path, fits: Fits) -> None:
    path = folder / FIRST / CHECKPOINT
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", b"\0" * 10**7)
    _seal(path)


_BOTH = (f"{FIRST}/{CHECKPOINT}", f"{FIRST}/{DIGESTS}")
_FORGERIES: list[tuple[str, Callable[[Path, Fits], Any]]] = [
    ("another fit's checkpoint", functools.partial(_of_another_fit, files=_BOTH)),
    ("another fit's, without the mark", functools.partial(_of_another_fit, files=_BOTH, unmarked=True)),
    ("another fit's mark too", functools.partial(_of_another_fit, files=(*_BOTH, MARK))),
    ("another fit's, new digest", functools.partial(_of_another_fit, files=_BOTH[:1], sealed=True)),
    ("another net's of the same fit", _of_another_member),
    *((f"evil pickle, {form}", functools.partial(_evil, form=form)) for form in ("bare", "saved", "inside")),
    *((f"{what} for the checkpoint", functools.partial(_instead, file=_BOTH[0], what=what))
      for what in ("fifo", "folder", "device", "giant", "link", "broken link")),
    *((f"{what} for the digests", functools.partial(_instead, file=_BOTH[1], what=what))
      for what in ("fifo", "folder", "device", "giant", "link", "broken link")),
    *((f"{what} for the mark", functools.partial(_instead, file=MARK, what=what))
      for what in ("fifo", "folder", "device", "giant", "link", "broken link")),
    *((f"without {file}", functools.partial(_without, file=file)) for file in (*_BOTH, MARK)),
    ("a small file that grows", _bomb),
]  # fmt: skip


ATTACKS = (
    Attack(
        "checkpoints",
        "checkpoints and marks of an interrupted fit cut, lengthened, flipped anywhere (the zip directory above all), "
        "of another fit or another net, pickles that run code under a new digest, pipes, folders, devices, giants and "
        "links in their place: refused in one line, or the result is that of the undisturbed fit bit for bit",
        run,
        long=1000,
        short=40,
    ),
)
