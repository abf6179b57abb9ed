"""The page about images: every claim of the paper and of ours with the comparisons that speak for and against it.

    python -m benchmarks.quality.claims_page benchmarks/results/claims.md  # from claims.* and claims_pv.* there

A claim states that one method costs less than another. Confirmed: the 95 % interval of every comparison named lies
below 0. Refuted: one lies above 0. In part: some below, none above. Not confirmed: none below, none above.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.quality.claims import Decisions, extra_percent, means

RESULTS = Path(__file__).parents[1] / "results"
DATA = {"HAM10K": "claims", "PV-D": "claims_pv"}
ALL = (1.0, 3.0, 5.0)
MIDDLE = (3.0,)


class Pair(NamedTuple):
    """Who is compared with whom, where."""

    ours: str
    against: str
    form: str = "one, best"
    ks: tuple[float, ...] = ALL
    part: str = "main"
    setting: str = ""
    data: str = "HAM10K"
    other_form: str | None = None  # of the other method; default: the same
    other_part: str | None = None
    prevalence: float = 1.0


class Claim(NamedTuple):
    """A sentence, whose it is, and what tests it."""

    words: str
    source: str
    pairs: Sequence[Pair]


LAST, FIVE, FIVE_LAST = "one, last", "five, best", "five, last"

CLAIMS = (
    Claim("AdaCSL costs less than cross-entropy at threshold 0.5", "paper", [Pair("adacsl", "net")]),
    Claim("... on PV-D too", "paper", [Pair("adacsl", "net", data="PV-D")]),
    Claim("AdaCSL costs less than cross-entropy weighted by the costs", "paper", [Pair("adacsl", "net-weighted")]),
    Claim("... on PV-D too", "paper", [Pair("adacsl", "net-weighted", data="PV-D")]),
    Claim(
        "One network, best epoch: it costs less than a Bayes, tuned or calibrated threshold",
        "ours",
        [Pair("adacsl", "net-bayes"), Pair("adacsl", "net-tuned"), Pair("adacsl", "net-calibrated")],
    ),
    Claim(
        "Last epoch, none chosen: it costs less than a Bayes threshold and than a fixed weight",
        "ours",
        [Pair("adacsl", "net-bayes", LAST), Pair("adacsl", "net-weighted", LAST)],
    ),
    Claim(
        "... also when all three are calibrated",
        "ours",
        [
            Pair("adacsl-calibrated", "net-calibrated", LAST),
            Pair("adacsl-calibrated", "net-weighted-calibrated", LAST),
        ],
    ),
    Claim(
        "Its last epoch costs less than its best one: nothing has to be chosen",
        "ours",
        [Pair("adacsl", "adacsl", LAST, other_form="one, best")],
    ),
    Claim(
        "Five cross-fitted networks: it costs less than a fixed weight, and T' = T less than a Bayes threshold",
        "ours",
        [
            Pair("adacsl", "net-weighted", FIVE, ALL, "crossed"),
            Pair("adacsl-bayes", "net-bayes", FIVE, MIDDLE, "crossed"),
        ],
    ),
    Claim(
        "... last epoch, all calibrated (seen at k = 3, then tested at 1 and 5)",
        "ours",
        [
            Pair("adacsl-calibrated", name, FIVE_LAST, ALL, "crossed")
            for name in ("net-calibrated", "net-weighted-calibrated")
        ],
    ),
    Claim(
        "... against rivals in their best epoch",
        "ours",
        [
            Pair("adacsl-calibrated", name, FIVE_LAST, ALL, "crossed", other_form=FIVE)
            for name in ("net-bayes", "net-tuned", "net-calibrated", "net-weighted", "net-weighted-calibrated")
        ],
    ),
    Claim(
        "T' = T, adapted, costs less than plain cross-entropy with the Bayes threshold",
        "ours",
        [Pair("adacsl-bayes", "net-bayes"), Pair("adacsl-bayes", "net-bayes", LAST)],
    ),
    Claim(
        "... on PV-D too",
        "ours",
        [Pair("adacsl-bayes", "net-bayes", form, data="PV-D") for form in ("one, best", LAST)],
    ),
    Claim(
        "With 2, 5, 15 % of the lesions to adapt on it costs less than a fixed weight",
        "ours",
        [
            Pair("adacsl", "net-weighted", "one, best", MIDDLE, "validation", share)
            for share in ("0.02", "0.05", "0.15")
        ],
    ),
    Claim(
        "... in the last epoch",
        "ours",
        [Pair("adacsl", "net-weighted", LAST, MIDDLE, "validation", share) for share in ("0.02", "0.05", "0.15")],
    ),
    Claim(
        "With 10, 20 % of the labels wrong it costs less than a fixed weight",
        "ours",
        [
            Pair("adacsl", "net-weighted", form, MIDDLE, "noise", share)
            for share in ("0.1", "0.2")
            for form in ("one, best", LAST)
        ],
    ),
    Claim(
        "Where positives are 3 times as frequent, or a third, it costs less than calibrated cross-entropy",
        "ours",
        [Pair("adacsl", "net-calibrated", ks=MIDDLE, prevalence=times) for times in (3.0, 1 / 3)],
    ),
    Claim(
        "Images enlarged to 128 x 128: the last epoch costs less than a Bayes threshold and a fixed weight",
        "ours",
        [Pair("adacsl", name, LAST, MIDDLE, "enlarged", "128") for name in ("net-bayes", "net-weighted")],
    ),
    Claim(
        "... and than calibrated ones, calibrated itself",
        "ours",
        [
            Pair("adacsl-calibrated", name, LAST, MIDDLE, "enlarged", "128")
            for name in ("net-calibrated", "net-weighted-calibrated")
        ],
    ),
    Claim(
        "Averaging five cross-fitted networks costs less than one network, whatever the loss",
        "ours",
        [
            Pair(name, name, FIVE, ALL, "crossed", other_form="one, best", other_part="main")
            for name in ("net-bayes", "net-weighted", "adacsl")
        ],
    ),
)

PAGE = """\
<!-- made by benchmarks/quality/claims_page.py: do not edit -->
# Adaptation on images

Every claim of the paper and of ours that can be tested on these images, with its evidence. Pretrained
ResNet-18, 64 x 64, 12 epochs, two repeats of five folds, **by lesion** (HAM10K: 10,015 images of 7,470 lesions,
melanoma against the rest) and **by leaf** (PV-D: 10,227 images, healthy against diseased); inverse priors, false
negatives k times as costly. 20 % of the training groups adapt, select, calibrate and tune, the same for all methods.

A number is the excess cost of the first method over the second in percent (below 0: it costs less), with its 95 %
interval: Student's t on paired per-sample costs, by lesion or leaf, over repeated cross-validation, groups and fits
counted ([power and coverage](statistics.md)). Confirmed: every interval lies below 0. Refuted: one lies above. In part:
some below, none above. These are many comparisons: of twenty intervals one excludes 0 at random. The costs themselves:
[cost of each method on images](claims_costs.md).
"""

COSTS = """\
<!-- made by benchmarks/quality/claims_page.py: do not edit -->
# Cost of each method on images

The means behind [adaptation on images](claims.md), where methods are compared with intervals. Mean cost per
image; 1: predicting everything positive.
"""

MEANING = """
**Summary.** Adaptation helps an over-confident network at its last epoch, without early stopping or calibration.
Selecting the epoch, calibrating or tuning a threshold does the same; with equal averaging and calibration a lead seen
at one cost ratio was gone at the two others. Averaging five cross-fitted networks helps every loss. On a nearly
separable task (PV-D) a threshold is enough; with small validation sets or wrong labels, adaptation hurts.
"""

PARTS = {
    "main": "one network",
    "crossed": "five cross-fitted networks",
    "validation": "smaller validation set (share of the training lesions)",
    "noise": "wrong labels (share)",
    "enlarged": "images enlarged (side)",
}


def page() -> str:
    """Return the claims and what tests them."""
    held = {name: Decisions.load(RESULTS / f"{file}.npz") for name, file in DATA.items()}
    tested = [{(pair, k): judged(pair, k, held) for pair in claim.pairs for k in pair.ks} for claim in CLAIMS]
    parts = [PAGE, "## The claims\n", "| | claim | source | result |", "|---|---|---|---|"]
    parts += [
        f"| {number} | {claim.words} | {claim.source} | {recommendation(result.values())} |"
        for number, (claim, result) in enumerate(zip(CLAIMS, tested, strict=True), 1)
    ]
    parts += [
        MEANING,
        "## Comparisons\n",
        f"| | method | against | where | {' | '.join(f'k = {k:g}' for k in ALL)} |",
    ]
    parts.append("|" + "---|" * (4 + len(ALL)))
    parts += [
        line(number, pair, result)
        for number, result in enumerate(tested, 1)
        for pair in dict.fromkeys(c for c, _ in result)
    ]
    parts += ["", *(source(file) for file in DATA.values())]
    return "\n".join(parts)


def costs_page() -> str:
    """Return what each method costs, whatever is claimed."""
    parts = [COSTS]
    for name, file in DATA.items():
        held = Decisions.load(RESULTS / f"{file}.npz")
        parts += [f"## {name}\n", *costs(held), source(file)]
    return "\n".join(parts)


def line(number: int, pair: Pair, result: dict[tuple[Pair, float], tuple[float, float, float]]) -> str:
    """Return the row of one pair: its result at each k."""
    cells = []
    for k in ALL:
        mean, low, high = result.get((pair, k), (math.nan,) * 3)
        cells.append("" if math.isnan(mean) else f"{mean:+.1f} ({low:.1f} to {high:.1f})")
    return f"| {number} | {pair.ours} | {pair.against} | {place(pair)} | {' | '.join(cells)} |"


def judged(pair: Pair, k: float, held: dict[str, Decisions]) -> tuple[float, float, float]:
    """Return the excess cost of the first method in percent, with its interval."""
    own = held[pair.data]
    ours = own.costs(pair.part, pair.setting, pair.form, pair.ours, k)
    theirs = own.costs(pair.other_part or pair.part, pair.setting, pair.other_form or pair.form, pair.against, k)
    return extra_percent(own, ours, theirs, pair.prevalence)


def recommendation(result: Iterable[tuple[float, float, float]]) -> str:
    """Return what the intervals of a claim say together."""
    ends = [(low, high) for _, low, high in result]
    below, above = sum(high < 0 for _, high in ends), sum(low > 0 for low, _ in ends)
    if above:
        return "**refuted**"
    return "confirmed" if below == len(ends) else "in part" if below else "not confirmed"


def place(pair: Pair) -> str:
    """Return where they are compared, in few words."""
    form = f"{pair.form} / {pair.other_form}" if pair.other_form else pair.form
    setting = f"{PARTS[pair.part].split(' (')[0]}, {pair.setting}" if pair.setting else ""
    moved = "" if pair.prevalence == 1.0 else f"positives x {pair.prevalence:.2g}"
    return "; ".join(part for part in (pair.data, form, setting, moved) if part)


def costs(held: Decisions) -> Iterator[str]:
    """Yield the tables of mean costs."""
    result = means(held, list(ALL))
    for part, title in PARTS.items():
        own = result[result["part"] == part].drop(columns="part").dropna(axis=1, how="all")
        if len(own):
            head = f"{title[0].upper()}{title[1:]}"
            shown = " open" if part == "main" else ""
            yield f"<details{shown}>\n<summary>{head}</summary>\n\n{table(own)}\n\n</details>\n"


def table(frame: pd.DataFrame) -> str:
    """Return a frame as Markdown."""
    frame = frame.loc[:, [name for name in frame if not (frame[name] == "").all()]]
    rows = [
        [f"{v:.3f}" if isinstance(v, float | np.floating) else str(v) for v in row]
        for row in frame.itertuples(index=False)
    ]
    lines: list[list[Any]] = [list(frame.columns), ["---"] * frame.shape[1], *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def source(file: str) -> str:
    """Return where the numbers come from."""
    about = json.loads((RESULTS / f"{file}.meta.json").read_text())
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    note = f" {about['note']}." if "note" in about else ""
    run = f"{about['date']}; {about['device']}; {versions}; `{about['command']}`"
    return f"{run}; `benchmarks/results/{file}.csv`.{note}\n"


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.write_text(page())
    path.with_name("claims_costs.md").write_text(costs_page())
