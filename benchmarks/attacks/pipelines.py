"""Forged skops parts of saved pipelines, with digests that fit: types, files to read, references, arrays, bombs."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import pickle
import shutil
import time
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.compose import make_column_transformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from adacsl import CostMatrix, CostSensitiveClassifier
from adacsl.estimators.artefact import ArtefactError, read_artefact
from adacsl.estimators.persistence import load_noted
from benchmarks.attacks.artefacts import LONGEST, MOST_MEMORY, memory, reset_peak
from benchmarks.attacks.saved import LONGEST_LINE, resealed, table
from benchmarks.attacks.scoreboard import Attack, Attempt
from benchmarks.attacks.untrusted import Payload, Watch

PART, DESCRIPTION = "model.0.skops", "schema.json"
Schema = dict[str, Any]
Change = Callable[[Schema, dict[str, bytes], np.random.Generator, Path], str]
"""Changes a description and the files beside it, and returns what it did; the path is that of a sentinel."""


def models(folder: Path) -> list[tuple[Path, pd.DataFrame]]:
    """Save pipelines of columns and of words, and an estimator of encoded rows; return each with rows for it."""
    rows, labels = table()
    columns = make_column_transformer((StandardScaler(), ["amount", "age"]), (OneHotEncoder(), ["shop"]))
    words = make_column_transformer((TfidfVectorizer(), "shop"), (StandardScaler(), ["amount"]))
    made = {
        "columns-forest": make_pipeline(columns, RandomForestClassifier(n_estimators=3, random_state=0)),
        "words-line": make_pipeline(words, LogisticRegression()),
        "words-vectors": make_pipeline(words, SVC(kernel="linear")),
        "neighbours": KNeighborsClassifier(algorithm="brute"),
    }
    kept = rows[["amount", "shop", "age"]]
    for name, learner in made.items():
        fitted = CostSensitiveClassifier(CostMatrix(fp=1, fn=6), learner=learner, pos_label="yes", random_state=0).fit(
            kept, labels
        )
        fitted.save(folder / name)
    return [(folder / name, kept) for name in made]


# parts of a description


def node(loader: str, kind: Any = "object", module: Any = "builtins", **more: Any) -> Schema:
    return {"__loader__": f"{loader}Node", "__class__": kind, "__module__": module, **more}


def text(value: Any) -> Schema:
    return node("Json", "str", content=json.dumps(value), is_json=True)


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Yield holder and key of each node in a description but its first."""
    for key, inner in list(value.items() if isinstance(value, dict) else enumerate(value)):
        if isinstance(inner, dict | list):
            if isinstance(inner, dict) and "__loader__" in inner:
                yield value, key
            yield from places(inner)


def some(schema: Schema, rng: np.random.Generator) -> tuple[Any, Any]:
    result = list(places(schema))
    return result[int(rng.integers(len(result)))]


def attributes(schema: Schema) -> Iterator[Schema]:
    """Yield the attributes of each estimator."""
    for holder, key in places({"all": schema}):
        own = holder[key]
        if own["__loader__"] == "ObjectNode" and isinstance(own.get("content"), dict):
            yield own["content"].get("content", {})


# changes


CALLS = (
    ("os", "system"), ("subprocess", "Popen"), ("builtins", "eval"), ("builtins", "exec"), ("builtins", "open"),
    ("pickle", "loads"), ("joblib.numpy_pickle", "load"), ("joblib.memory", "Memory"), ("numpy", "load"),
    ("importlib", "import_module"), ("shutil", "rmtree"), ("pathlib", "Path"), ("ctypes", "CDLL"), ("mine", "forest"),
    ("numpy", "memmap"), ("numpy", "fromfile"), ("pandas", "read_pickle"), ("sklearn.datasets", "load_files"),
    ("sklearn.externals.joblib", "load"), ("torch", "load"), ("sklearn.tree._tree", "Tree"), ("operator", "attrgetter"),
    ("sklearn.neighbors._kd_tree", "KDTree"), ("sklearn.gaussian_process.kernels", "RBF"), ("functools", "partial"),
    ("sklearn.utils._testing", "SkipTest"), ("webbrowser", "open"), ("socket", "socket"), ("io", "open"),
)  # fmt: skip
LOADERS = (
    "Function", "Type", "Object", "Method", "Partial", "OperatorFunc", "ConstructorFromReduce", "Loss", "Tree",
    "Cached", "Dict", "List", "Set", "Tuple", "DefaultDict", "Bytes", "Bytearray", "MaskedArray", "DType",
    "RandomState", "RandomGenerator", "SparseMatrix", "NdArray", "QuantileForest", "Slice",
)  # fmt: skip


def foreign_type(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, sentinel: Path) -> str:
    """Put a function or type that does something in the place of a node."""
    module, kind = CALLS[int(rng.integers(len(CALLS)))]
    loader = LOADERS[int(rng.integers(len(LOADERS)))]
    inner = node("Tuple", "tuple", content=[text(f"open({str(sentinel)!r}, 'w').close()")])
    content = [inner, {"func": kind, "obj": inner}, {"func": inner, "args": inner, "kwds": inner, "namespace": inner}]
    holder, key = some(schema, rng)
    holder[key] = node(
        loader, kind, module, content=content[int(rng.integers(3))], attrs=inner, file="1.npy", type="numpy",
        key_types=inner, shape=inner, __reduce__={"args": inner},
    )  # fmt: skip
    return f"{loader}Node of {module}.{kind}"


def foreign_class(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Let a node be of another class."""
    holder, key = some(schema, rng)
    module, kind = CALLS[int(rng.integers(len(CALLS)))]
    holder[key] |= {"__module__": module, "__class__": kind}
    return f"{holder[key]['__loader__']} of {module}.{kind}"


def reads_files(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, sentinel: Path) -> str:
    """Let each estimator have settings by which some of them read files, write them or start processes."""
    settings = {
        "input": ("filename", "file"), "memory": (str(sentinel), "."), "decode": ("open",), "n_jobs": (-1, 64),
        "load_from": (str(sentinel),), "cache_size": (1e9,), "verbose": (100,), "analyzer": ("file", "word"),
    }  # fmt: skip
    name = sorted(settings)[int(rng.integers(len(settings)))]
    value = settings[name][int(rng.integers(len(settings[name])))]
    for own in attributes(schema):
        own[name] = text(value)
    return f"{name}={value!r}"


def references(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Give nodes the numbers of others: circles, and doubled nodes at each level."""
    if rng.random() < 0.5:
        for holder, key in places({"all": schema}):
            holder[key]["__id__"] = int(rng.integers(1, 4))
        return "all nodes have one of three numbers"
    own = text(1) | {"__id__": 1}
    for number in range(2, 45):
        own = node("List", "list", __id__=number, content=[own, copy.copy(own) | {"content": []}])
    holder, key = some(schema, rng)
    holder[key] = own
    return "lists that name the list before twice"


def nested(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Nest lists as deep as JSON can be written."""
    own, depth = text(1), int(rng.integers(50, 280))
    for _ in range(depth):
        own = node("List", "list", content=[own])
    holder, key = some(schema, rng)
    holder[key] = own
    return f"{depth} lists in each other"


def noise(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Put a plain value anywhere."""
    values = (None, -1, 10**30, "x", "", [], {}, 1e308, True, "builtins", [[[]]], {"__loader__": "JsonNode"})
    holder, key = some(schema, rng)
    if isinstance(holder[key], dict) and rng.random() < 0.6:
        holder, key = holder[key], sorted(holder[key])[int(rng.integers(len(holder[key])))]
    holder[key] = values[int(rng.integers(len(values)))]
    return f"{key}: {json.dumps(holder[key])[:30]}"


def values_of_json(schema: Schema, _: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Change a setting to a value of another size or type."""
    values = ("NaN", "1e999", "-1", "[" * 50_000, "9" * 4000, '"\\ud800"', "null", "{}", "x", "[[1, 2], [3]]", "true")
    result = [(holder, key) for holder, key in places(schema) if holder[key]["__loader__"] == "JsonNode"]
    holder, key = result[int(rng.integers(len(result)))]
    holder[key]["content"] = values[int(rng.integers(len(values)))]
    return f"{key} = {holder[key]['content'][:20]}"


def array(shape: str, dtype: str, content: bytes, version: bytes = b"\x01\x00") -> bytes:
    header = f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(117) + b"\n"
    return b"\x93NUMPY" + version + len(header).to_bytes(2, "little") + header + content


def forged_array(_: Schema, files: dict[str, bytes], rng: np.random.Generator, sentinel: Path) -> str:
    """Let an array claim another size, hold objects, or be a pickle."""
    own = pickle.dumps(Payload(sentinel))
    forms = (
        array("(10**15,)", "'<f8'", b""), array("(1000000000000,)", "'<f8'", b""), array("(1,)", "'|O'", own), own,
        array("(-5,)", "'<f8'", b""), array("()", "'<f8'", b"12345678"), array("(0,)", "'<f8'", b""), b"",
        array("(3,)", "'<U400000000'", b""), array("(1,)", "[('a', '|O')]", own),
        array("(True,)", "'<f8'", b"12345678"),
        array("(2**62, 4)", "'<f8'", b""), array("(1,)", "'|V0'", b""), array("(99999999999,)", "'|V0'", b""),
        array("(1,)", "'<f8'", b"12345678", b"\x03\x00"), array("(1,)", "__import__('os')", b""), rng.bytes(200),
    )  # fmt: skip
    names = [name for name in files if name.endswith((".npy", ".npz"))]
    name, number = names[int(rng.integers(len(names)))], int(rng.integers(len(forms)))
    files[name] = forms[number]
    return f"array {number} as {name[-4:]}"


def other_values(_: Schema, files: dict[str, bytes], rng: np.random.Generator, __: Path) -> str:
    """Overwrite bytes of a file: indices and numbers that are far away."""
    names = [name for name in files if name.endswith((".npy", ".npz"))]
    name = names[int(rng.integers(len(names)))]
    content = bytearray(files[name])
    place = int(rng.integers(len(content)))
    content[place : place + 8] = rng.bytes(8)
    files[name] = bytes(content)
    return f"8 bytes at {place} of a {name[-4:]}"


def other_files(_: Schema, files: dict[str, bytes], rng: np.random.Generator, sentinel: Path) -> str:
    """Add files that nobody wrote, with names that lead elsewhere."""
    names = ("../x.npy", str(sentinel), "x.pkl", "x.py", "x.so", "a/b.npy", "x.npz", "x.npy", "x\0.npy", "y" * 60_000)
    name = names[int(rng.integers(len(names)))]
    files[name] = pickle.dumps(Payload(sentinel))
    return f"a file {name[:20]!r}"


CHANGES: tuple[Change, ...] = (
    foreign_type, foreign_class, reads_files, references, nested, noise, noise, values_of_json, forged_array,
    other_values, other_files,
)  # fmt: skip


# bombs


def packed(description: bytes, files: dict[str, bytes], compression: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", compression) as archive:
        warnings.simplefilter("ignore")
        archive.writestr(DESCRIPTION, description)
        for name, content in files.items():
            archive.writestr(name, content)
    return out.getvalue()


def packed_bomb(description: bytes, files: dict[str, bytes], kind: int) -> tuple[str, bytes]:
    """Return a file that is larger than it looks."""
    giant = bytes(1 << 28)
    if kind == 0:
        return "a packed giant", packed(description, files | {"1.bin": giant}, zipfile.ZIP_DEFLATED)
    if kind == 1:
        return "a packed description", packed(b" " * len(giant) + description, files, zipfile.ZIP_DEFLATED)
    inner = packed(description, {"data.npy": giant, "indices.npy": b""}, zipfile.ZIP_DEFLATED)
    return "a packed matrix", packed(description, dict.fromkeys(files, inner))


def other_file(description: bytes, files: dict[str, bytes], kind: int, rng: np.random.Generator) -> tuple[str, bytes]:
    """Return a file that nobody could have written."""
    whole = bytearray(packed(description, files))
    place = int(rng.integers(len(whole)))
    if kind == 0:  # all sizes of the directory are those of giants
        at = whole.find(b"PK\x01\x02")
        while at >= 0:
            whole[at + 20 : at + 28] = (0xFFFFFFF0).to_bytes(4, "little") * 2
            at = whole.find(b"PK\x01\x02", at + 4)
        return "giants in the directory", bytes(whole)
    if kind == 1:
        return "120,000 files", packed(description, {f"{i}.bin": b"" for i in range(120_000)})
    if kind == 2:
        return "a file cut off", bytes(whole[:place])
    if kind == 3:
        return "two descriptions", packed(description, {DESCRIPTION: description} | files)
    whole[place : place + 16] = rng.bytes(16)
    return f"16 bytes at {place}", bytes(whole)


# tries


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    rng = np.random.default_rng(seed)
    known = models(folder / "models")
    watch = Watch()
    for place, rows in known:  # imports run code of their own, once
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            load_noted(place, device="cpu")[0].predict(rows)
    for number in range(tries):
        model, rows = known[number % len(known)]
        place, sentinel = folder / f"try-{number}" / "model", folder / f"ran-{number}"
        shutil.copytree(model, place)
        for name in ("web", "city"):  # what a vectorizer of file names would read
            (place / name).write_text("good")
        what = _changed(place, number // len(known), rng, sentinel)
        yield Attempt(f"{model.name}, {what}", _fault(watch, place, sentinel, rows))
        shutil.rmtree(place.parent)


def _changed(place: Path, number: int, rng: np.random.Generator, sentinel: Path) -> str:
    tensors, _ = read_artefact(place)
    with zipfile.ZipFile(io.BytesIO(np.asarray(tensors[PART]).tobytes())) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    description = files.pop(DESCRIPTION)
    turn = number % (len(CHANGES) + 1)
    if turn == len(CHANGES):
        kind = int(rng.integers(8))
        what, content = (
            packed_bomb(description, files, kind) if kind < 3 else other_file(description, files, kind - 3, rng)
        )
    else:
        schema = json.loads(description)
        what = CHANGES[turn](schema, files, rng, sentinel)
        content = packed(json.dumps(schema).encode(), files)
    tensors[PART] = np.frombuffer(content or b" ", dtype=np.uint8)
    return resealed(place, {name: torch.from_numpy(np.array(own)) for name, own in tensors.items()}, what)


def _fault(watch: Watch, place: Path, sentinel: Path, rows: pd.DataFrame) -> str:
    """Return what went wrong: forged values may make any error when the model predicts, and nothing else."""
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
            with contextlib.suppress(Exception):
                model.predict(rows)
        finally:
            watch.on = False
    grown, taken = memory("VmHWM") - before, time.monotonic() - begin
    if sentinel.exists():
        return "the payload has run"
    if watch.seen:
        return f"{len(watch.seen)} events, the first: {watch.seen[0]}"
    if grown > MOST_MEMORY:
        return f"took {grown / 2**20:.0f} MiB"
    return f"took {taken:.0f} s" if taken > LONGEST else line


ATTACKS = (
    Attack(
        "pipelines",
        "Saved pipelines and other estimators in skops' format, whose parts are forged with digests that fit: foreign "
        "types and functions, vectorizers and caches that read files, references in circles, deep nesting, arrays that "
        "claim other sizes or hold pickles, packed bombs. Failed: code, files or processes that Python's audit hook "
        "sees, anything but an ArtefactError of one line when loaded, over 300 MiB or 20 s.",
        run,
        long=160,
        short=24,
    ),
)
