"""Results of monitoring: figures, recommendation and text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from adacsl.base.html import html_lines
from adacsl.metrics.intervals import Interval
from adacsl.monitoring.drift import PriorShift, ScoreShift
from adacsl.storage.documents import plain

FEW_ROWS = 30
"""Of fewer rows there are intervals and no recommendation, unless labels of each class are enough."""


class Constant(NamedTuple):
    """The best constant decision about the labelled samples; costs are per sample.

    ``saving``: what it saves against the model's decisions; ``saving_retuned``: against those of a re-tuned decision
    rule (None where there is none).
    """

    decision: str
    cost: float
    saving: Interval
    saving_retuned: Interval | None


class Labelled(NamedTuple):
    """Results on the samples with labels; costs are per sample.

    ``dearer``: by how much ``cost`` exceeds the model's ``estimated_cost_``. ``saving``: what a re-tuned decision rule
    would save (None where a class has fewer than ten samples). ``threshold``: the cost-optimal probability on these
    samples with its interval; ``decided_at``: the present one. ``shares``: of the classes; ``moved``: whether they
    differ significantly from those in training (None: not known). ``constant``: the best constant decision (None where
    a class has fewer than ten samples).
    """

    cost: Interval
    promised: Interval | None
    dearer: Interval | None
    calibration_error: float
    calibration_then: float | None
    saving: Interval | None
    threshold: Interval | None
    decided_at: float | None
    shares: tuple[Interval, ...]
    moved: bool | None
    constant: Constant | None


class ShiftedCosts(NamedTuple):
    """Expected costs per sample under the estimated class prior: of the present decisions, and of those under it."""

    cost: float
    anew: float

    @property
    def saving(self) -> float:
        """What decisions under the estimated prior are expected to save per sample."""
        return self.cost - self.anew


class Window(NamedTuple):
    """The samples of a time window: cost (of those with labels), expected cost, shares of decisions, score shift."""

    name: str
    rows: int
    labelled: int
    cost: Interval | None
    expected: float
    decided: NDArray[np.float64]
    psi: float | None


@dataclass(frozen=True, eq=False, repr=False)
class Monitoring:
    """The result of :func:`adacsl.monitor` about a deployed model.

    Attributes
    ----------
    rows, labelled : int
        The number of samples, and of those with labels.
    classes, actions : tuple of str
        Names in the order of the numbers; of two classes, the positive one is second. Without a policy the actions are
        the classes.
    level, tolerance : float
        Coverage of the intervals; the share of the cost that matters.
    expected : Interval
        Mean cost per sample by the model's own probabilities.
    decided : (array or None, array)
        The share of each decision: among the held-out samples of the training, and now.
    scores : ScoreShift or None
        None for models that know no held-out scores.
    prior : PriorShift or None
        The class prior in training, and as estimated from the probabilities.
    redecided : ShiftedCosts or None
        The expected costs under this prior.
    labels : Labelled or None
        Results on the samples with labels.
    windows : tuple of Window
        The same by time, where a time was given.
    """

    rows: int
    labelled: int
    classes: tuple[str, ...]
    actions: tuple[str, ...]
    level: float
    tolerance: float
    expected: Interval
    decided: tuple[NDArray[np.float64] | None, NDArray[np.float64]]
    scores: ScoreShift | None
    prior: PriorShift | None
    redecided: ShiftedCosts | None
    labels: Labelled | None
    windows: tuple[Window, ...]

    def __repr__(self) -> str:
        return f"Monitoring({self.rows} rows, {self.labelled} labelled, recommendation={self.recommendation!r})"

    @property
    def retune(self) -> bool:
        """Whether to re-tune the decision rule: not doing so costs more than the tolerance."""
        if not self.enough:
            return False
        if self.labels is not None and self.labels.saving is not None:
            return self.labels.saving.low > self.tolerance * abs(self.labels.cost.estimate)
        if self.prior is None or self.redecided is None:
            return False
        return self.prior.excluded and self.redecided.saving > self.tolerance * abs(self.redecided.cost)

    @property
    def by_labels(self) -> bool:
        """Whether there are enough labels to judge by them."""
        return self.labels is not None and self.labels.saving is not None

    @property
    def enough(self) -> bool:
        """Whether there are enough samples, or labels, for a recommendation."""
        return self.by_labels or self.rows >= FEW_ROWS

    @property
    def constant_cheaper(self) -> bool:
        """Whether a constant decision costs significantly less than the model, and by more than the tolerance."""
        found = self.labels
        if found is None or found.constant is None:
            return False
        return found.constant.saving.low > self.tolerance * abs(found.cost.estimate)

    @property
    def dearer(self) -> bool:
        """Whether the cost is significantly above the estimate, and by more than the tolerance."""
        found = self.labels
        if found is None or found.dearer is None or found.promised is None:
            return False
        if not self.by_labels and self.labelled < FEW_ROWS:
            return False
        return found.dearer.low > self.tolerance * abs(found.promised.estimate)

    @property
    def moved(self) -> bool:
        """Whether the class prior has changed significantly, and by more than the tolerance."""
        if self.prior is None or not self.enough:
            return False
        now, excluded = self.prior.now, self.prior.excluded
        then = self.prior.then if self.prior.assumed is None else self.prior.assumed
        if self.labels is not None and self.by_labels and self.labels.moved is not None:
            now, excluded = np.asarray([share.estimate for share in self.labels.shares]), self.labels.moved
        return excluded and bool((np.abs(now - then) > self.tolerance * then).any())

    @property
    def shifted(self) -> bool:
        """Whether there is drift: of scores, class prior, or cost."""
        return self.moved or self.dearer or self._scores_shifted

    @property
    def _scores_shifted(self) -> bool:
        return self.enough and self.scores is not None and self.scores.shifted

    @property
    def recommendation(self) -> str:
        """``"retune"``, ``"look"`` (something has changed, or a constant costs less), ``"well"`` or ``"unresolved"``.

        The last where there are too few rows for a recommendation.
        """
        if not self.enough:
            return "unresolved"
        return "retune" if self.retune else "look" if self.shifted or self.constant_cheaper else "well"

    @property
    def loss(self) -> Interval | None:
        """What not re-tuning costs per sample: by labels with its interval, else as expected; None where unknown."""
        if self.labels is not None and self.labels.saving is not None:
            return self.labels.saving
        return None if self.redecided is None else Interval(self.redecided.saving, np.nan, np.nan)

    @property
    def headline(self) -> str:
        """The recommendation as a sentence, with what not re-tuning costs per 1,000 rows."""
        if not self.enough:
            least = f"below {FEW_ROWS} at least ten labels of each class are needed"
            return f"No recommendation: {self.rows} samples are too few ({least}); see the intervals."
        if self.retune and self.loss is not None:
            loss = f"{_thousand(self.loss, self.level)} per 1,000 rows"
            return f"Retune: not doing so costs {loss}{_constant_below_retuned(self)}."
        if self.constant_cheaper or self.shifted:
            return f"Look at it: {' and '.join(_to_look_at(self))}."
        return _nothing_changed(self)

    @property
    def worth(self) -> str:
        """The tolerance in words."""
        return f"{self.tolerance:.3g} of the cost" if self.tolerance < 0.001 else f"{self.tolerance:.1%} of the cost"

    @property
    def sentences(self) -> list[str]:
        """The findings in plain words, the recommendation first."""
        about = (_about_rows, _about_labels, _about_constant, _about_prior, _about_scores)
        return [self.headline, *(sentence for part in about for sentence in part(self))]

    def _repr_html_(self) -> str:
        return html_lines(*self.sentences)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain JSON values."""
        names = (
            "rows",
            "labelled",
            "classes",
            "actions",
            "level",
            "tolerance",
            "recommendation",
            "retune",
            "shifted",
            "sentences",
        )
        (then, now), again = self.decided, self.redecided
        found = {name: getattr(self, name) for name in names} | {
            "expected": _interval(self.expected),
            "decided": {"then": then, "now": now},
            "scores": None if self.scores is None else self.scores._asdict() | {"shifted": self.scores.shifted},
            "prior": None if self.prior is None else self.prior._asdict(),
            "redecided": None if again is None else again._asdict() | {"saving": again.saving},
            "labels": None if self.labels is None else _plain_tuple(self.labels),
            "windows": [_plain_tuple(window) for window in self.windows],
        }
        document: dict[str, Any] = plain(found)
        return document


def _interval(interval: Interval) -> dict[str, Any]:
    return dict(interval._asdict())


def _plain_tuple(found: Any) -> dict[str, Any]:
    cells = dict(found._asdict())
    if "shares" in cells:
        cells["shares"] = [_interval(share) for share in cells["shares"]]
    if isinstance(cells.get("constant"), Constant):
        cells["constant"] = _plain_tuple(cells["constant"])
    return {name: _interval(cell) if isinstance(cell, Interval) else cell for name, cell in cells.items()}


# words


def _to_look_at(found: Monitoring) -> Iterator[str]:
    """Yield what is no reason to retune, and is to be looked at."""
    constant = found.labels.constant if found.labels is not None else None
    if found.constant_cheaper and constant is not None:
        less = f"{_thousand(constant.saving, found.level)} per 1,000 rows less than the model"
        yield f"always deciding {constant.decision} costs {less}, and retuning would not clearly save as much"
    if found.shifted:
        changed = {
            "the class shares": found.moved,
            "the cost": found.dearer,
            "the scores": found._scores_shifted,
        }
        names = [name for name, has in changed.items() if has]
        told = " and ".join((", ".join(names[:-1]), names[-1]) if len(names) > 1 else names)
        has = "has" if names == ["the cost"] else "have"
        but = "" if found.constant_cheaper else f", but retuning would not clearly save more than {found.worth}"
        yield f"{told} {has} changed{but}"


def _nothing_changed(found: Monitoring) -> str:
    labels = found.labels
    if labels is not None and labels.constant is not None and labels.constant.saving.estimate > 0:
        but = f"but always deciding {labels.constant.decision} would have cost less on these rows"
        return f"Nothing has changed that is worth retuning, {but}."
    if labels is not None and not found.by_labels and found.labelled < FEW_ROWS:
        few = f"{found.labelled} labelled samples are too few to judge by their cost"
        return f"No drift: scores and class shares are as in training; {few}."
    return "All is well: nothing has changed that is worth retuning."


def _constant_below_retuned(found: Monitoring) -> str:
    """Return that a constant decision costs less than the re-tuned model, where it does."""
    constant = found.labels.constant if found.labels is not None else None
    if constant is None or constant.saving_retuned is None or constant.saving_retuned.estimate <= 0:
        return ""
    less = _against(constant.saving_retuned, found, "the re-tuned model")
    return f"; always deciding {constant.decision} costs {less}"


def _about_constant(found: Monitoring) -> Iterator[str]:
    constant = found.labels.constant if found.labels is not None else None
    if constant is None:
        return
    now = _against(constant.saving, found, "the model")
    again = (
        "" if constant.saving_retuned is None else f"; {_against(constant.saving_retuned, found, 'the re-tuned model')}"
    )
    yield f"The best constant decision, {constant.decision}, costs {constant.cost:.4g} per row: {now}{again}."


def _against(saving: Interval, found: Monitoring, what: str) -> str:
    worse = saving.estimate < 0
    gap = Interval(-saving.estimate, -saving.high, -saving.low) if worse else saving
    chance = ", no significant difference" if saving.low <= 0 <= saving.high else ""
    return f"{_thousand(gap, found.level)} per 1,000 rows {'more' if worse else 'less'} than {what}{chance}"


def _between(interval: Interval, level: float, scale: float = 1.0) -> str:
    return f"{level * 100:g} % interval {scale * interval.low:.4g} to {scale * interval.high:.4g}"


def _thousand(loss: Interval, level: float) -> str:
    sure = f" ({_between(loss, level, 1000)})" if np.isfinite(loss.low) else ""
    return f"{1000 * loss.estimate:.4g}{sure}"


def _about_rows(found: Monitoring) -> Iterator[str]:
    labels = "none of them with a label" if not found.labelled else f"{found.labelled:,} of them with a label"
    labels = "all of them with a label" if found.labelled == found.rows else labels
    then, now = found.decided
    names = found.actions
    shown = [1] if len(now) == 2 else np.argsort(-now, kind="stable")[:3].tolist()
    before = ["" if then is None else f" ({then[k]:.1%} in training)" for k in range(len(now))]
    told = ", ".join(f"{now[k]:.1%} {names[k]}{before[k]}" for k in shown)
    yield f"{found.rows:,} rows, {labels}; decided: {told}."
    expected = f"{found.expected.estimate:.4g} ({_between(found.expected, found.level)})"
    yield f"By the model's probabilities a row costs {expected}."


def _about_labels(found: Monitoring) -> Iterator[str]:
    labels = found.labels
    if labels is None:
        return
    text = f"Rows with a label have cost {labels.cost.estimate:.4g} each ({_between(labels.cost, found.level)})"
    if labels.promised is not None and labels.dearer is not None:
        chance = "" if labels.dearer.low > 0 or labels.dearer.high < 0 else ", which may be chance"
        told = f"a difference of {labels.dearer.estimate:.4g} ({_between(labels.dearer, found.level)})"
        text += f"; the training promised {labels.promised.estimate:.4g}, {told}{chance}"
    yield f"{text}."
    then = "" if labels.calibration_then is None else f", {labels.calibration_then:.3f} in training"
    yield f"Calibration error {labels.calibration_error:.3f}{then}."
    if labels.threshold is not None and labels.decided_at is not None:
        cut = labels.threshold
        yield (
            f"Decided at probability {labels.decided_at:.4g}; cheapest on these rows: {cut.estimate:.4g} "
            f"({_between(cut, found.level)})."
        )
    if labels.saving is None:
        yield "Too few labels to tell what re-tuning would save: that needs at least ten rows of each class."
    else:
        saving = labels.saving
        worse = saving.estimate < 0
        word, gain = ("lose", Interval(-saving.estimate, -saving.high, -saving.low)) if worse else ("save", saving)
        yield f"Retuning on these rows would {word} {_thousand(gain, found.level)} per 1,000 rows."


def _about_prior(found: Monitoring) -> Iterator[str]:
    prior, again = found.prior, found.redecided
    if prior is None or again is None:
        return
    # of many classes the one that has moved most
    k = 1 if len(prior.then) == 2 else int(np.argmax(np.abs(np.log(np.maximum(prior.ratio, 1e-12)))))
    if found.labels is not None:
        share = found.labels.shares[k]
        yield f"Of the rows with a label {share.estimate:.2%} are {found.classes[k]} ({_percents(*share[1:], found)})."
    chance = "" if prior.excluded else ", which may be chance"
    if prior.assumed is not None:
        chance = f", {prior.assumed[k]:.2%} assumed by the policy"
    told = f"{prior.now[k]:.2%} ({_percents(prior.low[k], prior.high[k], found)})"
    yield (
        f"The share of {found.classes[k]}, as far as the probabilities tell: {told}; "
        f"{prior.then[k]:.2%} in training{chance}."
    )
    if prior.excluded and found.enough:
        yield (
            f"With these shares a row costs {again.cost:.4g}, and {again.anew:.4g} if they are known to the decision: "
            f"{1000 * again.saving:.4g} per 1,000 rows less."
        )


def _percents(low: float, high: float, found: Monitoring) -> str:
    return f"{found.level * 100:g} % interval {low:.2%} to {high:.2%}"


def _about_scores(found: Monitoring) -> Iterator[str]:
    scores = found.scores
    if scores is None:
        yield "The model knows no held-out scores: whether the rows have changed cannot be told."
        return
    whose = "" if len(found.classes) == 2 else f" (of {found.classes[scores.place]})"
    how = " have changed" if scores.shifted else " are distributed as in training"
    how = how if found.enough else ""
    yield f"The scores{whose}{how}: PSI {scores.psi:.3f} (a shift from {scores.limit:.3g} on), KS {scores.ks:.3f}."
