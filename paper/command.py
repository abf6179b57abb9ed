"""``adacsl reproduce``: the paper's tables and figures from raw data."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from adacsl.cli.drafts import check_writable
from adacsl.cli.options import split_words
from adacsl.cli.screen import PLAIN, Answer, Screen, stoppable
from adacsl.extras import requires

if TYPE_CHECKING:
    from adacsl.experiments.reproduce import Reproduced, Wishes

Several = Annotated[tuple[str, ...], Parameter(negative=(), consume_multiple=True)]


def reproduce(  # noqa: PLR0913  a command lists its options
    what: Literal["table1", "table2", "figure1", "ablations", "all"],
    *,
    data: Path | None = None,
    datasets: Several = (),
    profile: Literal["paper", "modern", "four-views", "enlarged", "both"] = "both",
    splits: Literal["random", "group", "both"] = "both",
    methods: Several = (),
    seeds: int = 5,
    weights: Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    out: Path | None = None,
    export: Path | None = None,
    skip_done: Annotated[tuple[Path, ...], Parameter(negative=(), consume_multiple=True)] = (),
    quick: Annotated[bool, Parameter(negative=())] = False,
    plan: Annotated[bool, Parameter(negative=())] = False,
    time_limit: float | None = None,
    screen: Screen = PLAIN,
) -> Answer:
    """Run the paper's experiments and set the results beside its figures.

    Writes CSV files (one row per run), LaTeX tables, pictures of Table 2 and Figure 1, and one HTML page. Every
    result is kept as soon as it is there: the same command, started again, runs only what is missing.

    Parameters
    ----------
    what
        A table or figure of the paper, ablations of AdaCSL, or all of them.
    data
        Folder of the paper's data, as distributed or as compact files; default: the folder that ADACSL_DATA names.
    datasets
        Some of ham10k, idc, rffd, pvd; default: all that are in the folder.
    profile
        paper: as published. modern: stronger training and baselines, cross-fitting. four-views: as modern, and every
        score is the mean over the picture's four flips. enlarged: as four-views, with pictures of 128 x 128. both:
        paper and modern.
    splits
        random: pictures one by one, as in the paper. group: pictures of one lesion or leaf together (profile modern).
    methods
        Some methods only, with commas between them.
    seeds
        How many random splits.
    weights
        ImageNet weights of ResNet-18; default: resnet18_imagenet_fp16.safetensors in the data folder.
    device
        Where nets train: auto, cpu, cuda, cuda:1 or mps.
    workers
        How many nets at once; on a large GPU several share it well.
    out
        Folder for everything; default: runs/paper (with --quick: runs/paper-quick).
    export
        Folder for the CSV files, if not --out.
    skip_done
        CSV files of earlier runs, or folders with them: taken over, not run again.
    quick
        A hundred pictures (made-up ones where there are no data) and two epochs: does it all work?
    plan
        Only say how many nets that is.
    time_limit
        End after so many seconds; what is finished is kept.
    """
    with requires("compare"):
        from adacsl.experiments import reproduce as experiments  # noqa: PLC0415  torch
    both = experiments.both
    wishes = experiments.Wishes(
        parts=experiments.parts_of(what), data=data, datasets=tuple(split_words(datasets)),
        profiles=both(profile, ("paper", "modern")), splits=both(splits, ("random", "group")),
        methods=tuple(split_words(methods)), seeds=seeds, weights=weights, device=device, workers=workers, out=out,
        export=export, skip_done=skip_done, quick=quick, time_limit=time_limit,
    )  # fmt: skip
    if plan:
        estimates = experiments.estimate(experiments.prepare(wishes)[0])
        return Answer(
            {"plan": [estimate._asdict() for estimate in estimates]}, tuple(experiments.plan_lines(estimates))
        )
    for folder in (wishes.folder, wishes.results):
        check_writable(next(place for place in (folder, *folder.absolute().parents) if place.exists()))
    with stoppable(f"what is finished is kept in {wishes.folder}; the same command goes on from there"):
        found = _run(wishes, quiet=screen.quiet)
        from adacsl.experiments.paper_report import write_report  # noqa: PLC0415

        pages = write_report(wishes.results, wishes.folder)
    return _answer(found, pages)


def _run(wishes: Wishes, *, quiet: bool) -> Reproduced:
    from adacsl.experiments.progress import Progress  # noqa: PLC0415
    from adacsl.experiments.reproduce import command_line  # noqa: PLC0415
    from adacsl.experiments.reproduce import reproduce as run  # noqa: PLC0415

    with Progress(1, quiet=quiet) as bar:
        return run(wishes, tell=bar, command=command_line("adacsl", *sys.argv[1:]))


def _answer(found: Reproduced, pages: list[Path]) -> Answer:
    files: list[Path] = [*found.files, *pages]
    document: dict[str, Any] = {
        "done": found.done, "total": found.total, "failed": list(found.failed), "stopped": found.stopped,
        "files": files,
    }  # fmt: skip
    shown = [f"{found.done} of {found.total} missing results are new"]
    if found.stopped:
        shown.append("the time limit was reached: the same command goes on from here")
    shown += [f"failed: {line}" for line in found.failed[:5]]
    if len(found.failed) > 5:
        shown.append(f"... and {len(found.failed) - 5} more")
    return Answer(document, (*shown, "", *map(str, files)), code=1 if found.failed else 0)


__all__ = ["reproduce"]
