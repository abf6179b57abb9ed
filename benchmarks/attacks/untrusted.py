"""Untrusted models: payloads in every file and field; none of them may run."""

from __future__ import annotations

import base64
import contextlib
import copy
import hashlib
import io
import json
import pickle
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

import adacsl
from adacsl.storage.documents import sealed
from benchmarks.attacks.saved import (
    Model,
    answer,
    head_of,
    models,
    part_at,
    paths_of,
    resealed,
    tensor_file,
    tensors_of,
)
from benchmarks.attacks.scoreboard import Attack, Attempt

FORBIDDEN = (
    "pickle.find_class", "subprocess.Popen", "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn",
    "os.spawn", "os.startfile", "pty.spawn", "socket.connect", "socket.bind", "socket.getaddrinfo", "urllib.Request",
    "exec", "compile", "ctypes.dlopen", "marshal.loads", "shutil.rmtree", "os.remove", "os.rename", "os.mkdir",
    "os.symlink", "os.link", "os.truncate", "os.chmod", "code.__new__", "function.__new__", "builtins.input",
)  # fmt: skip
"""What Python itself reports (:func:`sys.addaudithook`), and no reading of a model has any need of."""


class Watch:
    """Writes down what happens that must not, while it is on; a hook can never be taken away again."""

    def __init__(self) -> None:
        self.on, self.seen, self.inside = False, list[str](), ""
        sys.addaudithook(self)

    def __call__(self, event: str, args: tuple[Any, ...]) -> None:
        """Take note of an event."""
        if not self.on:
            return
        if event == "compile" and args[1] == "<unknown>":
            return  # ast.parse, by which costs over columns are read; it makes no code
        if event in FORBIDDEN:
            self.seen.append(f"{event} {str(args)[:80]}")
        elif event == "open" and isinstance(args[0], str) and self._elsewhere(args[0], args[1], args[2]):
            self.seen.append(f"opened {args[0][:80]}")

    def _elsewhere(self, path: str, mode: Any, flags: Any) -> bool:
        writes = bool(mode and set(str(mode)) & set("wax+")) or bool(isinstance(flags, int) and flags & 0o3)
        own = path.startswith(self.inside) and Path(path).name.startswith(("model.json", "tensors-"))
        return writes or not (own or path.startswith(("/proc", "/sys")))


class Payload:
    """What would leave a sentinel where it is unpickled."""

    def __init__(self, sentinel: Path) -> None:
        self.sentinel = str(sentinel)

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (self.sentinel, "w")


def payloads(sentinel: Path) -> dict[str, bytes]:
    """Return the same payload in the formats in which models come."""
    own, code = Payload(sentinel), f"open({str(sentinel)!r}, 'w').close()\n"
    made: dict[str, bytes] = {"pkl": pickle.dumps(own), "py": code.encode(), "old.pkl": pickle.dumps(own, protocol=0)}
    for name, write in {
        "joblib": lambda file: joblib.dump(own, file), "pt": lambda file: torch.save({"w": own}, file),
        "npy": lambda file: np.save(file, np.asarray([own], dtype=object), allow_pickle=True),
        "npz": lambda file: np.savez(file, np.asarray([own], dtype=object)),
        "legacy.pth": lambda file: torch.save(own, file, _use_new_zipfile_serialization=False),
    }.items():  # fmt: skip
        file = io.BytesIO()
        write(file)
        made[name] = file.getvalue()
    return made


BESIDE = (
    "model.pkl", "model.joblib", "model.pt", "last.ckpt", "tensors.npy", "mine.py", "adacsl.py", "numpy.py", "torch.py",
    "sitecustomize.py", "__init__.py", "conftest.py", "training.json", "model.onnx", "weights.safetensors", "data.npz",
    "model.json.bak", "tensors-0123456789abcdef.safetensors", "setup.py", "MLmodel", "pandas.py", "lightgbm.py",
)  # fmt: skip
"""Names under which payloads lie beside a model."""


def texts(folder: Path, sentinel: Path) -> list[Any]:
    """Return texts and objects that a careless reader would run, import, open or unpickle."""
    code = f"open({str(sentinel)!r}, 'w').close()"
    packed = base64.b64encode(pickle.dumps(Payload(sentinel))).decode()
    return [
        code, f"__import__('os').system('touch {sentinel}')", "mine:forest", "mine", "os:system", "os.system",
        "builtins.exec", str(folder / "model.pkl"), str(folder / "model.pt"), "../model.pkl",
        f"file://{folder}/model.pkl", "timm:mine", "torchvision:mine", f"timm:local-dir:{folder}", "timm:hf-hub:a/b",
        "http://127.0.0.1:1/x", "!!python/object/apply:os.system", "|O", "O", packed, "${jndi:ldap://127.0.0.1/a}",
        "{{7*7}}", "$(touch x)", "`touch x`", "%s" * 20, "keras", "..mlflow", {"py/object": "os.system"},
        {"kind": "model", "cost": {"dtype": "O", "bytes": packed, "shape": [1]}},
        {"__reduce__": ["os.system", [code]]}, {"kind": "expression", "text": code},
        {"kind": "expression", "text": f"where({code}, 1, 2)"}, {"_target_": "os.system", "args": [code]},
        {"kind": "Net", "settings": {"weights": str(folder / "model.pt")}},
    ]  # fmt: skip


Plant = Callable[[Path, Path, int], str]


def plant_file(folder: Path, sentinel: Path, number: int) -> str:
    """Put every payload beside the model, and one of them in the place of a file of its own."""
    made = payloads(sentinel)
    kinds = sorted(made)
    kind = kinds[number % len(kinds)]
    where = number // len(kinds) % 4
    content = made[kind]
    if where == 0:
        (folder / "model.json").write_bytes(content)
    elif where == 1:
        tensor_file(folder).write_bytes(content)
    elif where == 2:  # with a digest that fits
        head = head_of(folder)
        (folder / "model.json").write_bytes(
            sealed(head | {"document": head["document"] | {"pickle": base64.b64encode(content).decode()}})
        )
    else:
        head, digest = head_of(folder), hashlib.sha256(content).hexdigest()
        ((_, entry),) = head["files"].items()
        name = f"tensors-{digest[:16]}.safetensors"
        (folder / name).write_bytes(content)
        head["files"] = {name: entry | {"sha256": digest, "bytes": len(content)}}
        (folder / "model.json").write_bytes(sealed(head))
    return f"{kind} as {('model.json', 'tensors', 'a field', 'tensors whose digest fits')[where]}"


def plant_tensor(folder: Path, sentinel: Path, number: int) -> str:
    """Put a payload's bytes in the place of a tensor, a booster's own bytes among them."""
    tensors = tensors_of(folder)
    made = payloads(sentinel)
    names, kinds = sorted(tensors) or ["none"], sorted(made)
    name, kind = names[number % len(names)], kinds[number // len(names) % len(kinds)]
    tensors[name] = torch.frombuffer(bytearray(made[kind]), dtype=torch.uint8)
    return resealed(folder, tensors, f"{kind} as tensor {name}")


def plant_text(folder: Path, sentinel: Path, number: int) -> str:
    """Put a payload into a field of the document, or under a new name beside it; digests fit."""
    head = head_of(folder)
    document = copy.deepcopy(head["document"])
    paths = [path for path in paths_of(document) if not any(isinstance(key, int) and key > 3 for key in path)]
    path, some = paths[number % len(paths)], texts(folder, sentinel)
    text = some[(number // len(paths) + number) % len(some)]
    holder = part_at(document, path[:-1])
    new = number % 3 == 0 and isinstance(holder, dict)
    name = (
        ("weights", "resume", "trainer", "module", "loader", "__class__", "state", "device")[number // 3 % 8]
        if new
        else path[-1]
    )
    holder[name] = text
    (folder / "model.json").write_bytes(sealed(head | {"document": document}))
    return f"{'.'.join(map(str, (*path[:-1], name)))}: {json.dumps(text)[:40]}"


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    known = models(folder / "models", few=tries < 500)
    for model in known:
        answer(model.folder, model.rows)  # imports run code of their own, once
    adacsl.CostModel("amount")
    watch, plants = Watch(), (plant_text, plant_text, plant_text, plant_tensor, plant_file)
    for number in range(tries):
        model = known[number % len(known)]
        place, sentinel = folder / f"try-{number}" / "model", folder / f"ran-{number}"
        shutil.copytree(model.folder, place)
        made = payloads(sentinel)
        for i, name in enumerate(BESIDE):
            suffix = name.rpartition(".")[2]
            (place / name).write_bytes(made.get(suffix, made[sorted(made)[i % len(made)]]))
        what = plants[number // len(known) % len(plants)](place, sentinel, 7919 * seed + number // len(known))
        yield Attempt(f"{model.folder.name}, {what}", _tried(watch, place, sentinel, model))
        shutil.rmtree(place.parent)


def _tried(watch: Watch, place: Path, sentinel: Path, model: Model) -> str:
    watch.seen, watch.inside = [], str(place)
    kept = list(sys.path), set(sys.modules)
    sys.path.insert(0, str(place))  # as where somebody works in the folder of the model
    try:
        with contextlib.chdir(place):
            watch.on = True
            _, line = answer(place, model.rows)
            watch.on = False
    finally:
        watch.on = False
        sys.path[:] = kept[0]
    new = sorted(name for name in set(sys.modules) - kept[1] if not name.startswith(("adacsl.", "torch.", "sklearn.")))
    if sentinel.exists():
        return "the payload has run"
    if watch.seen:
        return f"{len(watch.seen)} events, the first: {watch.seen[0]}"
    return line or (f"imported {new[:3]}" if new else "")


ATTACKS = (
    Attack(
        "untrusted",
        "Pickles, joblib, .pt, .npy and .py files beside a saved model and in the place of its files, payloads in each "
        "field and tensor with digests that fit, loaded and asked for predictions from within the folder: failed if a "
        "sentinel is written, or Python's audit hook sees code, processes, sockets, pickle or files elsewhere.",
        run,
        long=2_000,
        short=25,
    ),
)
