"""Method: a classifier that minimises cost, put together from parts."""

from __future__ import annotations

import functools
import math
from numbers import Integral
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.arrays import refuse_reordered
from adacsl.core.costs import CostMatrix, as_host
from adacsl.core.curves import calibration_error
from adacsl.core.heldout import kept_sample, pooled
from adacsl.core.intervals import Interval, mean_interval, saving_over_constant
from adacsl.core.labels import same_label
from adacsl.core.partitions import Quantile
from adacsl.core.scores import known, to_probabilities
from adacsl.datasets.times import take_times
from adacsl.estimators.acting import training_prior
from adacsl.estimators.averaging import CROSS_FITTED, add_seconds, averaged_costs
from adacsl.estimators.candidates import Candidate, usual_costs
from adacsl.estimators.checking import check_method
from adacsl.estimators.decision import Decision
from adacsl.estimators.numbered import spoken_labels
from adacsl.estimators.policy import Policy
from adacsl.estimators.predicting import CostClassifier
from adacsl.estimators.prices import given_per_sample, settle_rows
from adacsl.estimators.reading import features_of, labels_in_order, read_rows, with_times
from adacsl.estimators.rows import Rows
from adacsl.estimators.settings import find_targets, keeps_settings, natural_threshold
from adacsl.extras import requires
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
    from sklearn.utils import check_random_state

HISTORY = ("fold", "target", "adapted", "lambda", "weight", "threshold", "val_cost")
CLASS_HISTORY = ("fold", "target", "adapted", "lambdas", "weights", "val_cost")
PLAIN = "plain"
"""What ``target_costs_`` calls the candidate that does not adapt, where others do."""


class Method(CostClassifier):
    """A way to decide at the least cost: what learns, with which loss, steered or not, how it decides.

    :func:`adacsl.method` makes one by its name; ``AdaCSLClassifier`` and the other classifiers are such methods with
    names and defaults of their own.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost: of two classes, or K x K. A matrix without class names is in the order of the sorted
        labels. Default: the inverse class frequencies of the training labels (``CostMatrix.balanced(y)``). Prices may
        depend on columns of X, ``CostMatrix(fp=1, fn="0.8 * amount")``; arrays of them (two classes) are given to
        :meth:`fit` and :meth:`predict`.
    learner : {"net", "boosting", "metacost", "constant"}, Net, Booster, Model or classifier
        The default net for tables or images; a booster (the installed library, or scikit-learn's); MetaCost around it;
        no learning; or any scikit-learn classifier, for tables.
    resample : {None, "oversample", "undersample", "smote"}
        Train nets on balanced classes. The probabilities are corrected for it before anything is decided.
    loss : {"plain", "weighted", "row-weighted", "focal", "logit-adjusted"} or callable
        Cross-entropy; weighted by the costs of the classes; also by each row's own price, where rows have prices; the
        weighted focal loss; shifted by the odds of the Bayes threshold; or, for nets, ``loss(logits, labels,
        costs=...)``, element by element.
    controller : None, "auto", dict or AdaptiveWeight
        AdaCSL: steer the weight by the held-out rows. None keeps lambda at 1; "auto" steers as was cheapest for that
        kind of learner, and a dict changes parts of that (``{"caution": 2}``); an AdaptiveWeight is copied (its costs
        and target are the method's). Needs ``loss="weighted"`` or ``"row-weighted"``.
    target : float, "bayes", "middle" or "auto", default 0.5
        T', the score a weighted loss makes right to decide at. "bayes": T' = T; "middle": the geometric middle of the
        odds of T and 0.5; "auto": all three are trained, and with a controller one more that does not adapt (plain
        cross-entropy, T' = T); the held-out cost decides.
    decide : str
        How scores become decisions, see :class:`~adacsl.Decision`; "auto": "calibrated" where one split of a table of
        two classes holds out at least 150 rows, and prices are the same for all of them; else "bayes".
    select : {"best", "last", "log-loss"}
        Keep each model's cheapest epoch (or round) on its held-out rows, its last, or the one whose log loss is least.
    cv : None, int or splitter, default None
        Cross-fitting: one model per fold, each adapted on the fold it did not train on; their log-odds are averaged. A
        number of folds of a table is fitted twice, on other folds the second time, for the sake of ``estimated_cost_``.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of the rows, or data of its own, that adapts, selects and tunes. Where there is
        nothing to select, the model is fitted on all rows, and held-out scores come from five folds.
    positive : label, optional
        The class ``fn`` speaks of: missing it is a false negative. 0/1, -1/1 and False/True need no naming, text
        does; of other numbers the greater one is taken, with a warning.
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}
        Where nets train and predict; an absent GPU falls back to the CPU with a warning.
    resume : path, optional
        Folder of checkpoints: an interrupted ``fit`` of nets, started again with the same data and settings, goes on.
    random_state : int, RandomState or None
        Seed of everything; ``resume`` and several processes need a number.
    verbose : bool, default False
        Show a progress bar with the current cost.
    policy : Policy, optional
        Actions beyond the classes, a capacity, other class shares, for :meth:`decisions` and :meth:`predict`. Training
        and ``estimated_cost_`` are about the classes.

    Attributes
    ----------
    classes_, positive_
        The labels, sorted; the positive one (None with more than two classes).
    costs_ : CostMatrix
        The class-wide costs trained with: means, where rows have costs of their own.
    said_costs_ : CostMatrix or None
        The costs as they were said, where they depend on columns: :meth:`predict` takes them of the rows it is given.
    sample_costs_ : tuple of str
        Which of ``fp``, ``fn``, ``tp`` and ``tn`` were arrays with a cost for each sample: :meth:`predict` needs them
        of the samples it is given.
    decision_ : Decision
        From scores to probabilities and decisions.
    target_, threshold_ : float
        T', and the score decisions are made at.
    adapted_ : bool
        Whether a controller steered what was kept.
    target_costs_ : dict
        The held-out cost of every T' tried, and of ``"plain"``, which did not adapt; with ``cv`` of single models.
    history_ : pandas.DataFrame
        One row per epoch or round, and fold: its ``target``, whether it ``adapted``, ``lambda`` and ``weight`` it was
        trained with; ``threshold`` (the cheapest one, T_actual) and ``val_cost`` that were measured after it.
    oof_scores_ : array of shape (n,)
        Scores of the rows by models that did not train on them, in the epoch or round that *other* held-out rows chose
        (``select="best"``); NaN for rows that only trained. Validation rows given apart follow behind the n rows.
    reference_scores_ : array of shape (m,)
        Scores of held-out rows (of at most 20,000) in the epoch or round that was kept: what later rows are compared
        with.
    estimated_cost_ : Interval
        Mean cost of held-out decisions with its 95 % bootstrap interval (sample weights count; of a cross-fit wider by
        an eighth, as its models share training rows). With a number of folds on a table it speaks of the average of all
        models, from rows that a second cross-fit has held out too; with folds that were given, and for images, of
        single models, and their average is usually cheaper. The same rows steered lambda (or chose the target), which
        is slightly optimistic. A tuned threshold is not: a sample is decided by one tuned on the other held-out
        samples. Of a model that is refitted on all samples it is the cost of models of four fifths of them; in
        ``benchmarks/estimate.py`` that of boosters with a tuned threshold had a bias of -0.5 % to 3.3 %.
    saving_ : Interval
        What these decisions save per row against the cheapest one that is the same for every row, pair by pair.
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the held-out probabilities; with more than two classes of the
        likeliest class's.
    model_ : object
        What was fitted; gives ``logits(X)``.
    times_ : str
        Where rows had a time: until when they trained, and from when to when they adapted; else "".
    left_out_ : tuple of str
        Columns of the training table that are no features (the time); ``predict`` takes tables with and without them.
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> method = Method(CostMatrix(fp=1, fn=8), learner=LogisticRegression(), decide="tuned").fit(X, 1 - y)
    >>> method.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    @keeps_settings
    def __init__(
        self,
        costs: CostMatrix | None = None,
        *,
        learner: Any = "net",
        resample: str | None = None,
        loss: Any = "plain",
        controller: Any = None,
        target: float | str | None = None,
        decide: str = "bayes",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        positive: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        policy: Policy | None = None,
    ) -> None:
        """Keep the settings."""

    # fitting

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
        time: Any = None,
        gap: Any = None,
        maturity: Any = None,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> Self:
        """Train.

        Parameters
        ----------
        X : table, images, folder or torch Dataset
            numpy, pandas, polars or pyarrow tables with numbers, categories, dates and missing values; for nets also
            images as uint8 arrays (N x H x W x C or N x C x H x W), a folder with one subfolder per class, or a Dataset
            of (image, label) pairs.
        y : array of shape (n,), optional
            Labels of two classes; folders and Datasets bring their own.
        sample_weight : array of shape (n,), optional
            How much each row counts in training and in the held-out cost.
        groups : array of shape (n,), optional
            Rows of one group (patient, customer) never stand on both sides of a split.
        time : array of shape (n,) or str, optional
            When each row was (dates, ISO text or numbers), or the column of X that says so, which then is no feature.
            Nothing is shuffled: later rows adapt, select and tune what earlier rows have trained. ``cv`` folds are
            windows of the later half, one after another.
        gap, maturity : durations, optional
            Rows so close before a cut are left out; a label is known only so long after its row. Numbers in the unit
            of the times, or "12h", "7d", "2w", "3mo".
        fp, fn, tp, tn : arrays of shape (n,), or texts, optional
            Costs of each row, where they differ (scikit-learn metadata: ``set_fit_request(fn=True)``), or a column of X
            or an expression over columns (``fn="amount"``), by which :meth:`predict` decides too. Arrays are passed to
            :meth:`predict` as well, those of its samples.
        """
        from adacsl.estimators.fitting import fit_methods  # noqa: PLC0415  torch only for those who train nets

        self.check_settings()
        given = {"fp": fp, "fn": fn, "tp": tp, "tn": tn}
        refuse_reordered(X, time=time, **given)
        costs = row_costs(given, self.costs)
        self.sample_costs_ = given_per_sample(given)
        X, times, column = take_times(X, time)  # noqa: N806
        self.left_out_: tuple[str, ...] = () if column is None else (column,)
        rows = read_rows(self, features_of(X, costs), y, sample_weight, groups, costs)
        rows = settle_rows(self, with_times(rows, times, gap, maturity), X)
        for _ in fit_methods([(self, rows.costs)], rows):
            pass
        self.times_ = rows.told(self.candidate_.held_folds)
        del self.candidate_  # what a comparison reads
        return self

    def check_settings(self) -> None:
        """Refuse settings that make no sense, alone or together."""
        self.learner_ = self._make_learner()
        self.learner_.check()
        check_method(self)

    def _make_learner(self) -> Any:
        """Return what learns, from its short form."""
        from adacsl.estimators.fitting import as_learner  # noqa: PLC0415  it imports the learners

        return as_learner(self.learner)

    @property
    def takes_images(self) -> bool:
        """Whether the learner takes images too: nets, and what does not look at them."""
        return not self.learner_.tables_only

    @property
    def takes_anything(self) -> bool:
        """Whether features are the estimator's affair: they are not looked at."""
        return False

    def candidates(self, rows: Rows, costs: CostMatrix | None, watch: NDArray[np.int64] | None) -> list[Candidate]:
        """Return what is to be fitted on these rows: one candidate per target, and before them the plain one of "auto".

        ``costs`` are the task's, class-wide or of each row; None: the method's own.
        """
        seed = self._seed()
        costs = self.own_costs(rows) if costs is None else costs
        self.costs_ = usual_costs(costs, rows)
        cv = self.learner_.folds_for(self.cv, rows) if hasattr(self.learner_, "folds_for") else self.cv
        folds = [] if self.decide in ("negative", "positive") else rows.folds(cv, self.validation, seed)
        candidate = functools.partial(
            Candidate, self, costs, folds=folds, seed=seed, watch=watch, images=rows.images, usual=self.costs_,
            ordered=rows.line is not None,
        )  # fmt: skip
        tried = [candidate(target) for target in find_targets(self.target, self.costs_)]
        if self.target == "auto" and self.controller is not None:
            plain = candidate(*find_targets("bayes", self.costs_), steered=False)
            # first, since of equals the first is kept: the simplest. What would not adapt at T' = T is the same again
            tried = [plain, *(other for other in tried if other.adapts or other.target != plain.target)]
        return tried if hasattr(self.learner_, "averages") else add_seconds(tried, rows, cv)

    def own_costs(self, rows: Rows) -> CostMatrix:
        """Return the method's costs in the order of the class numbers, or inverse priors."""
        if self.costs is None:
            return CostMatrix.balanced(rows.y[rows.use])
        if self.costs.n_classes != rows.n_classes:
            names, known = self.costs.classes or (), self.classes_.tolist()
            form = "CostMatrix.from_array(K x K, rows='predicted', classes=[...])"
            form = "CostMatrix(fp=1, fn=8)" if rows.n_classes == 2 else form
            absent = [name for name in names if not any(same_label(name, label) for label in known)]
            raise ValueError(
                f"the labels have {rows.n_classes} classes, the costs {self.costs.n_classes}"
                + (f", of which {absent!r} have no rows" if absent else "")
                + f"; give a price for each: {form}"
            )
        own: CostMatrix = self.costs
        order = labels_in_order(self)
        return own.aligned(order if own.classes is None else spoken_labels(order, own.classes))

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def finish(self, candidates: list[Candidate], rows: Rows) -> None:
        """Take the cheapest candidate, fit the decision, and estimate what it will cost."""
        seconds = [candidate.second for candidate in candidates]
        candidates = [candidate for candidate in candidates if candidate not in seconds]
        judged = [self._judge(candidate, rows) for candidate in candidates]
        best = min(range(len(candidates)), key=lambda i: judged[i][1])
        chosen = candidates[best]
        self.decision_, self.target_, self.model_ = judged[best][0], chosen.target, chosen.model
        self.decision_.prior = training_prior(rows.y[rows.use], rows.n_classes, rows.weights(rows.use))
        self.adapted_ = chosen.adapts
        keys: list[float | str] = [candidate.target if candidate.steered else PLAIN for candidate in candidates]
        self.target_costs_ = dict(zip(keys, (cost for _, cost in judged), strict=True))
        self.candidate_ = chosen
        self._keep_history(candidates)
        if chosen.held:
            self._estimate(chosen, rows)
        del self.learner_

    def _judge(self, candidate: Candidate, rows: Rows) -> tuple[Decision, float]:
        """Return the decision of a candidate, and what it costs on held-out rows, honestly."""
        shift = candidate.shifted = candidate.shift(rows.y)
        target = natural_threshold(self.costs_, shift)
        weighted = candidate.loss in ("weighted", "focal") and not candidate.is_plain
        decision = Decision(
            self.costs_, candidate.decide, target=target, row_weighted=candidate.corrects_rows, weighted=weighted
        )
        if not candidate.held:
            return decision, math.nan
        logits = pooled(len(rows.y), candidate.held, honest=False)
        seen = known(logits)
        if not seen.any():
            raise ValueError("its held-out scores are not finite: there is nothing to decide by")
        prices, weight = candidate.costs.rows(seen), rows.weights(seen)
        shift = shift + candidate.offsets(seen)
        kept, honest = (
            to_probabilities(z[seen] - shift)
            for z in (logits, pooled(len(rows.y), candidate.held, costs=candidate.costs))
        )
        decision.fit(kept, rows.y[seen], sample_weight=weight, costs=prices)
        flattering, cost = (
            prices.mean(rows.y[seen], decision.predict(scores, costs=prices), sample_weight=weight)
            for scores in (kept, honest)
        )
        candidate.extra["validation_cost"] = flattering
        return decision, cost

    def _estimate(self, candidate: Candidate, rows: Rows) -> None:
        logits = pooled(len(rows.y), candidate.held, costs=candidate.costs)
        shift = candidate.shifted + candidate.offsets(np.arange(len(rows.y)))
        self.oof_scores_ = to_probabilities(logits - shift)  # NaN stays NaN
        # as if rows cost what is usual: their prices are not kept
        self.reference_scores_ = to_probabilities(kept_sample(len(rows.y), candidate.held) - candidate.shifted)

        def pay(own: NDArray[Any], which: NDArray[np.bool_]) -> Any:
            prices, moved = candidate.costs.rows(which), candidate.shifted + candidate.offsets(which)
            decided = self.decision_.predict(to_probabilities(own - moved), costs=prices)
            return as_host(prices.incurred(rows.y[which], decided))

        paid, seen = averaged_costs(candidate, rows, pay)
        prices, groups = candidate.costs.rows(seen), None if rows.groups is None else rows.groups[seen]
        level = CROSS_FITTED if len(candidate.held_folds) > 1 else 0.95
        found = mean_interval(paid, rows.weights(seen), groups=groups, level=level, resamples=2000)
        # nothing is cheaper than being right everywhere, which the extrapolation does not know
        least = prices.mean(rows.y[seen], rows.y[seen], sample_weight=rows.weights(seen))
        self.estimated_cost_ = Interval(*(max(value, least) for value in found))
        self.saving_ = saving_over_constant(
            prices, rows.y[seen], paid, sample_weight=rows.weights(seen), groups=groups, level=level
        )
        proba = self.decision_.probabilities(self.oof_scores_[seen], costs=prices)
        sure, right = (proba, rows.y[seen]) if proba.ndim == 1 else (proba.max(1), proba.argmax(1) == rows.y[seen])
        self.calibration_error_ = calibration_error(sure, right, partition=Quantile(15)).error

    def _keep_history(self, candidates: list[Candidate]) -> None:
        import pandas as pd  # noqa: PLC0415  scikit-learn alone needs none

        rows = [{"target": c.target, "adapted": c.adapts, "lambda": 1.0} | row for c in candidates for row in c.history]
        frame = pd.DataFrame(rows)
        first = [name for name in ("epoch", "round") if name in frame]
        usual = HISTORY if self.costs_.n_classes == 2 else CLASS_HISTORY
        self.history_ = frame.reindex(columns=[*first, *usual, *(n for n in ("train_loss",) if n in frame)])
