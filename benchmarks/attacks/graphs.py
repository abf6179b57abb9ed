"""Forged ONNX graphs of saved models, with digests that fit: other files, foreign operations, endless ones, giants."""

from __future__ import annotations

import contextlib
import shutil
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.estimators.artefact import ArtefactError, read_artefact
from adacsl.estimators.persistence import load_noted
from adacsl.integrations.onnx import MOST_MEMORY, OnnxClassifier
from benchmarks.attacks.artefacts import memory, reset_peak
from benchmarks.attacks.saved import LONGEST_LINE, resealed
from benchmarks.attacks.scoreboard import Attack, Attempt
from benchmarks.attacks.untrusted import Watch

PART = "model.0.graph"
LONGEST = 30.0
"""Seconds of one try: a graph is ended after ten, between two operations."""
FLOAT, INT, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
Change = Callable[[Any, np.random.Generator, Path], str]
"""Changes a graph in place, and returns what it did; the path is that of a sentinel."""


def node(kind: str, inputs: list[str], outputs: list[str], **more: Any) -> Any:
    return helper.make_node(kind, inputs, outputs, **more)


def models(folder: Path) -> list[Path]:
    """Save a linear graph and one of tokens."""
    rng = np.random.default_rng(0)
    value = helper.make_tensor_value_info
    x, y = rng.normal(size=(80, 3)), np.arange(80) % 2
    line = helper.make_graph(
        [node("MatMul", ["x", "w"], ["z"]), node("Relu", ["z"], ["scores"])], "line", [value("x", FLOAT, ["n", 3])],
        [value("scores", FLOAT, ["n", 2])], [helper.make_tensor("w", FLOAT, [3, 2], rng.normal(size=6))],
    )  # fmt: skip
    text = helper.make_graph(
        [node("Gather", ["w", "ids"], ["z"]), node("ReduceSum", ["z", "one"], ["scores"], keepdims=0)], "text",
        [value("ids", INT, ["n", 4])], [value("scores", FLOAT, ["n", 2])],
        [helper.make_tensor("w", FLOAT, [9, 2], rng.normal(size=18)), helper.make_tensor("one", INT, [1], [1])],
    )  # fmt: skip
    for name, graph, rows in (("line", line, x), ("text", text, {"ids": rng.integers(0, 9, (80, 4))})):
        content = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=10)
        learner = OnnxClassifier(content.SerializeToString())
        CostSensitiveClassifier(CostMatrix(fp=1, fn=5), learner=learner, decide="tuned").fit(rows, y).save(
            folder / name
        )
    return [folder / "line", folder / "text"]


# changes


def other_file(model: Any, rng: np.random.Generator, sentinel: Path) -> str:
    """Let weights lie in another file, here or elsewhere, or in an attribute of a hidden branch."""
    paths = (str(sentinel), "secret.bin", "../secret.bin", "/etc/passwd", "/dev/zero", "/proc/self/mem", "")
    path, hidden = paths[int(rng.integers(len(paths)))], bool(rng.integers(2))
    tensor = model.graph.initializer[0]
    if hidden:
        own = helper.make_tensor("hidden", FLOAT, [1], [1.0])
        model.graph.node.insert(0, node("Constant", [], ["unused"], value=own))
        tensor = model.graph.node[0].attribute[0].t
    if rng.integers(4):
        tensor.data_location = TensorProto.EXTERNAL
        tensor.ClearField("float_data")
    for key, value in (("location", path), ("offset", "0"), ("length", str(int(rng.choice([24, 2**40]))))):
        tensor.external_data.add(key=key, value=value)
    return f"weights in {path!r}{', hidden' if hidden else ''}"


def foreign_operation(model: Any, rng: np.random.Generator, sentinel: Path) -> str:
    """Put an operation of another domain in the place of one."""
    domain = str(
        rng.choice(["com.microsoft", "ai.onnx.contrib", "evil", "org.pytorch.aten", "ai.onnx.preview.training"])
    )
    kind = str(rng.choice(["EPContext", "PyOp", "PyCustomOpDef", "ATen", "NhwcMaxPool", "WordConvEmbedding"]))
    own = model.graph.node[int(rng.integers(len(model.graph.node)))]
    own.domain, own.op_type = domain, kind
    own.attribute.append(helper.make_attribute("ep_cache_context", str(sentinel)))
    model.opset_import.append(helper.make_opsetid(domain, 1))
    return f"{domain}.{kind}"


def functions(model: Any, _: np.random.Generator, __: Path) -> str:
    """Let each of forty functions call the one before twice."""
    versions = [helper.make_opsetid("", 18), helper.make_opsetid("f", 1)]
    model.functions.append(helper.make_function("f", "F0", ["a"], ["b"], [node("Identity", ["a"], ["b"])], versions))
    for i in range(1, 40):
        calls = [node(f"F{i - 1}", ["a"], ["c"], domain="f"), node(f"F{i - 1}", ["c"], ["b"], domain="f")]
        model.functions.append(helper.make_function("f", f"F{i}", ["a"], ["b"], calls, versions))
    return "functions that double forty times"


def endless(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Put a loop without end before the scores, open or in a branch."""
    value = helper.make_tensor_value_info
    body = helper.make_graph(
        [node("Identity", ["c"], ["d"]), node("Add", ["v", "v"], ["u"])], "b",
        [value("i", INT, []), value("c", BOOL, []), value("v", FLOAT, None)],
        [value("d", BOOL, []), value("u", FLOAT, None)],
    )  # fmt: skip
    model.graph.initializer.extend(
        [helper.make_tensor("count", INT, [], [2**62]), helper.make_tensor("yes", BOOL, [], [True]),
         helper.make_tensor("start", FLOAT, [], [0.0])]
    )  # fmt: skip
    loop = node("Loop", ["count", "yes", "start"], ["never"], body=body)
    if rng.integers(2):
        branch = helper.make_graph([loop], "branch", [], [value("never", FLOAT, None)])
        loop = node("If", ["yes"], ["never"], then_branch=branch, else_branch=branch)
        what = "a loop in a branch"
    else:
        what = "a loop"
    _add(model, [loop], "never")
    return what


def giant(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Let the scores depend on an array beyond the memory."""
    sides = int(rng.choice([2**16, 2**20, 2**31, 2**62]))
    model.graph.initializer.append(helper.make_tensor("sides", INT, [2], [sides, 2**16]))
    kind = int(rng.integers(4))
    if kind == 0:
        made = [node("ConstantOfShape", ["sides"], ["big"])]
    elif kind == 1:
        model.graph.initializer.append(helper.make_tensor("small", FLOAT, [1, 1], [1.0]))
        made = [node("Expand", ["small", "sides"], ["big"])]
    elif kind == 2:
        model.graph.initializer.append(helper.make_tensor("small", FLOAT, [1, 1], [1.0]))
        made = [node("Tile", ["small", "sides"], ["big"])]
    else:
        scalars = [helper.make_tensor(name, INT, [], [at]) for name, at in (("a", 0), ("b", 2**60), ("c", 1))]
        model.graph.initializer.extend(scalars)
        made = [node("Range", ["a", "b", "c"], ["range"]), node("Cast", ["range"], ["big"], to=FLOAT)]
    _add(model, [*made, node("ReduceMax", ["big"], ["most"], keepdims=0)], "most")
    return f"{made[0].op_type} of {sides} rows"


def slow(model: Any, _: np.random.Generator, __: Path) -> str:
    """Let the scores depend on thousands of products of matrices."""
    model.graph.initializer.append(helper.make_tensor("sides", INT, [2], [1200, 1200]))
    made = [node("ConstantOfShape", ["sides"], ["m0"])]
    made += [node("MatMul", [f"m{i}", "m0"], [f"m{i + 1}"]) for i in range(5000)]
    _add(model, [*made, node("ReduceMax", ["m5000"], ["most"], keepdims=0)], "most")
    return "5,000 products"


def deep(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Put branches in branches."""
    depth = int(rng.integers(15, 27))
    value = helper.make_tensor_value_info
    inner = helper.make_graph([node("Constant", [], ["v"], value_float=1.0)], "g", [], [value("v", FLOAT, None)])
    model.graph.initializer.append(helper.make_tensor("yes", BOOL, [], [True]))
    for _i in range(depth):
        other = helper.make_graph([node("Constant", [], ["v"], value_float=1.0)], "g", [], [value("v", FLOAT, None)])
        made = node("If", ["yes"], ["v"], then_branch=inner, else_branch=other)
        inner = helper.make_graph([made], "g", [], [value("v", FLOAT, None)])
    _add(model, [node("If", ["yes"], ["v"], then_branch=inner, else_branch=inner)], "v")
    return f"{depth} branches in each other"


def random_scores(model: Any, _: np.random.Generator, __: Path) -> str:
    """Add noise to the scores."""
    _add(model, [node("RandomNormal", [], ["noise"], shape=[1, 2])], "noise")
    return "random scores"


def shapes(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Let inputs, outputs or weights claim other shapes."""
    where = int(rng.integers(3))
    if where == 2:
        tensor = model.graph.initializer[0]
        del tensor.dims[:]
        tensor.dims.extend([[2**40, 2], [-1, 2], [0, 2], [2**62, 4], [6]][int(rng.integers(5))])
        return "weights of another shape"
    given = (model.graph.input, model.graph.output)[where][0].type.tensor_type
    sides = [[2**40], [-1, 3], [], [1, 2, 3, 4, 5, 6], ["n", 2**50], ["n", 0], ["n"], [10**6, 3]][int(rng.integers(8))]
    del given.shape.dim[:]
    for side in sides:
        dim = given.shape.dim.add()
        if isinstance(side, int):
            dim.dim_value = side
        else:
            dim.dim_param = side
    given.elem_type = int(rng.choice([FLOAT, INT, TensorProto.STRING, TensorProto.COMPLEX64, 99]))
    return f"{('input', 'output')[where]} of shape {sides}"


def far_indices(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Ask for elements that are not there."""
    index = int(rng.choice([10**9, -(10**9), 2**62]))
    model.graph.initializer.append(helper.make_tensor("far", INT, [2, 1], [index, index]))
    made = node(str(rng.choice(["Gather", "GatherND", "GatherElements"])), ["w", "far"], ["there"])
    _add(model, [made, node("ReduceMax", ["there"], ["most"], keepdims=0)], "most")
    return f"{made.op_type} at {index}"


def trees(model: Any, rng: np.random.Generator, _: Path) -> str:
    """Add a tree whose nodes lead in circles or nowhere."""
    ends = [[0, 0, 0], [1, 7, 0], [2, 2, 2], [-1, 2**40, 0]][int(rng.integers(4))]
    made = node(
        "TreeEnsembleRegressor", ["flat"], ["leaf"], domain="ai.onnx.ml", n_targets=1, post_transform="NONE",
        nodes_treeids=[0, 0, 0], nodes_nodeids=[0, 1, 2], nodes_featureids=[int(rng.choice([0, 10**9])), 0, 0],
        nodes_values=[0.0] * 3, nodes_hitrates=[1.0] * 3, nodes_modes=["BRANCH_LEQ", "BRANCH_LEQ", "LEAF"],
        nodes_truenodeids=ends, nodes_falsenodeids=[2, 2, 0], nodes_missing_value_tracks_true=[0] * 3,
        target_treeids=[0], target_nodeids=[2], target_ids=[int(rng.choice([0, 10**9]))], target_weights=[1.0],
    )  # fmt: skip
    model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 3))
    first = model.graph.input[0].name
    _add(model, [node("Cast", [first], ["flat"], to=FLOAT), made], "leaf")
    return f"a tree with the ends {ends}"


def _add(model: Any, nodes: list[Any], name: str) -> None:
    """Let the scores be those of the graph and something more."""
    model.graph.node[-1].output[0] = "before"
    model.graph.node.extend([*nodes, node("Add", ["before", name], ["scores"])])


CHANGES: tuple[Change, ...] = (
    other_file, foreign_operation, functions, endless, giant, deep, random_scores, shapes, far_indices, trees, slow,
)  # fmt: skip
QUICK = tuple(change for change in CHANGES if change is not slow)


def other_bytes(content: bytes, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a file that nobody could have written."""
    changed = bytearray(content)
    place = int(rng.integers(len(changed)))
    if rng.integers(3) == 0:
        return "a file cut off", bytes(changed[:place])
    if rng.integers(3) == 0:
        return "messages in each other", b"\x3a\x7f" * 5000 + content
    changed[place : place + 6] = rng.bytes(6)
    return f"6 bytes at {place}", bytes(changed)


# tries


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    rng = np.random.default_rng(seed)
    known = models(folder / "models")
    watch = Watch()
    rows = {"line": rng.normal(size=(50, 3)), "text": {"ids": rng.integers(0, 9, (50, 4))}}
    for place in known:  # imports run code of their own, once
        load_noted(place, device="cpu")[0].predict(rows[place.name])
    for number in range(tries):
        model = known[number % len(known)]
        place, sentinel = folder / f"try-{number}" / "model", folder / f"ran-{number}"
        shutil.copytree(model, place)
        (place / "secret.bin").write_bytes(bytes(72))
        what = _changed(place, number // len(known), tries, rng, sentinel)
        yield Attempt(f"{model.name}, {what}", _fault(watch, place, sentinel, rows[model.name]))
        shutil.rmtree(place.parent)


def _changed(place: Path, number: int, tries: int, rng: np.random.Generator, sentinel: Path) -> str:
    tensors, _ = read_artefact(place)
    content = np.asarray(tensors[PART]).tobytes()
    changes = CHANGES if tries > 100 and number < 3 * len(CHANGES) else QUICK
    turn = number % (len(changes) + 1)
    if turn == len(changes):
        what, content = other_bytes(content, rng)
    else:
        model = onnx.ModelProto.FromString(content)
        what = changes[turn](model, rng, sentinel)
        content = model.SerializeToString()
    tensors[PART] = np.frombuffer(content or b" ", dtype=np.uint8)
    return resealed(place, {name: torch.from_numpy(np.array(own)) for name, own in tensors.items()}, what)


def _fault(watch: Watch, place: Path, sentinel: Path, rows: Any) -> str:
    """Return what went wrong: a forged graph may be refused or give other scores, and nothing else."""
    watch.seen, watch.inside, line = [], str(place), ""
    reset_peak()
    begin, before = time.monotonic(), memory("VmRSS")
    with contextlib.chdir(place), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        watch.on = True
        try:
            model, _ = load_noted(place, device="cpu")
        except ArtefactError as error:
            shown = str(error)
            line = "" if len(shown) < LONGEST_LINE and shown.isprintable() else f"shown in {len(shown)} characters"
        except Exception as error:
            line = f"{type(error).__name__} when loaded: {str(error)[:80]!r}"
        else:
            with contextlib.suppress(ValueError):
                if not np.array_equal(model.predict(rows), model.predict(rows)):
                    line = "two answers differ"
        finally:
            watch.on = False
    grown, taken = memory("VmHWM") - before, time.monotonic() - begin
    if sentinel.exists():
        return "the payload has run"
    if watch.seen:
        return f"{len(watch.seen)} events, the first: {watch.seen[0]}"
    if grown > MOST_MEMORY + 2**28:
        return f"took {grown / 2**20:.0f} MiB"
    return f"took {taken:.0f} s" if taken > LONGEST else line


ATTACKS = (
    Attack(
        "graphs",
        "Saved ONNX graphs, forged with digests that fit: weights in other files, operations of other domains, "
        "functions that double, loops, arrays beyond the memory, thousands of products, branches in branches, random "
        "scores, other shapes, far indices, trees in circles, overwritten bytes. Failed: code, files or processes that "
        "Python's audit hook sees, anything but an ArtefactError of one line when loaded, two answers to the same "
        "samples, over 2.25 GiB or 30 s.",
        run,
        long=400,
        short=44,
    ),
)
