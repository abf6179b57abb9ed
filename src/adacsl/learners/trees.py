"""Trees and forests of scikit-learn as plain arrays, and back, with index checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from adacsl.base.extras import requires

with requires("sklearn"):
    from sklearn.ensemble import BaseEnsemble, ExtraTreesClassifier, RandomForestClassifier
    from sklearn.tree import DecisionTreeClassifier, ExtraTreeClassifier
    from sklearn.tree._tree import NODE_DTYPE, Tree
    from sklearn.utils.validation import check_is_fitted


FORESTS: dict[str, Any] = {
    kind.__name__: kind
    for kind in (DecisionTreeClassifier, ExtraTreeClassifier, RandomForestClassifier, ExtraTreesClassifier)
}
FIELDS = {"left": "left_child", "right": "right_child", "feature": "feature", "threshold": "threshold",
          "missing": "missing_go_to_left"}  # fmt: skip
"""Our names of scikit-learn's fields."""
KEPT_AS: dict[str, Any] = {"sizes": np.int64, "left": np.int32, "right": np.int32, "feature": np.int32,
                           "threshold": np.float64, "missing": np.uint8, "value": np.float64,
                           "categorical": np.uint8, "category_set": np.int32}  # fmt: skip
CHILDREN = ("left", "right")
LEAF = -1
MOST = np.iinfo(np.int32).max


# any trees


def pack(
    trees: Sequence[NDArray[Any]], leaves: NDArray[np.bool_], values: NDArray[np.float64], fields: dict[str, str]
) -> dict[str, NDArray[Any]]:
    """Return trees, one after another, as arrays of what predicts.

    Each tree has its size; each node its children, counted from its tree's root (-1 in leaves); each node with
    children its split; each leaf its value.
    """
    nodes = np.concatenate(trees)
    result = {name: nodes[field][~leaves] for name, field in fields.items() if name not in CHILDREN}
    result |= {name: np.where(leaves, LEAF, nodes[fields[name]].astype(np.int64)) for name in CHILDREN}
    result |= {"sizes": np.asarray([len(tree) for tree in trees]), "value": values[leaves]}
    return {name: value.astype(KEPT_AS[name]) for name, value in result.items()}


def unpack(
    arrays: dict[str, NDArray[Any]], fields: dict[str, str], dtype: Any, n_features: int
) -> tuple[NDArray[Any], NDArray[np.bool_]]:
    """Return the nodes of what :func:`pack` gave in scikit-learn's layout, once checked, and which are leaves."""
    check_trees(arrays, fields, n_features)
    leaves = arrays["left"] == LEAF
    nodes = np.zeros(len(leaves), dtype=dtype)
    for name, field in fields.items():
        nodes[field][slice(None) if name in CHILDREN else ~leaves] = arrays[name]
    return nodes, leaves


def by_tree(arrays: dict[str, NDArray[Any]], values: NDArray[Any]) -> list[NDArray[Any]]:
    """Return values of all nodes, tree by tree."""
    return np.split(values, np.cumsum(arrays["sizes"])[:-1])


def check_trees(arrays: dict[str, NDArray[Any]], fields: dict[str, str], n_features: Any) -> None:
    """Refuse arrays that are no trees: a walk through them might read elsewhere, or never end."""
    names = (*fields, "sizes", "value")
    for name in names:
        dimensions = (1, 2) if name == "value" else (1,)
        insist(name in arrays and arrays[name].dtype == KEPT_AS[name] and arrays[name].ndim in dimensions, name)
    sizes, left = arrays["sizes"], arrays["left"]
    n, splits = len(left), int(np.sum(left != LEAF))
    # each size first: a sum of very large ones might wrap around to the right number
    insist(len(sizes) > 0 and np.all((sizes > 0) & (sizes <= n)) and sizes.sum() == n, "sizes")
    for name in names:
        expected = {"sizes": len(sizes), "value": n - splits}.get(name, n if name in CHILDREN else splits)
        insist(len(arrays[name]) == expected, name)
    insist(isinstance(n_features, int) and 0 < n_features <= MOST, "number of features")
    insist(np.all((arrays["feature"] >= 0) & (arrays["feature"] < n_features)), "feature")
    # infinite where only gaps go to the right
    insist(not np.isnan(arrays["threshold"]).any(), "threshold")
    insist(np.isfinite(arrays["value"]).all(), "value")
    _check_children(sizes, np.stack((left, arrays["right"])).astype(np.int64))


def _check_children(sizes: NDArray[np.int64], children: NDArray[np.int64]) -> None:
    """Insist on one parent for each node but the root, with a smaller number: so there are no circles."""
    root = np.repeat(np.cumsum(sizes) - sizes, sizes)
    place = np.arange(len(root)) - root
    split = children[0] != LEAF
    inside = (children > place) & (children < np.repeat(sizes, sizes))
    insist(np.all(np.where(split, inside, children == LEAF)), "children")
    parents = np.bincount((children + root)[:, split].ravel(), minlength=len(root))
    insist(np.array_equal(parents, place > 0), "children")


def insist(fine: Any, what: str) -> None:
    """Refuse what is not fine."""
    if not fine:
        raise ValueError(f"the trees are not valid: {what} cannot be right")


# scikit-learn's classifiers


def description(model: Any) -> dict[str, Any]:
    """Return in plain values what a fitted classifier knows besides its trees."""
    names = getattr(model, "feature_names_in_", np.asarray([])).tolist()
    about = {"kind": type(model).__name__, "classes": model.classes_.tolist(), "names": names}
    return about | {"features": int(model.n_features_in_)}


def count_classes(about: dict[str, Any]) -> int:
    """Return how many classes a description names, two at least."""
    insist(isinstance(about["classes"], list) and len(about["classes"]) >= 2, "classes")
    return len(about["classes"])


def as_fitted(model: Any, about: dict[str, Any], **state: Any) -> Any:
    """Return a model with what scikit-learn's ``fit`` leaves for ``predict``."""
    vars(model).update(
        classes_=np.asarray(about["classes"]), n_classes_=count_classes(about), n_outputs_=1,
        n_features_in_=about["features"], **state,
    )  # fmt: skip
    if about["names"]:
        model.feature_names_in_ = np.asarray(about["names"], dtype=object)
    return model


def forest_numbers(model: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a fitted tree or forest as arrays and plain values."""
    check_is_fitted(model)
    if model.n_outputs_ != 1 or model.n_classes_ < 2:
        raise ValueError(
            f"{type(model).__name__} cannot be saved without pickle unless it has one output of two or more classes"
        )
    states = [tree.tree_.__getstate__() for tree in getattr(model, "estimators_", [model])]
    trees = [state["nodes"][: state["node_count"]] for state in states]
    values = np.concatenate([state["values"][: len(tree), 0] for state, tree in zip(states, trees, strict=True)])
    leaves = np.concatenate([tree["left_child"] == LEAF for tree in trees])
    arrays, about = pack(trees, leaves, values, FIELDS), description(model)
    check_trees(arrays, FIELDS, about["features"])  # what is written can be read
    return arrays, about


def forest_from_numbers(arrays: dict[str, Any], about: dict[str, Any]) -> Any:
    """Return the tree or forest of what :func:`forest_numbers` gave: it predicts; how it was trained is gone."""
    nodes, leaves = unpack(arrays, FIELDS, NODE_DTYPE, about["features"])
    n_classes = count_classes(about)
    insist(arrays["value"].shape[1:] == (n_classes,), "value")
    values = np.zeros((len(nodes), 1, n_classes))
    values[leaves, 0] = arrays["value"]
    parts = zip(by_tree(arrays, nodes), by_tree(arrays, values), strict=True)
    trees = [_tree(*part, about["features"]) for part in parts]
    kind = FORESTS[about["kind"]]
    if not issubclass(kind, BaseEnsemble):
        insist(len(trees) == 1, "sizes")
        return as_fitted(kind(), about, tree_=trees[0])
    made = kind(n_estimators=len(trees))
    inner = about | {"classes": np.arange(float(n_classes)).tolist(), "names": []}  # what a forest's trees know
    made.estimators_ = [as_fitted(type(made.estimator)(), inner, tree_=tree) for tree in trees]
    return as_fitted(made, about)


def _tree(nodes: NDArray[Any], values: NDArray[np.float64], n_features: int) -> Any:
    tree = Tree(n_features, np.asarray([values.shape[2]], dtype=np.intp), 1)
    depth = _depth(nodes["left_child"], nodes["right_child"])
    tree.__setstate__({"max_depth": depth, "node_count": len(nodes), "nodes": nodes, "values": values})
    return tree


def _depth(left: NDArray[np.int64], right: NDArray[np.int64]) -> int:
    """Return how many splits the longest path has; scikit-learn reserves memory for paths by it, so it is counted."""
    depth, at = 0, np.flatnonzero(left[:1] != LEAF)
    while len(at):
        below = np.concatenate((left[at], right[at]))
        depth, at = depth + 1, below[left[below] != LEAF]
    return depth
