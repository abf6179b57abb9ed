"""Fitted scikit-learn estimators that have no array form of ours, in the format of skops: no pickle, no code.

What is read comes from files that anybody may have made. So a file is checked before skops sees it (:func:`_checked`:
its size, its parts, its nodes, the headers of its arrays), skops builds trusted types only, and what was built is
checked again (:func:`_check_objects`). Trees are never built by skops, as it does not check their indices: they travel
as the arrays of :mod:`adacsl.learners.arrays`, and skops holds a placeholder.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import math
import sys
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from types import ModuleType
from typing import Any

import numpy as np
from numpy.lib import format as npy

from adacsl.base.arrays import part_of
from adacsl.base.extras import requires
from adacsl.learners.arrays import BOOSTERS, LibraryBooster, Prefit, from_numbers, to_numbers
from adacsl.learners.trees import FORESTS

with requires("train"):
    import sklearn
    from scipy import sparse
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.dummy import DummyClassifier
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.feature_selection import SelectFromModel
    from sklearn.utils.metaestimators import available_if

__all__ = ["TRUSTED", "dump", "load"]

TRUSTED = (
    "sklearn.calibration._CalibratedClassifier",
    "sklearn.calibration._SigmoidCalibration",
    "sklearn.calibration._TemperatureScaling",
    "sklearn.compose._column_transformer.make_column_selector",
    "sklearn.feature_selection._mutual_info.mutual_info_classif",
    "sklearn.feature_selection._univariate_selection.chi2",
    "sklearn.feature_selection._univariate_selection.f_classif",
    "sklearn.impute._iterative._ImputerTriplet",
    "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
    "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
    "sklearn.utils._bunch.Bunch",
    "builtins.object",
    "numpy.dtype",
    "numpy.number",
    "scipy._lib.array_api_compat.numpy._aliases.asarray",
    "scipy.interpolate._bsplines.BSpline",
    "scipy.sparse._csc.csc_array",
    "scipy.sparse._csc.csc_matrix",
    "scipy.sparse._csr.csr_array",
    "scipy.sparse._csr.csr_matrix",
)
"""What is read beside what skops trusts: types that are plain values, functions that compute and do nothing else."""

LOADERS = frozenset(
    f"{kind}Node"
    for kind in (
        "Json", "Dict", "DefaultDict", "List", "Set", "Tuple", "Slice", "Bytes", "Function", "Type", "Object", "Loss",
        "NdArray", "DType", "SparseMatrix", "RandomState", "RandomGenerator",
    )
)  # fmt: skip
"""The kinds of nodes that are read: those of methods, partial functions, constructors and trees are not."""

CLASSES: dict[str, tuple[str, ...]] = {
    "DictNode": ("builtins.dict", "collections.OrderedDict", "sklearn.utils._bunch.Bunch"),
    "ListNode": ("builtins.list",),
    "SetNode": ("builtins.set",),
    "TupleNode": ("builtins.tuple", "sklearn.impute._iterative._ImputerTriplet"),
    "LossNode": ("sklearn._loss._loss.", "sklearn.linear_model._sgd_fast."),
}
"""Classes that are called with arguments from the file: only these, or those in modules that end with a dot."""

PROTOCOL = 2
"""Of skops: the rules of its older ones are not asked."""
DESCRIPTION = "schema.json"
LARGEST_DESCRIPTION = 1 << 26
"""Bytes of the nodes: about 200,000 words of a vectorizer."""
ENTRY = b"PK\x01\x02"
"""Begins each entry of a zip file's directory."""
MOST_FILES = 20_000
DEEPEST = 150
"""Levels of the description: pipelines in pipelines need ten each."""
READ_AGAIN = 16
"""How often, on average, a file may be named: estimators that share an array name it each."""
SPARSE_PARTS = frozenset(f"{name}.npy" for name in ("indices", "indptr", "format", "shape", "data", "_is_array"))
KIND, CONTENT = "skops", "skops"
PART = "adacsl_part_"
"""Attribute of a placeholder: which of the parts stands there."""

ADVICE = {
    "sklearn.neighbors._kd_tree": "take algorithm='brute'",
    "sklearn.neighbors._ball_tree": "take algorithm='brute'",
    "sklearn.metrics._dist_metrics": "take algorithm='brute'",
    "sklearn.gaussian_process": "Gaussian processes are not saved, take another classifier",
    "sklearn.tree._tree": "take RandomForestClassifier, ExtraTreesClassifier or HistGradientBoostingClassifier",
    "sklearn.ensemble._hist_gradient_boosting": "take HistGradientBoostingClassifier",
    "sklearn": "take another estimator",
}
"""What to do about types that are not read, by the beginning of their names."""
OTHER = "functions and classes of yours are not saved, apply them before the model"


def dump(estimator: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fitted estimator as arrays and plain values; raise an error that names what cannot be saved.

    It may be anything of scikit-learn that holds no type outside of skops' list and :data:`TRUSTED`; forests and
    boosters in it are kept as :func:`~adacsl.learners.arrays.to_numbers` writes them.
    """
    skops = _skops()
    parts: list[tuple[dict[str, Any], dict[str, Any]]] = []
    placeholders: dict[int, Any] = {}
    try:
        for result in _objects(estimator, inside=lambda one: not _has_arrays(one)):
            if not _has_arrays(result):
                continue
            placeholders[id(result)] = DummyClassifier()
            if _is_fitted(result):
                vars(placeholders[id(result)])[PART] = len(parts)
                parts.append(to_numbers(result))
        _check_objects(estimator)
        _check_selection(estimator)
        content = _unpacked(skops.dumps(copy.deepcopy(estimator, dict(placeholders))))
        _refuse_types(skops.get_untrusted_types(data=content))
        _checked(content)  # what is written can be read
    except Exception as error:
        reason = " ".join(str(error).split())[:400] or type(error).__name__
        raise ValueError(f"{type(estimator).__name__} cannot be saved without pickle: {reason}") from error
    arrays = {f"{i}.{name}": value for i, (own, _) in enumerate(parts) for name, value in own.items()}
    about = {"kind": KIND, "sklearn": _release(sklearn.__version__), "parts": [about for _, about in parts]}
    return {CONTENT: np.frombuffer(content, dtype=np.uint8)} | arrays, about


def load(arrays: dict[str, Any], about: dict[str, Any]) -> Any:
    """Return the estimator of what :func:`dump` gave, once checked; how many processes it used is not kept."""
    if about["sklearn"] != _release(sklearn.__version__):
        raise ValueError(
            f"it was saved with scikit-learn {str(about['sklearn'])[:20]}, and this is {sklearn.__version__}: install "
            "that version, or train it again"
        )
    skops = _skops()
    content = _checked(np.asarray(arrays[CONTENT], dtype=np.uint8).tobytes())
    _refuse_types(skops.get_untrusted_types(data=content))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of versions that differ in their last number
        result = skops.loads(content, trusted=list(TRUSTED))
    _put_back(result, [from_numbers(part_of(arrays, f"{i}."), own) for i, own in enumerate(about["parts"])])
    _check_objects(result)
    for one in _objects(result):
        if "n_jobs" in getattr(one, "__dict__", {}):
            one.n_jobs = None
    return Prefit(result, about["classes"]) if "classes" in about else result


def _skops() -> Any:
    """Return skops' reader and writer; to know what to trust it imports all of scikit-learn, but not torch with it."""
    unneeded = "sklearn.externals.array_api_compat.torch"
    with requires("train"), _absent(unneeded):
        from skops import io  # noqa: PLC0415  it takes two seconds
    return io


@contextlib.contextmanager
def _absent(name: str) -> Iterator[None]:
    """Let a module seem not to be there, unless it was imported before."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


def _has_arrays(model: Any) -> bool:
    """Return whether a part is a forest or booster, which has an array form and is not built by skops."""
    kind = type(model)
    return kind in FORESTS.values() or kind is HistGradientBoostingClassifier or kind.__name__ in BOOSTERS


def _is_fitted(model: Any) -> bool:
    classes = getattr(model, "classes_", None)  # of CatBoost an empty list before
    return classes is not None and len(classes) > 0


class SavedBooster(ClassifierMixin, BaseEstimator):
    """A booster of LightGBM, XGBoost or CatBoost that was read, as a step of a pipeline."""

    def __init__(self, booster: Any = None) -> None:
        self.booster = booster

    @property
    def classes_(self) -> Any:
        """The labels of its columns."""
        return self.booster.classes_

    def fit(self, X: Any, y: Any) -> Any:  # noqa: N803
        """Refuse: how it was trained is not kept."""
        raise TypeError("a booster that was read predicts, it cannot be fitted again: fit a new one")

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Any:  # noqa: N803
        """Return probabilities."""
        return self.booster.predict_proba(X)

    @available_if(lambda self: self.booster.margins)  # type: ignore[untyped-decorator]
    def decision_function(self, X: Any) -> Any:  # noqa: N803
        """Return margins, where the booster's class does: a calibration around it was fitted to them."""
        return self.booster.decision_function(X)

    def predict(self, X: Any) -> Any:  # noqa: N803
        """Return the likeliest label of each sample."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def _release(version: str) -> str:
    """Return the first two numbers of a version: within them fitted estimators mean the same."""
    return ".".join(version.split(".")[:2])


def _refuse_types(names: Sequence[str]) -> None:
    """Refuse types that are not trusted, by name, with what to do."""
    unknown = sorted(set(names) - set(TRUSTED))
    if unknown:
        own = [(start, name) for start in ADVICE for name in unknown if name.startswith(f"{start}.")]
        name, advice = (own[0][1], ADVICE[own[0][0]]) if own else (unknown[0], OTHER)
        more = f" and {len(unknown) - 1} more" if len(unknown) > 1 else ""
        raise ValueError(f"it holds {name[:100]}{more}, which is not read from files: {advice}")


def _unpacked(content: bytes) -> bytes:
    """Return a file whose sparse matrices are stored as they are: what is not packed cannot be a bomb."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(out, "w") as written:
        for name in archive.namelist():
            part = archive.read(name)
            written.writestr(name, _unpacked(part) if name.endswith(".npz") else part)
    return out.getvalue()


# before skops


def _checked(content: bytes) -> bytes:
    """Return a file without references between its nodes, or refuse it: sizes, parts, nodes and headers of arrays.

    A reference could lead back to a node that holds it, or be followed again and again.
    """
    if content.count(ENTRY) > MOST_FILES:  # before they are read one by one
        raise ValueError(f"its estimator has more than {MOST_FILES} parts")
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        sizes = _sizes_of(archive.infolist(), len(content))
        if sizes.get(DESCRIPTION, LARGEST_DESCRIPTION + 1) > LARGEST_DESCRIPTION:
            raise ValueError(f"its estimator is described in more than {LARGEST_DESCRIPTION} bytes, or not at all")
        description = json.loads(archive.read(DESCRIPTION))
        if not isinstance(description, dict) or description.get("protocol") != PROTOCOL:
            raise ValueError(f"its estimator is not in skops' protocol {PROTOCOL}: save it again")
        left = READ_AGAIN * len(content)
        for name in _files_of(description):
            left -= sizes.get(name, left + 1)
            if left < 0:
                raise ValueError(f"its estimator lacks {name[:60]!r}, or names its parts again and again")
        kept = io.BytesIO()
        with zipfile.ZipFile(kept, "w") as written:
            written.writestr(DESCRIPTION, json.dumps(description))
            for name in sizes.keys() - {DESCRIPTION}:
                part = archive.read(name)
                _check_file(name, part)
                written.writestr(name, part)
    return kept.getvalue()


def _sizes_of(entries: Sequence[zipfile.ZipInfo], size: int) -> dict[str, int]:
    """Return the size of each part of a file of so many bytes: stored as they are, they are no larger than all."""
    sizes = {entry.filename: entry.file_size for entry in entries}
    if len(sizes) != len(entries):
        raise ValueError(f"its estimator has {len(entries)} parts, one of them twice")
    for entry in entries:
        stored = entry.compress_type == zipfile.ZIP_STORED and entry.compress_size == entry.file_size
        if not stored or entry.flag_bits & 1:
            raise ValueError(f"{entry.filename[:60]!r} is compressed or encrypted, which adacsl never writes")
    if sum(sizes.values()) > size:
        raise ValueError("the parts of its estimator are larger than all of it")
    return sizes


def _files_of(description: dict[str, Any]) -> Iterator[str]:
    """Yield the file of each node that has one; refuse other nodes than those we read, and take their numbers away."""
    waiting: list[tuple[Any, int]] = [(description, 0)]
    while waiting:
        value, depth = waiting.pop()
        if depth > DEEPEST:
            raise ValueError(f"its estimator is nested in more than {DEEPEST} levels")
        if isinstance(value, dict):
            if "__loader__" in value:
                yield from _file_of(value)
            waiting += [(inner, depth + 1) for inner in value.values() if isinstance(inner, dict | list)]
        elif isinstance(value, list):
            waiting += [(inner, depth + 1) for inner in value if isinstance(inner, dict | list)]


def _file_of(node: dict[str, Any]) -> Iterator[str]:
    names = [node.get(name) for name in ("__loader__", "__module__", "__class__")]
    if not all(isinstance(name, str) for name in names) or names[0] not in LOADERS:
        raise ValueError(f"its estimator holds a {str(names[0])[:40]}, which is not read from files")
    loader, kind = str(names[0]), f"{names[1]}.{names[2]}"
    if not any(kind == one or (one.endswith(".") and kind.startswith(one)) for one in CLASSES.get(loader, (kind,))):
        raise ValueError(f"its estimator holds a {loader} of {kind[:100]}, which is not read from files")
    node.pop("__id__", None)
    if "file" in node:
        if not isinstance(node["file"], str):
            raise ValueError("its estimator has a file without a name")
        yield node["file"]


def _check_file(name: str, content: bytes) -> None:
    """Refuse an array that has another size than stated, or that holds objects."""
    if name.endswith(".npy"):
        _check_array(io.BytesIO(content), len(content), name)
    elif name.endswith(".npz"):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = archive.infolist()
            if not _sizes_of(entries, len(content)).keys() <= SPARSE_PARTS:
                raise ValueError(f"{name[:60]!r} is not a sparse matrix")
            for entry in entries:
                with archive.open(entry) as opened:
                    _check_array(opened, entry.file_size, name)
    elif not name.endswith(".bin"):
        raise ValueError(f"its estimator holds a file {name[:60]!r}, which is not read")


def _check_array(opened: Any, size: int, name: str) -> None:
    version = npy.read_magic(opened)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"{name[:60]} is not an array that adacsl writes")
    shape, _, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(opened)
    whole = all(isinstance(side, int) and side >= 0 for side in shape)
    if dtype.hasobject or not whole or opened.tell() + math.prod(shape) * dtype.itemsize != size:
        raise ValueError(f"{name[:60]} holds objects, or has another size than stated")


# after skops


def _objects(root: Any, inside: Callable[[Any], bool] = lambda _: True) -> Iterator[Any]:
    """Yield all objects that an estimator holds in attributes, lists, mappings and arrays of objects, itself first.

    ``inside`` returns for each whether its contents are of interest.
    """
    waiting, seen = [root], {id(root)}
    while waiting:
        result = waiting.pop()
        yield result
        if not inside(result):
            continue
        inner: list[Any] = []
        own = getattr(result, "__dict__", None)
        if isinstance(result, dict):
            inner += result.values()
        elif isinstance(result, list | tuple | set):
            inner += result
        elif isinstance(result, np.ndarray) and result.dtype == object:
            inner += result.ravel().tolist()
        if isinstance(own, dict) and not isinstance(result, ModuleType):
            inner += own.values()
        new = [value for value in inner if id(value) not in seen and not isinstance(value, str | float | int | None)]
        seen.update(map(id, new))
        waiting += new


def _put_back(estimator: Any, parts: Sequence[Any]) -> None:
    """Let placeholders become the parts that they stand for."""
    for result in _objects(estimator):
        if isinstance(result, DummyClassifier) and PART in vars(result):
            made = parts[int(vars(result)[PART])]
            made = SavedBooster(made) if isinstance(made, LibraryBooster) else made
            result.__class__, result.__dict__ = type(made), vars(made)


def _check_selection(estimator: Any) -> None:
    """Refuse a selection of columns that asks a forest for importances each time: they are not kept."""
    for result in _objects(estimator):
        if isinstance(result, SelectFromModel) and _has_arrays(result.estimator_):
            raise ValueError("SelectFromModel needs the importances of its forest, which are not saved: use RFE")


def _check_objects(estimator: Any) -> None:
    """Refuse what reads files when it predicts or is fitted, and sparse matrices with indices outside of them."""
    for result in _objects(estimator):
        own = getattr(result, "__dict__", {})
        name, given = type(result).__name__, own.get("input", "content")
        if type(result).__module__.startswith("sklearn.feature_extraction") and given != "content":
            raise ValueError(f"{name}(input={str(given)[:20]!r}) reads files: use input='content'")
        if own.get("memory") is not None:
            raise ValueError(f"{name}(memory=...) reads and writes files: use memory=None")
        if sparse.issparse(result) and hasattr(result, "check_format"):
            result.check_format(full_check=True)
