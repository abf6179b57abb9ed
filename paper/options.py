"""What to reproduce, and where: the options of the command, written once."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from paper.methods import DEFAULT_PROFILES, PROFILES, all_names
from paper.printed import FACTORS

PARTS = ("table1", "table2", "figure1", "ablations")
DEFAULT_SPLITS = ("random", "group")
SPLITS = (*DEFAULT_SPLITS, "patient")

Words = tuple[str, ...]
SEVERAL: dict[str, Any] = {"nargs": "+"}
NUMBER: dict[str, Any] = {"type": int}
PATH: dict[str, Any] = {"type": Path}


@dataclass(frozen=True)
class Options:
    """What to reproduce, and where; each field but the first is an option of ``python -m paper``.

    ``what`` is a table or figure of the paper, "ablations" of AdaCSL, or "all". Names may come one by one or with
    commas between them. The annotations hold what argparse needs.
    """

    what: str
    # fmt: off
    data: Annotated[Path | None, PATH | {
        "help": "folder of the paper's data, as distributed or as compact files (default: ADACSL_DATA)"}] = None
    datasets: Annotated[Words, SEVERAL | {
        "help": "some of ham10k, idc, rffd, pvd (default: all that are in the folder)"}] = ()
    profile: Annotated[Words, SEVERAL | {
        "help": "paper: as published; modern: stronger training and baselines, cross-fitting; modern-128: the same "
        "with images of 128 x 128; four-views: as modern, every score is the mean over the image's four flips; "
        "enlarged: as four-views, with images of 128 x 128; both (default): paper and modern"}] = DEFAULT_PROFILES
    splits: Annotated[Words, SEVERAL | {
        "help": "random: images one by one, as in the paper; group: images of one lesion or leaf together (not in "
        "profile paper); patient: one patient left out at a time, of those with both classes (IDC); both (default): "
        "random and group"}] = DEFAULT_SPLITS
    methods: Annotated[Words, SEVERAL | {"help": "some methods only (default: all of a profile)"}] = ()
    factors: Annotated[tuple[int, ...], SEVERAL | NUMBER | {"help": "the k of the costs (default: 1 3 5)"}] = FACTORS
    seeds: Annotated[int, NUMBER | {"help": "number of random splits (default: 5)"}] = 5
    weights: Annotated[Path | None, PATH | {
        "help": "ImageNet weights of ResNet-18 (default: resnet18_imagenet_fp16.safetensors in the data folder)"}
    ] = None
    device: Annotated[str, {"help": "device of the networks: auto (default), cpu, cuda, cuda:1 or mps"}] = "auto"
    n_jobs: Annotated[int | None, NUMBER | {"help": "networks at once; several share a large GPU well"}] = None
    out: Annotated[Path | None, PATH | {"help": "folder (default: runs/paper; with --quick: runs/paper-quick)"}] = None
    export: Annotated[Path | None, PATH | {"help": "folder of the CSV files (default: --out)"}] = None
    skip_done: Annotated[tuple[Path, ...], SEVERAL | PATH | {
        "help": "CSV files of earlier runs, or folders with them: what they hold is not run again"}] = ()
    quick: Annotated[bool, {"action": "store_true",
        "help": "a quick test: a hundred images (synthetic ones where there are no data), two epochs, two seeds, "
        "random splits, the smallest and the largest k"}] = False
    time_limit: Annotated[float | None, {"type": float, "help": "end after so many seconds; what is done stays"}] = None
    # fmt: on

    def __post_init__(self) -> None:
        for name, both in (
            ("datasets", ()), ("profile", DEFAULT_PROFILES), ("splits", DEFAULT_SPLITS), ("methods", ()),
        ):  # fmt: skip
            self._set(name, _words(getattr(self, name), both))
        for name in ("factors", "skip_done"):
            self._set(name, tuple(getattr(self, name)))
        self._check_words()
        self._check_numbers()
        if self.quick:
            self._set("seeds", min(self.seeds, 2))
            self._set("splits", ("random",))
            self._set("factors", tuple(dict.fromkeys((self.factors[0], self.factors[-1]))))

    def _set(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)  # it is frozen for others

    def _check_words(self) -> None:
        if self.what not in (*PARTS, "all"):
            raise ValueError(f"there is no {self.what!r} here: take one of {', '.join(PARTS)}, all")
        for name, known in (("profile", tuple(PROFILES)), ("splits", SPLITS)):
            if wrong := [word for word in getattr(self, name) if word not in known]:
                raise ValueError(f"{name} must be some of {', '.join(known)}, both; got {wrong[0]!r}")
        names = all_names()
        if wrong := [name for name in self.methods if name not in names]:
            raise ValueError(f"there is no method {wrong[0]!r} here; known: {', '.join(sorted(names))}")

    def _check_numbers(self) -> None:
        if self.seeds < 1:
            raise ValueError(f"seeds must be at least 1, got {self.seeds}")
        if self.n_jobs is not None and self.n_jobs < 1:
            raise ValueError(f"n_jobs must be at least 1, got {self.n_jobs}")
        if self.time_limit is not None and not self.time_limit >= 0:
            raise ValueError(f"the time limit must be a number of seconds from 0, got {self.time_limit:g}")
        if not self.factors or min(self.factors) < 1:
            raise ValueError(f"the factors k of the costs must be numbers from 1, got {self.factors!r}")

    @property
    def parts(self) -> tuple[str, ...]:
        """The tables and figures that ``what`` stands for."""
        return PARTS if self.what == "all" else (self.what,)

    @property
    def folder(self) -> Path:
        """The folder for everything."""
        return self.out or Path("runs/paper-quick" if self.quick else "runs/paper")

    @property
    def results(self) -> Path:
        """The folder of the CSV files."""
        return self.export or self.folder


def _words(given: Iterable[str], both: tuple[str, ...]) -> tuple[str, ...]:
    words = [word.strip() for part in given for word in part.split(",") if word.strip()]
    return tuple(dict.fromkeys(name for word in words for name in (both if both and word == "both" else (word,))))
