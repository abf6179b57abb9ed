"""Training of boosters, whose class weight a controller can adapt."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from adacsl.adaptive.controller import AdaCSLController
from adacsl.datasets.ordinal_encoder import ColumnEncoder
from adacsl.execution.threads import threads_in_use
from adacsl.fitting.candidates import Candidate
from adacsl.fitting.rows import Rows
from adacsl.fitting.settings import make_controller, measured, trained_with
from adacsl.integrations.boosting import Matrix
from adacsl.learners.booster_model import BoosterModel, centred
from adacsl.learners.boosting_libraries import load_library
from adacsl.learners.sklearn import stakes_of

MANY = ("lambdas", "weights")
FOLDS, FEW = 5, 10_000
"""Without a controller, so many folds select the number of rounds of at most so many samples; of more one split."""
Folds: TypeAlias = list[tuple[NDArray[Any], NDArray[Any]]]
USUAL = {"update": "exponential", "damping": 0.1, "n_standard_errors": 1.0}
"""A round learns little, and many rounds sum up what each asks for: at the paper's full speed lambda ran to its bounds
where few held-out samples are close to the threshold, and separable data cost several times as much."""
USUAL_OF_MANY = {"damping": 0.02, "n_standard_errors": 1.0}
"""With more than two classes: a round learns little, and so each may move the weights but little."""


def fit_boosters(candidates: Sequence[Candidate], rows: Rows) -> Iterator[Candidate]:
    """Train boosters for each candidate: one per fold, or, without a controller, one of all samples."""
    # levels come from samples that may be learned from
    encoder = ColumnEncoder().fit(rows.to_encode(rows.use))
    matrix = Matrix(rows.encoded(encoder), rows.y, rows.weight, encoder.categories, rows.n_classes)
    for group in _groups(candidates, rows):
        if group[0].method.decide == "unweighted":
            # trees of many rounds carry the weights of many rounds: no single number undoes them
            raise ValueError(
                "decide='unweighted' is not for boosters, whose rounds had weights of their own; "
                "a plain booster at the Bayes threshold is target_threshold='bayes'"
            )
        if group[0].adapts:
            _boost(group[0], rows, matrix, encoder)
        else:
            _boost_without_controller(group, rows, matrix, encoder)
        yield from group


def _groups(candidates: Sequence[Candidate], rows: Rows) -> list[list[Candidate]]:
    """Return candidates that one boosting serves: those without a controller, with the same weights and folds."""
    groups: dict[Any, list[Candidate]] = {}
    for candidate in candidates:
        folds = [part.tobytes() for pair in _stopping_folds(candidate, rows) for part in pair]
        key = [repr(candidate.learner), candidate.seed, _learns_again(candidate, rows), *folds]
        if not candidate.is_plain:
            key += [candidate.costs.to_json(), candidate.target_threshold, candidate.instance_weighted]
        groups.setdefault(id(candidate) if candidate.adapts else repr(key), []).append(candidate)
    return list(groups.values())


def _boost(candidate: Candidate, rows: Rows, matrix: Matrix, encoder: ColumnEncoder) -> None:
    method, settings = candidate.method, candidate.learner
    library, usual = load_library(settings.chosen_library), USUAL if rows.n_classes == 2 else USUAL_OF_MANY
    models = []
    for fold, (train, held_out) in enumerate(candidate.folds):
        controller = make_controller(
            method.controller,
            candidate.class_costs,
            candidate.target_threshold,
            usual,
            instance_weighted=candidate.instance_weighted,
        )
        check_varies(matrix.x[train])
        held, trained = candidate.hold_out(rows, held_out), trained_with(controller, rows.n_classes)
        shift = candidate.shift(rows.y) + candidate.offsets(held_out)
        model, seen = library.boost(
            levelled(_part(matrix, train, candidate.row_weights(train, rows.y)), controller),
            _part(matrix, held_out),
            controller,
            **_options(candidate),
            every=settings.every,
            costs=None if rows.costs is None else candidate.costs.rows(held_out),
        )
        for number, (step, margins) in enumerate(zip(seen.history, seen.margins, strict=True)):
            held.look(centred(np.asarray(margins, dtype=np.float32)) + shift)
            about = {"round": number, "fold": fold} | trained | measured(step, rows.n_classes)
            candidate.history.append(about | {"val_cost": held.latest[0]})
            trained = trained_with(step, rows.n_classes)  # as the next round is
        candidate.held.append(held)
        models.append(_kept(library, model, held.best + 1))
    _finish(candidate, models, [held.best + 1 for held in candidate.held], rows, encoder)


def _boost_without_controller(group: Sequence[Candidate], rows: Rows, matrix: Matrix, encoder: ColumnEncoder) -> None:
    """Boost by the library's own means, which stop by the log loss; each candidate keeps the round it likes best."""
    first, folds = group[0], _stopping_folds(group[0], rows)
    library = load_library(first.learner.chosen_library)
    models = [_watched(group, rows, matrix, number, fold) for number, fold in enumerate(folds)]
    known: dict[int, Any] = {}
    for candidate in group:
        kept = [held.best + 1 for held in candidate.held]
        if not _learns_again(candidate, rows):
            chosen = [_kept(library, model, rounds) for model, rounds in zip(models, kept, strict=True)]
        else:
            candidate.judged = folds
            _judge_by_other_folds(candidate, rows, matrix, models)
            rounds = min(_rounds_of_all(kept, folds, rows), int(first.learner.n_estimators))
            known[rounds] = known.get(rounds) or _boost_all(first, rows, matrix, rounds)
            chosen, kept = [_kept(library, known[rounds], rounds)], [rounds]
        _finish(candidate, chosen, kept, rows, encoder)


def _watched(group: Sequence[Candidate], rows: Rows, matrix: Matrix, fold: int, split: tuple[Any, Any]) -> Any:
    """Return a booster of the samples of one fold; all candidates have looked at its rounds."""
    first, (train, held_out) = group[0], split
    check_varies(matrix.x[train])
    about = {"fold": fold} | _unmoved(first, rows.n_classes)
    moved = [candidate.shift(rows.y) + candidate.offsets(held_out) for candidate in group]
    for candidate in group:
        candidate.held.append(candidate.hold_out(rows, held_out))

    def look(margins: NDArray[Any]) -> None:
        logits = centred(np.asarray(margins, dtype=np.float32))
        for candidate, shift in zip(group, moved, strict=True):
            held = candidate.held[-1]
            held.look(logits + shift)
            candidate.history.append({"round": held.seen - 1} | about | {"val_cost": held.latest[0]})

    own, other = (_part(matrix, some, _weights(first, rows, some)) for some in split)
    library = load_library(first.learner.chosen_library)
    return library.boost_plainly(own, other, look, **_options(first))


def _unmoved(candidate: Candidate, n_classes: int) -> dict[str, Any]:
    """Return lambda and weight of every round, for the history."""
    if not candidate.is_plain:
        return trained_with(
            AdaCSLController(candidate.class_costs, target_threshold=candidate.target_threshold), n_classes
        )
    return {"lambda": 1.0, "weight": 1.0} if n_classes == 2 else dict.fromkeys(MANY, [1.0] * n_classes)


def _boost_all(candidate: Candidate, rows: Rows, matrix: Matrix, rounds: int) -> Any:
    """Return a booster of so many rounds of all samples."""
    whole = _part(matrix, rows.use, _weights(candidate, rows, rows.use))
    options = _options(candidate) | {"rounds": rounds, "patience": None}
    library = load_library(candidate.learner.chosen_library)
    return library.boost_plainly(whole, whole, lambda _: None, **options)


def _judge_by_other_folds(candidate: Candidate, rows: Rows, matrix: Matrix, models: Sequence[Any]) -> None:
    """Score each fold's held-out samples after the number of rounds that is best for the other folds.

    What half a fold chooses varies more than the mean over folds that the model of all samples takes.
    """
    kept = [held.best + 1 for held in candidate.held]
    if len(kept) < 2:
        return
    library = load_library(candidate.learner.chosen_library)
    for number, (held, model) in enumerate(zip(candidate.held, models, strict=True)):
        rounds = min(max(1, round(float(np.mean(kept[:number] + kept[number + 1 :])))), held.seen)
        margins = library.margins(_kept(library, model, rounds), _part(matrix, held.rows))
        shift = candidate.shift(rows.y) + candidate.offsets(held.rows)
        held.judge_by(centred(np.asarray(margins, dtype=np.float32)) + shift)


def _rounds_of_all(kept: Sequence[int], folds: Folds, rows: Rows) -> int:
    """Return how many rounds all samples take: as many for each sample as were best where a part was held out."""
    share = float(np.mean([len(train) for train, _ in folds])) / len(rows.use)
    return max(1, round(float(np.mean(kept)) / share))


def _learns_again(candidate: Candidate, rows: Rows) -> bool:
    """Return whether the final model is fitted on all samples: not in a cross-fit or with separate validation data."""
    return candidate.method.cv is None and rows.validation is None and not candidate.adapts


def _stopping_folds(candidate: Candidate, rows: Rows) -> Folds:
    """Return the splits that select the number of rounds: five folds of few samples, else one split."""
    # the plain one of "auto" is judged by the samples that judge the others; folds of a time would be windows
    alone = _learns_again(candidate, rows) and candidate.method.target_threshold != "auto" and rows.line is None
    if alone and len(rows.use) <= FEW:
        with contextlib.suppress(ValueError):  # too few of a class, or groups, for five folds
            return rows.folds(FOLDS, None, candidate.seed)
    return candidate.folds


def _weights(candidate: Candidate, rows: Rows, some: NDArray[Any]) -> NDArray[np.float64] | None:
    return None if candidate.is_plain else stakes_of(candidate, rows, some)


def _options(candidate: Candidate) -> dict[str, Any]:
    settings = candidate.learner
    # the others go by OpenMP
    usual = {"thread_count": threads_in_use()} if settings.chosen_library == "catboost" else {}
    return {
        "rounds": settings.n_estimators, "learning_rate": settings.learning_rate, "seed": candidate.seed % 2**31,
        "params": usual | (settings.params or {}), "verbose": candidate.method.verbose, "patience": settings.patience,
    }  # fmt: skip


def _kept(library: Any, model: Any, rounds: int) -> Any:
    """Return the rounds to keep, through bytes: what predicts is what would be saved, without callbacks and data."""
    return library.from_bytes(library.to_bytes(model, rounds))


def _finish(candidate: Candidate, models: list[Any], kept: list[int], rows: Rows, encoder: ColumnEncoder) -> None:
    models, rounds = candidate.deciding(models), candidate.deciding(kept)
    candidate.model = BoosterModel(candidate.learner.chosen_library, models, rounds, encoder)
    candidate.extra = {"epoch": float(np.mean(kept)) - 1.0}
    if candidate.watch is not None:
        candidate.watched = candidate.model.logits(rows.take(candidate.watch))


def check_varies(x: NDArray[Any]) -> None:
    """Refuse training samples without a varying column: each library fails on them in its own way."""
    if not np.any((x != x[:1]) & ~(np.isnan(x) & np.isnan(x[:1]))):
        raise ValueError(
            f"every column is constant in the {len(x)} training rows: there is nothing to learn from; "
            "give columns that differ, or more rows"
        )


def _part(matrix: Matrix, rows: NDArray[Any], stakes: NDArray[np.float64] | None = None) -> Matrix:
    weight = None if matrix.weight is None else matrix.weight[rows]
    if stakes is not None:
        weight = stakes if weight is None else stakes * weight
    return Matrix(matrix.x[rows], matrix.y[rows], weight, matrix.categories, matrix.n_classes)


def levelled(part: Matrix, controller: AdaCSLController) -> Matrix:
    """Return samples weighted by class, with a mean weight of 1: the sum of weights acts on the regularisation.

    More than two classes are levelled round by round.
    """
    if part.n_classes > 2:
        return part
    own = np.ones(len(part.y)) if part.weight is None else part.weight
    return part._replace(weight=own / np.mean(controller.base_weights[part.y.astype(np.int64)]))
