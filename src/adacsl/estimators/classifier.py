"""AdaCSLClassifier: a cost-minimising classifier for tables and images, with scikit-learn's interface."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Sequence
from numbers import Integral
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from adacsl.core.control import AdaptiveWeight
from adacsl.core.costs import CostMatrix
from adacsl.core.partitions import Partition
from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.images import Images, as_images, is_images
from adacsl.estimators.training import (
    Data,
    Member,
    Settings,
    Trained,
    choose_device,
    predict_logits,
    select_members,
    train,
)
from adacsl.extras import requires
from adacsl.torch.augment import Augment, ChannelsFirst, FlipAverage
from adacsl.torch.resnet import Normalise, load_backbone, named_network
from adacsl.torch.tablenet import TableNet

# isort: split
# after the modules that import torch: where it is missing, that is found before scikit-learn is loaded
from adacsl.estimators.binary import Array, CostClassifier, Rows, as_costs, take

with requires("train"):
    import pandas as pd
    import torch
    from sklearn.utils import check_random_state
    from sklearn.utils.validation import check_is_fitted
    from torch import Tensor, nn

FILE_SIZE = 64
"""Side of images read from files, unless another is asked for."""

HISTORY = ("epoch", "fold", "target", "lambda", "weight", "threshold", "val_cost", "train_loss")


class Defaults(NamedTuple):
    """What ``"auto"`` stands for, by kind of data and number of training rows."""

    epochs: int
    batch_size: int
    lr: float
    weight_decay: float
    patience: int | None
    optimizer: str


class AdaCSLClassifier(CostClassifier):
    """A classifier that minimises cost, for tables and images, steered by validation data (AdaCSL).

    Parameters
    ----------
    costs : CostMatrix, optional
        What the errors cost. Default: the inverse class frequencies of the training labels
        (``CostMatrix.balanced(y)``). Costs of single samples are given to :meth:`fit` and :meth:`predict`.
    positive : label, optional
        The class ``fn`` speaks of: missing it is a false negative. 0/1, -1/1 and False/True need no naming; for other
        labels the last in sorted order is taken, with a warning.
    module : nn.Module, callable or str, optional
        Tables: a net or a factory called with the number of encoded features, one logit (or two) per row.
        Images: a net, a factory called without arguments, or a name (``"resnet18"``, ``"timm:..."``,
        ``"torchvision:..."``); it gets normalised images of three channels.
        Default: :class:`~adacsl.torch.tablenet.TableNet` or ResNet-18.
    target : float, "bayes", "middle" or "auto", default 0.5
        The raw threshold T' the classifier is trained to decide at. "bayes": T' = T; "middle": the geometric middle of
        the odds of T and 0.5; "auto": all three are trained and the out-of-fold (or validation) cost decides.
    cv : None, int or splitter, default None
        Cross-fitting: one net per fold, each adapted on the fold it did not train on; their logits are averaged.
    validation : float or (X, y), default 0.2
        Without ``cv``: the share of the rows, or data of its own, that adapts, selects and tunes.
    decide : {"target", "tuned", "bayes"}
        Decide at T'; at the cheapest threshold of the out-of-fold (validation) scores; or undo the whole weighting,
        lambda included, and decide at the Bayes threshold.
    select : {"best", "last"}
        Keep each net's cheapest epoch on its validation data, or its last.
    partition, damping, update, bounds, caution
        Settings of the controller, see :class:`~adacsl.AdaptiveWeight`. "auto" is the paper's update at full speed
        for images, and the exact odds update with damping 0.5 for tables, where it was cheaper.
    adapt : bool, default True
        False keeps lambda at 1: plain weighted cross-entropy, for comparison.
    epochs, batch_size, lr, weight_decay, optimizer, patience : number, str or "auto"
        Training; "auto" depends on the data (see :func:`defaults_for`). ``patience=None``: no early stopping.
    weights : path, optional
        Local weights (.safetensors, .pth) of the image net's backbone.
    image_size : int, optional
        Side to which images are resized; default: arrays keep their size, files become 64 x 64. Small pictures may be
        enlarged: a net made for large ones then sees more in them, and takes longer.
    augment : bool or nn.Module, default True
        Random flips and small shifts of training images, on the device; or a module of your own, such as
        ``Augment(rotate=True)``, that maps a (B, C, H, W) batch of bytes to another.
    views : {1, 4}
        4 averages the net's logits over the four flips of each image when predicting.
    device : {"auto", "cpu", "cuda", "cuda:1", "mps"}
        Where to train and predict; an absent GPU falls back to the CPU with a warning.
    precision : str, default "auto"
        Lightning's precision; "auto" is bf16-mixed on CUDA.
    trainer : dict, optional
        Further arguments of Lightning's ``Trainer``: strategies, devices, nodes, loggers, callbacks.
    resume : path, optional
        Folder of checkpoints: an interrupted ``fit`` started again with the same data and settings goes on there.
    random_state : int, RandomState or None
        Seed of splits, weights, batches and dropout; ``resume`` and several processes need a number.
    verbose : bool, default False
        Show a progress bar with the current cost.

    Attributes
    ----------
    classes_ : array of shape (2,)
        The labels, sorted.
    positive_ : label
        The positive class.
    costs_ : CostMatrix
        The class-wide costs trained with.
    target_, threshold_ : float
        T', and the raw threshold decisions are made at.
    history_ : pandas.DataFrame
        One row per epoch (and net): ``epoch, fold, target, lambda, weight, threshold, val_cost, train_loss``.
    oof_scores_ : array of shape (n,)
        Raw scores of the rows by nets that did not train on them, in the epoch that was cheapest on *other* validation
        rows (``select="best"``); NaN for rows that only trained. Validation rows given apart, ``validation=(X, y)``,
        follow behind the n training rows.
    estimated_cost_ : Interval
        Mean cost of the out-of-fold (validation) decisions with its 95 % bootstrap interval, each row scored by a net
        that did not train on it, in an epoch that it did not help to choose. Two biases remain: the same rows steered
        lambda (and tuned the threshold, or chose the target), which flatters a little; with ``cv`` it speaks of single
        nets, and their average is usually cheaper. On two made-up laws with 1,000 rows it was unbiased without ``cv``,
        and 4 % and 18 % too high with ``cv=5``, where its interval held the cost on new data in 95 % and 77 % of the
        draws (``examples/estimated_cost.py`` measures one of them).
    calibration_error_ : float
        Expected calibration error (15 quantile bins) of the corrected out-of-fold probabilities.
    net_ : nn.Module
        The trained net(s).
    n_features_in_, feature_names_in_
        As everywhere in scikit-learn.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from adacsl import CostMatrix
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> clf = AdaCSLClassifier(CostMatrix(fp=1, fn=8), epochs=3, random_state=0).fit(X, 1 - y)
    >>> clf.predict(X[:3]).tolist()
    [1, 1, 1]
    """

    def __init__(  # noqa: PLR0913  an estimator lists its settings
        self,
        costs: CostMatrix | None = None,
        *,
        positive: Any = None,
        module: nn.Module | Callable[..., nn.Module] | str | None = None,
        target: float | str = 0.5,
        cv: Any = None,
        validation: Any = 0.2,
        decide: str = "target",
        select: str = "best",
        partition: Partition | None = None,
        damping: float | str = "auto",
        update: str = "auto",
        bounds: tuple[float, float] | None = None,
        caution: float = 0.0,
        adapt: bool = True,
        epochs: int | str = "auto",
        batch_size: int | str = "auto",
        lr: float | str = "auto",
        weight_decay: float | str = "auto",
        optimizer: Any = "auto",
        patience: int | str | None = "auto",
        weights: Any = None,
        image_size: int | None = None,
        augment: bool | nn.Module = True,
        views: int = 1,
        device: str = "auto",
        precision: Any = "auto",
        trainer: dict[str, Any] | None = None,
        resume: Any = None,
        random_state: Any = None,
        verbose: bool = False,
    ) -> None:
        self.costs = costs
        self.positive = positive
        self.module = module
        self.target = target
        self.cv = cv
        self.validation = validation
        self.decide = decide
        self.select = select
        self.partition = partition
        self.damping = damping
        self.update = update
        self.bounds = bounds
        self.caution = caution
        self.adapt = adapt
        self.epochs = epochs
        self.batch_size = batch_size
        self.lr = lr
        self.weight_decay = weight_decay
        self.optimizer = optimizer
        self.patience = patience
        self.weights = weights
        self.image_size = image_size
        self.augment = augment
        self.views = views
        self.device = device
        self.precision = precision
        self.trainer = trainer
        self.resume = resume
        self.random_state = random_state
        self.verbose = verbose

    # fitting

    def fit(
        self,
        X: Any,  # noqa: N803
        y: Any = None,
        *,
        sample_weight: Array | None = None,
        groups: Array | None = None,
        fp: Array | None = None,
        fn: Array | None = None,
        tp: Array | None = None,
        tn: Array | None = None,
    ) -> AdaCSLClassifier:
        """Train.

        Parameters
        ----------
        X : table, images, folder or torch Dataset
            numpy, pandas, polars or pyarrow tables with numbers, categories, dates and missing values; images as uint8
            arrays (N x H x W x C or N x C x H x W), a folder with one subfolder per class, or a Dataset of
            (image, label) pairs.
        y : array of shape (n,), optional
            Labels of two classes; folders and Datasets bring their own.
        sample_weight : array of shape (n,), optional
            How much each row counts in the loss and in the validation cost.
        groups : array of shape (n,), optional
            Rows of one group (patient, customer) never stand on both sides of a split.
        fp, fn, tp, tn : arrays of shape (n,), optional
            Costs of each row, where they differ (scikit-learn metadata: ``set_fit_request(fn=True)``).
        """
        self._check_settings()
        rng = check_random_state(self.random_state)
        seed = int(rng.randint(2**31 - 1))
        X, y = self._read(X, y)  # noqa: N806
        rows = self._collect_rows(X, y, sample_weight, groups, as_costs(fp, fn, tp, tn, self.costs))
        folds = self._splits(rows, seed)
        self.costs_ = self._class_costs(rows)
        targets = self._targets()
        x = self._encode_training_rows(rows, folds)
        members = self._members(targets, folds)
        settings = self._settings(rows, folds, seed)
        trained = self._train(x, rows, members, settings)
        self._finish(trained, rows, members, targets, len(folds))
        return self

    def _check_settings(self) -> None:
        self._check_common_settings()
        if self.views not in (1, 4):
            raise ValueError(f"views must be one of 1, 4, got {self.views!r}")
        self._check_trainer()
        if self.random_state is None and (self.resume is not None or _several_processes(self.trainer)):
            what = "resume" if self.resume is not None else "training in several processes"
            raise ValueError(f"{what} needs random_state=a number: splits and weights must come out the same each time")

    def _check_trainer(self) -> None:
        if str(self.precision).startswith("64"):
            raise ValueError(f"precision={self.precision!r} is not supported: nets train in 32 bits, or mixed with 16")
        strategy = str((self.trainer or {}).get("strategy", ""))
        if any(kind in strategy for kind in ("spawn", "fork", "notebook")):
            raise ValueError(
                f"strategy={strategy!r} trains in processes that end with the fit and take the nets with them; "
                "use 'ddp', which runs the script in every process"
            )

    def _read(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        """Return a checked table or an array of images, and the labels, which folders and Datasets bring along."""
        self.images_ = is_images(X)
        if self.images_:
            images = self._read_images(X, None)
            X, y = _channels_last(images.pixels), images.labels if y is None else y  # noqa: N806
            self.image_shape_ = tuple(int(side) for side in X.shape[1:])
            self.n_features_in_ = math.prod(self.image_shape_)
        else:
            X = self._check_table(X, reset=True)  # noqa: N806
        return X, y

    def _read_images(self, X: Any, size: tuple[int, int] | None) -> Images:  # noqa: N803
        """Read images, of a size if one is given; without ``image_size`` arrays keep theirs."""
        usual = None if hasattr(X, "ndim") else FILE_SIZE
        wished = usual if self.image_size is None else self.image_size
        return as_images(X, image_size=wished if size is None else size)

    def _members(self, targets: Sequence[float], folds: Sequence[tuple[Any, Any]]) -> list[Member]:
        """Return one member per target and fold; folds that train together share a controller."""
        members = []
        for target in targets:
            shared = self._controller(target) if self._together else None
            for fold, (train_rows, validation_rows) in enumerate(folds):
                controller = shared or self._controller(target)
                members.append(Member(train_rows, validation_rows, controller, fold))
        return members

    @property
    def _together(self) -> bool:
        """Whether all nets train as one batched computation."""
        return not self.images_ and self.module is None

    def _controller(self, target: float) -> AdaptiveWeight:
        # nets for tables are small and quick to overshoot: the exact update at half speed was cheapest on them
        update, damping = ("exponential", 1.0) if self.images_ else ("odds", 0.5)
        return AdaptiveWeight(
            self.costs_, target=target, partition=self.partition, bounds=self.bounds, caution=self.caution,
            update=update if self.update == "auto" else self.update,  # type: ignore[arg-type]
            damping=damping if isinstance(self.damping, str) and self.damping == "auto" else self.damping,  # type: ignore[arg-type]
        )  # fmt: skip

    def _encode_training_rows(self, rows: Rows, folds: Sequence[Any]) -> Tensor:
        if self.images_:
            return torch.from_numpy(rows.x if rows.extra is None else np.concatenate((rows.x, rows.extra)))
        # scales and categories come from rows that some net trains on
        learned = np.unique(np.concatenate([train for train, _ in folds]))
        everything = len(learned) == len(rows.y)
        self.encoder_ = TableEncoder().fit(rows.x if everything else take(rows.x, learned))
        encoded = self.encoder_.transform(rows.x)
        if rows.extra is not None:
            encoded = np.concatenate((encoded, self.encoder_.transform(rows.extra)))
        return torch.from_numpy(encoded)

    def _settings(self, rows: Rows, folds: Sequence[Any], seed: int) -> Settings:
        defaults = defaults_for(len(folds[0][0]), images=self.images_)
        chosen = {
            name: getattr(defaults, name) if isinstance(getattr(self, name), str) and getattr(self, name) == "auto"
            else getattr(self, name)
            for name in defaults._fields
        }  # fmt: skip
        for name in ("epochs", "batch_size"):
            if not isinstance(chosen[name], Integral) or chosen[name] < 1:
                raise ValueError(f"{name} must be 'auto' or a whole number of at least 1, got {chosen[name]!r}")
        return Settings(
            **chosen, select=self.select, adapt=self.adapt, device=choose_device(self.device),
            precision=self.precision, seed=seed, verbose=self.verbose, trainer=dict(self.trainer or {}),
            evaluation_batch_size=1024 if self.images_ else 16384, gradient_clip=None if self.images_ else 1.0,
        )  # fmt: skip

    # training

    def _train(self, x: Tensor, rows: Rows, members: list[Member], settings: Settings) -> list[Trained]:
        """Train all members: together where the net can hold many, else one after another."""
        weight = None if rows.weight is None else torch.from_numpy(rows.weight)
        data = Data(x, torch.from_numpy(rows.y.astype(np.float32)), weight, rows.costs)
        folder = self._resume_folder(data, members, settings)
        if self._together:
            seeds = [settings.seed + m.fold for m in members]
            table = TableNet(x.shape[1], len(members), numeric=self.encoder_.numeric_features, seeds=seeds)
            return [train(table, data, members, settings, resume=folder and folder / "together")]
        trained = []
        for number, member in enumerate(members):
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(settings.seed + member.fold)
                net = self._make_net(x.shape[1])
            part = folder and folder / f"member-{number}"
            trained.append(train(net, data, [member], settings, prepare=self._prepare(), resume=part))
        return trained

    def _make_net(self, n_features: int) -> nn.Module:
        """Return a fresh net: the user's, or the default image net."""
        if self.images_:
            module = "resnet18" if self.module is None else self.module
            net = named_network(module) if isinstance(module, str) else _build(module)
            if self.weights is not None:
                load_backbone(net, self.weights)
            net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
            return FlipAverage(net) if self.views == 4 else net
        if isinstance(self.module, str):
            raise TypeError(f"module={self.module!r} names an image net, but X is a table; give a net or a factory")
        return _build(self.module, n_features)

    def _prepare(self) -> nn.Module | None:
        if not self.images_:
            return None
        augment = [Augment()] if self.augment is True else [self.augment] if self.augment else []
        return nn.Sequential(ChannelsFirst(), *augment, Normalise())

    def _resume_folder(self, data: Data, members: list[Member], settings: Settings) -> Path | None:
        """Return the checkpoints' folder, after making sure that it belongs to this very fit."""
        if self.resume is None:
            return None
        folder = Path(self.resume)
        folder.mkdir(parents=True, exist_ok=True)
        mark = folder / "fit.sha256"
        known = _fingerprint(data, members, settings, [_describe(v) for v in (self.module, self.augment, self.views)])
        if mark.exists() and mark.read_text() != known:
            raise ValueError(
                f"the checkpoints in {folder} belong to other data or settings; give an empty folder, or the same fit"
            )
        draft = folder / f".fit-{os.getpid()}"
        draft.write_text(known)
        draft.replace(mark)
        return folder

    def _finish(
        self, trained: list[Trained], rows: Rows, members: list[Member], targets: list[float], folds: int
    ) -> None:
        logits = torch.cat([t.logits for t in trained], dim=1)
        if self.decide == "bayes":
            # undoing a weight w multiplies the odds by w: a shift of the logit
            logits = logits + torch.cat([t.log_weights for t in trained], dim=1)
        weights = [w for t in trained for w in t.weights]
        history = [row for t in trained for row in t.history]
        candidates = [
            self._candidate(target, logits, weights, rows, range(i * folds, (i + 1) * folds))
            for i, target in enumerate(targets)
        ]
        best = min(range(len(targets)), key=lambda i: candidates[i].cost)
        chosen = candidates[best]
        kept = list(range(best * folds, (best + 1) * folds))
        self.target_, self.threshold_ = targets[best], chosen.threshold
        self.shifts_ = chosen.shifts
        self.oof_scores_ = chosen.scores
        self.history_ = pd.DataFrame(history)[list(HISTORY)]
        self.target_costs_ = dict(zip(targets, (c.cost for c in candidates), strict=True))
        self._keep_nets(trained, kept)
        self._estimate(chosen.scores, rows)

    def _candidate(self, target: float, logits: Tensor, weights: list[float], rows: Rows, members: range) -> _Candidate:
        """Judge one target by the scores of rows its nets did not train on."""
        shifts = [math.log(weights[m]) if self.decide == "bayes" else 0.0 for m in members]
        mean = torch.nanmean(logits[:, list(members)], dim=1)
        scores = torch.sigmoid(mean.double()).numpy()
        judged = self._judge(target, scores, rows)
        return _Candidate(judged.threshold, shifts, scores, judged.cost)

    def _keep_nets(self, trained: list[Trained], kept: list[int]) -> None:
        if len(trained) == 1 and isinstance(trained[0].net, TableNet):
            self.net_: nn.Module = select_members(trained[0].net, kept)
        else:
            self.net_ = nn.ModuleList(trained[m].net for m in kept)
        self.net_.requires_grad_(False).eval()

    # predicting

    def decision_scores(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Return the raw scores: what the cost-weighted nets say, to be compared with ``threshold_``."""
        check_is_fitted(self)
        x = self._encode(X)
        device = torch.device(choose_device(self.device, warn=False))  # fit or load has said so
        prepare = self._prepare()
        nets = list(self.net_) if isinstance(self.net_, nn.ModuleList) else [self.net_]
        batch = 1024 if self.images_ else 16384
        logits = torch.cat(
            [
                predict_logits(n, x, device=device, batch_size=batch, prepare=prepare and prepare.to(device))
                for n in nets
            ],
            dim=1,
        )
        self.net_.to("cpu")
        mean = (logits + torch.tensor(self.shifts_)).mean(1)
        return torch.sigmoid(mean.double()).numpy()

    # keeping

    def save(self, folder: str | Path) -> Path:
        """Write the fitted classifier as safetensors and JSON with digests, atomically; ``adacsl.load`` reads it."""
        from adacsl.estimators.persistence import save_classifier  # noqa: PLC0415  it imports this module

        check_is_fitted(self)
        return save_classifier(self, folder)

    def export_onnx(self, path: str | Path, sample: Any) -> Path:
        """Write an ONNX graph with the outputs ``score``, ``probability`` and ``decision``.

        The graph takes raw numbers (float64, NaN = missing) where all columns are numeric, bytes (N x H x W x C) for
        images, and the features of ``encoder_.transform`` for tables with categories or dates. Threshold, class names
        and costs are in its metadata. Before the file is put in place it is run on ``sample``, some rows of X, and must
        agree with :meth:`decision_scores` to 1e-5.
        """
        from adacsl.estimators.export import export_onnx  # noqa: PLC0415  onnx stays optional

        check_is_fitted(self)
        return export_onnx(self, path, sample)

    def _encode(self, X: Any) -> Tensor:  # noqa: N803
        if self.images_:
            if not is_images(X):
                raise ValueError("this model was trained on images; give uint8 images, a folder or a Dataset")
            return torch.from_numpy(self._more_images(X))
        return torch.from_numpy(self.encoder_.transform(self._check_table(X, reset=False)))

    def _more_rows(self, X: Any) -> Any:  # noqa: N803
        return self._more_images(X) if self.images_ else super()._more_rows(X)

    def _more_images(self, X: Any) -> np.ndarray[Any, Any]:  # noqa: N803
        """Return images like those of the training: their size, their channels."""
        height, width, channels = self.image_shape_
        pixels = _channels_last(self._read_images(X, (height, width)).pixels)
        if pixels.shape[3] != channels:
            raise ValueError(f"the model was trained on images of {channels} channels, got {pixels.shape[3]}")
        return pixels


class _Candidate(NamedTuple):
    threshold: float
    shifts: list[float]
    scores: np.ndarray[Any, Any]
    cost: float


def defaults_for(n: int, *, images: bool) -> Defaults:
    """Return the training settings that "auto" stands for."""
    if images:
        return Defaults(epochs=15, batch_size=64, lr=3e-4, weight_decay=0.05, patience=None, optimizer="adamw")
    # small batches keep cross-fitting cheap: a batched step of five nets then costs little more than one net's
    batch = int(min(max(2 ** round(math.log2(max(n, 1) / 32)), 32), 256))
    epochs = int(min(max(3000 * batch // max(n, 1), 15), 60))
    return Defaults(epochs, batch, lr=2e-3, weight_decay=0.1, patience=max(10, epochs // 3), optimizer="adamw")


def _build(module: Any, *args: Any) -> nn.Module:
    """Return a fresh net from a module (copied, with its weights) or a factory."""
    import copy  # noqa: PLC0415

    net = copy.deepcopy(module) if isinstance(module, nn.Module) else module(*args)
    if not isinstance(net, nn.Module):
        raise TypeError(f"module must be an nn.Module or a callable that returns one, got {type(net).__name__}")
    return net


def _channels_last(pixels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return N x H x W x C: rows of such an array are channels-last batches, the layout GPUs like best."""
    return np.ascontiguousarray(pixels.transpose(0, 2, 3, 1))


def _several_processes(trainer: dict[str, Any] | None) -> bool:
    options = trainer or {}
    return options.get("devices", 1) not in (1, "1", [0]) or options.get("num_nodes", 1) != 1


def _describe(value: Any) -> str:
    """Return what can be told of a net or a function from one run of a program to the next."""
    if isinstance(value, nn.Module):
        shapes = [(name, list(tensor.shape)) for name, tensor in value.state_dict().items()]
        return f"{value!r} {shapes}"
    return str(getattr(value, "__qualname__", type(value).__qualname__)) if callable(value) else repr(value)


def _fingerprint(data: Data, members: list[Member], settings: Settings, others: list[str]) -> str:
    """Return a digest of everything that decides what a fit ends with."""
    digest = hashlib.sha256()
    arrays = [t.numpy() for t in (data.x, data.y, data.sample_weight) if t is not None]
    arrays += [part for member in members for part in (member.train, member.validation)]
    for array in arrays:
        digest.update(repr((array.shape, array.dtype.str)).encode())
        digest.update(np.ascontiguousarray(array).data)
    # where it trains, and what it shows, may change
    plain = {k: v for k, v in vars(settings).items() if k not in ("verbose", "device", "trainer", "optimizer")}
    costs = None if data.costs is None else data.costs.to_dict()
    states = [member.controller.state_dict() for member in members]
    text = json.dumps([plain, _describe(settings.optimizer), costs, states, others], sort_keys=True, default=repr)
    digest.update(text.encode())
    return digest.hexdigest()
