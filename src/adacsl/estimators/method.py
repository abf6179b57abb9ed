"""Method: a classifier of two classes that minimises cost, put together from parts."""

from __future__ import annotations

import math
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from adacsl.core.costs import CostMatrix
from adacsl.core.curves import calibration_error
from adacsl.core.heldout import pooled, sigmoid
from adacsl.core.intervals import Interval, cost_interval
from adacsl.core.labels import encode_labels
from adacsl.core.partitions import Quantile
from adacsl.estimators.candidates import Candidate
from adacsl.estimators.decision import Decision, check_decide
from adacsl.estimators.rows import Rows
from adacsl.estimators.settings import (
    NestedSettings,
    find_targets,
    make_controller,
    natural_threshold,
    refuse_old_names,
)
from adacsl.extras import requires
from adacsl.integrations.sklearn import row_costs

with requires("sklearn"):
    from sklearn.base import ClassifierMixin
    from sklearn.utils import check_random_state
    from sklearn.utils.multiclass import check_classification_targets
    from sklearn.utils.validation import (
        _check_sample_weight,
        _num_samples,
        assert_all_finite,
        check_consistent_length,
        check_is_fitted,
        column_or_1d,
        indexable,
        validate_data,
    )

RESAMPLE = (None, "oversample", "undersample", "smote")
LOSSES = ("plain", "weighted", "focal", "logit-adjusted")
HISTORY = ("fold", "target", "lambda", "weight", "threshold", "val_cost")


class Method(ClassifierMixin, NestedSettings):
    """A way to decide at the least cost: what learns, with which loss, adapted or not, decided how, cross-fitted or not.

    :func:`adacsl.method` makes one by its name; ``AdaCSLClassifier`` and the other classifiers are such methods with
    names and defaults of their own.

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost. Default: the inverse class frequencies of the training labels
        (``CostMatrix.balanced(y)``). Costs of single samples are given to :meth:`fit` and :meth:`predict`.
    learner : {"net", "boosting", "metacost", "constant"}, Net, Booster, Model or classifier
        The default net for tables or images; a booster (the installed library, or scikit-learn's); MetaCost around it;
        no learning; or any scikit-learn classifier, for tables.
    resample : {None, "oversample", "undersample", "smote"}
        Train nets on balanced classes. The probabilities are corrected for it before anything is decided.
    loss : {"plain", "weighted", "focal", "logit-adjusted"} or callable
        Cross-entropy; weighted by the costs; the weighted focal loss; shifted by the odds of the Bayes threshold; or,
        for nets, ``loss(logits, labels, costs=...)``, element by element.
    controller : None, "auto", dict or AdaptiveWeight
        AdaCSL: steer the weight by the held-out rows. None keeps lambda at 1; "auto" steers as was cheapest for that
        kind of learner, and a dict changes parts of that (``{"caution": 2}``); an AdaptiveWeight is copied (its costs
        and target are the method's). Needs ``loss="weighted"``.
    target : float, "bayes", "middle" or "auto", default 0.5
        T', the score a weighted loss makes right to decide at. "bayes": T' = T; "middle": the geometric middle of the
        odds of T and 0.5; "auto": all three are trained, and the held-out cost decides.
    decide : str
        How scores become decisions, see :class:`~adacsl.Decision`.
    select : {"best", "last"}
        Keep each model's cheapest epoch (or round) on its held-out rows, or its last.
    cv : None, int or splitter, default None
        Cross-fitting: one model per fold, each adapted on the fold it did not train on; their log-odds are averaged.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of the rows, or data of its own, that adapts, selects and tunes. Where there is
        nothing to select, the model is fitted on all rows, and held-out scores come from five folds.
    positive : label, optional
        The class ``fn`` speaks of: missing it is a false negative. 0/1, -1/1 and False/True need no naming; for other
        labels the last in sorted order is taken, with a warning.
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}
        Where nets train and predict; an absent GPU falls back to the CPU with a warning.
    resume : path, optional
        Folder of checkpoints: an interrupted ``fit`` of nets, started again with the same data and settings, goes on.
    random_state : int, RandomState or None
        Seed of everything; ``resume`` and several processes need a number.
    verbose : bool, default False
        Show a progress bar with the current cost.

    Attributes
    ----------
    classes_, positive_
        The labels, sorted; the positive one.
    costs_ : CostMatrix
        The class-wide costs trained with.
    decision_ : Decision
        From scores to probabilities and decisions.
    target_, threshold_ : float
        T', and the score decisions are made at.
    target_costs_ : dict
        The held-out cost of every T' tried.
    history_ : pandas.DataFrame
        One row per epoch or round, and fold: ``lambda`` and ``weight`` it was trained with; ``threshold`` (the cheapest,
        T_actual) and ``val_cost`` that were measured after it.
    oof_scores_ : array of shape (n,)
        Scores of the rows by models that did not train on them, in the epoch or round that *other* held-out rows chose
        (``select="best"``); NaN for rows that only trained. Validation rows given apart follow behind the n rows.
    estimated_cost_ : Interval
        Mean cost of these held-out decisions with its 95 % bootstrap interval (sample weights count). Two biases
        remain: the same rows steered lambda (and tuned the threshold, or chose the target), which flatters a little;
        with ``cv`` it speaks of single models, and their average is usually cheaper.
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the held-out probabilities.
    model_ : object
        What was fitted; gives ``logits(X)``.
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

    def __init__(
        self,
        costs: CostMatrix | None = None,
        *,
        learner: Any = "net",
        resample: str | None = None,
        loss: Any = "plain",
        controller: Any = None,
        target: float | str = 0.5,
        decide: str = "bayes",
        select: str = "best",
        cv: Any = None,
        validation: Any = 0.2,
        positive: Any = None,
        device: str = "auto",
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
        **old: Any,
    ) -> None:
        refuse_old_names(old, "Method")
        self.costs = costs
        self.learner = learner
        self.resample = resample
        self.loss = loss
        self.controller = controller
        self.target = target
        self.decide = decide
        self.select = select
        self.cv = cv
        self.validation = validation
        self.positive = positive
        self.device = device
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    # fitting

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sample_weight: Any = None,
        groups: Any = None,
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
        fp, fn, tp, tn : arrays of shape (n,), optional
            Costs of each row, where they differ (scikit-learn metadata: ``set_fit_request(fn=True)``).
        """
        from adacsl.estimators.fitting import fit_methods  # noqa: PLC0415  torch only for those who train nets

        self.check_settings()
        rows = self._rows(X, y, sample_weight, groups, row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs))
        for _ in fit_methods([(self, rows.costs)], rows):
            pass
        return self

    def check_settings(self) -> None:
        """Refuse settings that make no sense, alone or together."""
        self.learner_ = self._make_learner()
        self.learner_.check()
        check_decide(self.decide)
        if self.select not in ("best", "last"):
            raise ValueError(f"select must be one of 'best', 'last', got {self.select!r}")
        self._check_costs()
        if self.cv is None and self.validation is None:
            raise ValueError("validation must be a fraction between 0 and 1 or a pair (X, y), got None; or give cv=5")
        self._check_parts()
        find_targets(self.target, CostMatrix(fp=1, fn=1))
        if self.controller is not None:
            make_controller(self.controller, CostMatrix(fp=1, fn=1), 0.5, {})
        if self.random_state is None and (self.resume is not None or self._several_processes):
            what = "resume" if self.resume is not None else "training in several processes"
            raise ValueError(f"{what} needs random_state=a number: splits and weights must come out the same each time")

    def _check_costs(self) -> None:
        if self.costs is not None and not isinstance(self.costs, CostMatrix):
            raise TypeError(f"costs must be a CostMatrix such as CostMatrix(fp=1, fn=8), got {self.costs!r}")
        if self.costs is not None and (self.costs.n_classes != 2 or self.costs.n_instances is not None):
            raise ValueError(
                f"costs must hold one price per outcome of two classes, got {self.costs!r}; "
                "give costs of each row to fit and predict: fit(X, y, fn=amounts)"
            )

    def _check_parts(self) -> None:
        from adacsl.estimators.learners.constant import Constant  # noqa: PLC0415

        if self.resample not in RESAMPLE or not (callable(self.loss) or self.loss in LOSSES):
            raise ValueError(
                f"resample is one of {', '.join(map(str, RESAMPLE))} and loss one of {', '.join(LOSSES)} or a function; "
                f"got resample={self.resample!r}, loss={self.loss!r}"
            )
        if self.controller is not None and (self.loss != "weighted" or self.resample is not None):
            raise ValueError("a controller steers a weight, so it needs loss='weighted' and no resample")
        if self.resample is not None and self.loss != "plain":
            raise ValueError(f"resample={self.resample!r} goes with loss='plain'")
        if not self._is_net and (self.resample is not None or self.loss not in ("plain", "weighted")):
            raise ValueError(
                "resample, focal, logit-adjusted and losses of your own are for nets; put such steps inside the "
                "estimator"
            )
        if self.resample == "smote" and self.cv is not None:
            raise ValueError(
                "SMOTE mixes training rows, some of which a cross-fit holds out; take resample='oversample', or cv=None"
            )
        if (self.decide in ("negative", "positive")) != isinstance(self.learner_, Constant):
            raise ValueError("decide='negative' and decide='positive' go with learner='constant'")
        if self.decide == "unweighted" and self.loss != "weighted":
            raise ValueError("decide='unweighted' undoes the weight of loss='weighted'")
        if self.target != 0.5 and self.loss not in ("weighted", "focal"):
            raise ValueError("target is for losses with a weight, loss='weighted' and loss='focal'")

    def _make_learner(self) -> Any:
        """Return what learns, from its short form."""
        from adacsl.estimators.fitting import as_learner  # noqa: PLC0415  it imports the learners

        return as_learner(self.learner)

    @property
    def _is_net(self) -> bool:
        return not self.learner_.tables_only and hasattr(self.learner_, "module")

    @property
    def _several_processes(self) -> bool:
        options = getattr(self.learner_, "trainer", None) or {}
        return options.get("devices", 1) not in (1, "1", [0]) or options.get("num_nodes", 1) != 1

    def candidates(self, rows: Rows, costs: CostMatrix | None, watch: NDArray[np.int64] | None) -> list[Candidate]:
        """Return what is to be fitted on these rows, one candidate per target.

        ``costs`` are the task's, class-wide or of each row; None: the method's own.
        """
        seed = self._seed()
        own = CostMatrix.balanced(rows.y[rows.use]) if self.costs is None else self.costs
        costs = own if costs is None else costs
        self.costs_ = costs.averaged()
        folds = [] if self.decide in ("negative", "positive") else rows.folds(*self._split, seed)
        return [Candidate(self, costs, target, folds, seed, watch) for target in find_targets(self.target, self.costs_)]

    def _seed(self) -> int:
        if isinstance(self.random_state, Integral) and not isinstance(self.random_state, bool):
            return int(self.random_state)
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _split(self) -> tuple[Any, Any]:
        return self.cv, self.validation

    def finish(self, candidates: list[Candidate], rows: Rows) -> None:
        """Take the cheapest candidate, fit the decision, and estimate what it will cost."""
        judged = [self._judge(candidate, rows) for candidate in candidates]
        best = min(range(len(candidates)), key=lambda i: judged[i][1])
        chosen = candidates[best]
        self.decision_, self.target_, self.model_ = judged[best][0], chosen.target, chosen.model
        self.target_costs_ = {c.target: cost for c, (_, cost) in zip(candidates, judged, strict=True)}
        self.candidate_ = chosen
        self._keep_history(candidates)
        if chosen.held:
            self._estimate(chosen, rows)
        del self.learner_

    def _judge(self, candidate: Candidate, rows: Rows) -> tuple[Decision, float]:
        """Return the decision of a candidate, and what it costs on held-out rows."""
        shift = candidate.shift(rows.y)
        decision = Decision(self.costs_, self.decide, target=natural_threshold(self.costs_, shift))
        if not candidate.held:
            return decision, math.nan
        logits = pooled(len(rows.y), candidate.held, honest=False)
        seen = ~np.isnan(logits)
        about = {"sample_weight": rows.weights(seen), "costs": candidate.costs.rows(seen)}
        scores = sigmoid(logits[seen] - shift)
        decision.fit(scores, rows.y[seen], **about)
        prices = about["costs"]
        decided = decision.predict(scores, costs=prices)
        return decision, prices.mean(rows.y[seen], decided, sample_weight=about["sample_weight"])

    def _estimate(self, candidate: Candidate, rows: Rows) -> None:
        logits = pooled(len(rows.y), candidate.held)
        seen = ~np.isnan(logits)
        self.oof_scores_ = np.where(seen, sigmoid(logits - candidate.shift(rows.y)), np.nan)
        prices = candidate.costs.rows(seen)
        proba = self.decision_.probabilities(self.oof_scores_[seen])
        decided = self.decision_.of_probabilities(proba, costs=prices)
        groups = None if rows.groups is None else rows.groups[seen]
        weight = rows.weights(seen)
        self.estimated_cost_: Interval = cost_interval(
            prices, rows.y[seen], decided, groups=groups, sample_weight=weight
        )
        self.calibration_error_ = calibration_error(proba, rows.y[seen], partition=Quantile(15)).error

    def _keep_history(self, candidates: list[Candidate]) -> None:
        import pandas as pd  # noqa: PLC0415  scikit-learn alone needs none

        rows = [{"target": c.target, "lambda": 1.0} | row for c in candidates for row in c.history]
        frame = pd.DataFrame(rows)
        first = [name for name in ("epoch", "round") if name in frame]
        self.history_ = frame.reindex(columns=[*first, *HISTORY, *(n for n in ("train_loss",) if n in frame)])

    # rows

    def _rows(self, X: Any, y: Any, sample_weight: Any, groups: Any, costs: CostMatrix | None) -> Rows:  # noqa: N803
        """Check features, labels and what goes with each row; append validation rows given apart."""
        X, y = self._read(X, y)  # noqa: N806
        if y is None:
            raise ValueError(f"this {type(self).__name__} estimator requires y to be passed, but the target y is None")
        labels = self._labels(y)
        check_consistent_length(X, labels)
        weight = None if sample_weight is None else _check_sample_weight(sample_weight, labels, dtype=np.float64)
        groups = None if groups is None else column_or_1d(groups)
        check_consistent_length(X, labels, groups)
        if costs is not None and costs.n_instances not in (None, len(labels)):
            raise ValueError(
                f"costs of each row must be as many as rows: got {costs.n_instances} for {len(labels)} rows"
            )
        use = np.arange(len(labels)) if weight is None else np.flatnonzero(weight > 0)
        present = np.unique(labels[use])
        if len(present) < 2:
            raise ValueError(
                f"the training data hold one class only ({self.classes_[int(present[0])]!r}); "
                "a classifier needs samples of both classes"
            )
        rows = Rows(X, labels, use, weight, groups, costs, images=self.images_)
        if self.cv is None and self.validation is not None and not isinstance(self.validation, Real):
            rows = self._with_validation(rows)
        return rows

    def _labels(self, y: Any) -> NDArray[np.int64]:
        y = column_or_1d(y, warn=True)
        assert_all_finite(y, input_name="y")
        check_classification_targets(y)
        labels, self.classes_, self.positive_ = encode_labels(y, self.positive, who=type(self).__name__, stacklevel=4)
        return labels

    def _with_validation(self, rows: Rows) -> Rows:
        if rows.costs is not None or rows.weight is not None:
            raise ValueError("validation data of their own cannot be combined with sample_weight or costs of each row")
        try:
            other, labels = self.validation
        except (TypeError, ValueError):
            raise ValueError(
                f"validation must be a fraction between 0 and 1 or a pair (X, y), got {type(self.validation).__name__}"
            ) from None
        labels = column_or_1d(labels)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"the validation labels {sorted(unknown, key=str)} do not occur in y")
        added = np.asarray(labels == self.positive_, dtype=rows.y.dtype)
        own = np.arange(len(added)) + len(rows.y)
        return Rows(
            rows.x, np.concatenate((rows.y, added)), np.arange(len(rows.y)), extra=self._features(other, reset=False),
            validation=own, images=rows.images,
        )  # fmt: skip

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        """Return a checked table or an array of images, and the labels, which folders and Datasets bring along."""
        self.images_ = False
        if self._is_net:
            from adacsl.estimators.pictures import read_images  # noqa: PLC0415  torch

            return read_images(self, X, y)
        return self._features(X, reset=True), y

    def _features(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        """Check the features of training rows (``reset``), or of others like them."""
        if self.images_:
            from adacsl.estimators.pictures import more_images  # noqa: PLC0415  torch

            return more_images(self, X)
        if self._takes_anything:
            return self._unread(X, reset=reset)
        if hasattr(X, "columns") or hasattr(X, "schema") or hasattr(X, "column_names"):
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        if isinstance(X, list) and X and not np.isscalar(X[0]) and isinstance(np.asarray(X, dtype=object).flat[0], str):
            X = np.asarray(X, dtype=object)  # noqa: N806
        return validate_data(self, X, reset=reset, dtype=None, ensure_all_finite="allow-nan", ensure_min_features=1)

    @property
    def _takes_anything(self) -> bool:
        """Whether features are the estimator's affair."""
        return False

    def _unread(self, X: Any, *, reset: bool) -> Any:  # noqa: N803
        """Leave the content to the estimator; remember (or compare) the features' names and number."""
        if not reset and hasattr(self, "n_features_in_") and getattr(X, "ndim", 2) == 1:
            raise ValueError(
                f"X must have rows and columns, got shape {X.shape}. Reshape your data: reshape(1, -1) for one row"
            )
        validate_data(self, X, reset=reset, skip_check_array=True)
        rows = indexable(X)[0]
        if _num_samples(rows) == 0:
            raise ValueError("X is empty: found 0 sample(s) while a minimum of 1 is required")
        return rows

    # predicting

    def decision_scores(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return the scores: what the learner says, to be compared with ``threshold_``."""
        check_is_fitted(self)
        return sigmoid(self.model_.logits(self._features(X, reset=False)))

    @property
    def threshold_(self) -> float:
        """The score above which a row is called positive."""
        check_is_fitted(self, "decision_")
        return self.decision_.threshold_

    def predict_proba(self, X: Any) -> NDArray[np.float64]:  # noqa: N803
        """Return probabilities, corrected for the cost weighting; columns in the order of ``classes_``."""
        scores = self.decision_scores(X)
        positive = self.decision_.probabilities(scores)
        columns = (1.0 - positive, positive)
        return np.stack(columns if self.positive_ == self.classes_[1] else columns[::-1], axis=1)

    def predict(
        self,
        X: Any,  # noqa: N803
        *,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> NDArray[Any]:
        """Return the cheapest label of each row; with costs of each row, by each row's own Bayes threshold."""
        scores = self.decision_scores(X)
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_)
        positive = self.decision_.predict(scores, costs=costs) == 1
        negative = self.classes_[0] if self.positive_ == self.classes_[1] else self.classes_[1]
        kind = self.classes_.dtype
        return np.where(positive, np.asarray(self.positive_, kind), np.asarray(negative, kind))

    def score(
        self,
        X: Any,  # noqa: N803
        y: Any,
        sample_weight: Any = None,
        *,
        fp: Any = None,
        fn: Any = None,
        tp: Any = None,
        tn: Any = None,
    ) -> float:
        """Return minus the mean cost, so that a search for the best score finds the cheapest model."""
        labels = column_or_1d(y)
        unknown = set(np.unique(labels).tolist()) - set(self.classes_.tolist())
        if unknown:
            raise ValueError(f"y holds labels that were not in training: {sorted(unknown, key=str)}")
        costs = row_costs({"fp": fp, "fn": fn, "tp": tp, "tn": tn}, self.costs_) or self.costs_
        decided = self.predict(X, fp=fp, fn=fn, tp=tp, tn=tn) == self.positive_
        return -costs.mean(labels == self.positive_, decided, sample_weight=sample_weight)

    # keeping

    def save(self, folder: str | Path) -> Path:
        """Write the fitted method as safetensors and JSON with digests, atomically; ``adacsl.load`` reads it.

        No pickle: nets and linear models are numbers, boosters are in their libraries' own formats. An estimator of
        another kind cannot be written so; an error says it.
        """
        from adacsl.estimators.persistence import save_method  # noqa: PLC0415  safetensors stays optional

        check_is_fitted(self)
        return save_method(self, folder)

    def export_onnx(self, path: str | Path, sample: Any) -> Path:
        """Write an ONNX graph with the outputs ``score``, ``probability`` and ``decision``; for nets.

        The graph takes raw numbers (float64, NaN = missing) where all columns are numeric, bytes (N x H x W x C) for
        images, and the features of ``model_.encoder.transform`` for tables with categories or dates. Threshold, class
        names and costs are in its metadata. Before the file is put in place it is run on ``sample``, some rows of X, and
        must agree with :meth:`decision_scores` to 1e-5.
        """
        from adacsl.estimators.export import export_onnx  # noqa: PLC0415  onnx stays optional

        check_is_fitted(self)
        return export_onnx(self, path, sample)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        return tags
