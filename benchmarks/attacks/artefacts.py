"""Saved models, damaged and forged: each mutant is refused in one line, or is no mutant at all."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch

from adacsl.storage.documents import encode, sealed
from benchmarks.attacks.saved import (
    DOCUMENT,
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

MOST_MEMORY = 300 * 2**20
"""Bytes that one try may add to the resident memory, at its peak; the models themselves are a few hundred kB."""
LONGEST = 20.0
"""Seconds of one try."""


Change = Callable[[Path, list[Model], np.random.Generator], str]
"""Changes a copy of a model and returns what it did."""


# damage: whatever is changed, it must be refused


def _file(folder: Path, rng: np.random.Generator) -> Path:
    return sorted(path for path in folder.iterdir())[int(rng.integers(2))]


def truncated(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    size = int(rng.integers(path.stat().st_size))
    os.truncate(path, size)
    return f"{path.name} cut to {size}"


def flipped(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    content = bytearray(path.read_bytes())
    place, bit = int(rng.integers(len(content))), int(rng.integers(8))
    content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bit {bit} of byte {place} of {path.name}"


def overwritten(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    content = bytearray(path.read_bytes())
    place = int(rng.integers(len(content)))
    other = rng.bytes(int(rng.integers(1, 40)))
    if content[place : place + len(other)] == other:
        other = bytes([other[0] ^ 1])
    content[place : place + len(other)] = other
    path.write_bytes(content)
    return f"{len(other)} random bytes at {place} of {path.name}"


def prolonged(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    content = path.read_bytes()
    place = int(rng.integers(len(content) + 1))
    path.write_bytes(content[:place] + rng.bytes(int(rng.integers(1, 9))) + content[place:])
    return f"bytes put into {path.name} at {place}"


def missing(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    path.unlink()
    return f"{path.name} missing"


def swapped(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    other = known[int(rng.integers(len(known)))].folder
    own, theirs = tensor_file(folder), tensor_file(other)
    how = int(rng.integers(3))
    if own.name == theirs.name:  # of one model both are the same
        own.unlink()
        return "without its tensors"
    if how == 0:
        shutil.copy(other / DOCUMENT, folder / DOCUMENT)
    elif how == 1:
        shutil.copy(theirs, own)
    else:
        own.unlink()
        shutil.copy(theirs, folder / theirs.name)
    return f"{('document', 'tensors', 'tensors under their own name')[how]} of {other.name}"


def no_file(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    path = _file(folder, rng)
    aside = shutil.move(path, folder.parent / f"aside-{path.name}")
    places = {
        "the other model": known[int(rng.integers(len(known)))].folder / DOCUMENT, "the same content": aside,
        "a device": "/dev/zero", "a secret": "/etc/passwd", "itself": path, "nothing": folder / "nothing",
        "a folder": folder,
    }  # fmt: skip
    what = ("pipe", "folder", "socket", "sparse giant", *places)[int(rng.integers(4 + len(places)))]
    if what in places:
        path.symlink_to(places[what])
    elif what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "socket":
        with socket.socket(socket.AF_UNIX) as own, contextlib.chdir(folder):
            own.bind(path.name)  # names of sockets are short
    else:
        with path.open("wb") as file:
            file.truncate(int(rng.integers(2**27, 2**40)))
    return f"{path.name}: a link to {what}" if what in places else f"{path.name}: a {what}"


# forged heads: digests fit, and the form is wrong; must be refused


def version(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    head = head_of(folder)
    choice = [0, -1, 2, 10**30, 1.5, "1", None, [1], {}, True, "newer", "absent"][int(rng.integers(12))]
    if choice == "absent":
        del head["schema_version"]
    else:
        head["schema_version"] = int(rng.integers(3, 10**9)) if choice == "newer" else choice
    (folder / DOCUMENT).write_bytes(sealed(head))
    return f"schema_version {choice}"


def listed(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    """Lie about the tensor file: another name, another size, another digest."""
    head = head_of(folder)
    ((name, entry),) = head["files"].items()
    other = known[int(rng.integers(len(known)))].folder
    names = [
        f"../{other.name}/{tensor_file(other).name}", f"/etc/{name}", f"./{name}", f"{name}\0", f"{name}/", f"{name} ",
        "", "..", ".", "model.json", f"{'x' * 10**5}.safetensors", name.upper(), f"../{name}", "/dev/zero", "\ud800",
    ]  # fmt: skip
    values = [0, -1, 2**34, 2**63, 10**400, 1.0, "1", None, True, [], {}, entry["bytes"] + 1, entry["bytes"] - 1]
    lists = [None, [], [1], {}, "x", entry["tensors"] * 2, [*entry["tensors"], "more"], [[]], ["a"] * 10**5]
    how = ("name", "bytes", "tensors", "sha256", "keys", "two")[int(rng.integers(6))]
    if how == "name":
        head["files"] = {names[int(rng.integers(len(names)))]: entry}
    elif how == "bytes":
        entry["bytes"] = values[int(rng.integers(len(values)))]
    elif how == "tensors":
        entry["tensors"] = lists[int(rng.integers(len(lists)))]
        if not head_of(folder)["files"][name]["tensors"] and entry["tensors"] == []:
            entry["tensors"] = None
    elif how == "sha256":
        entry["sha256"] = [None, "", 1, "0" * 64, entry["sha256"].upper() + "x", []][int(rng.integers(6))]
    elif how == "keys":
        entry.pop(["sha256", "bytes", "tensors"][int(rng.integers(3))])
    else:
        head["files"] = [{}, None, [], {name: entry, "tensors-0123456789abcdef.safetensors": entry}][
            int(rng.integers(4))
        ]
    (folder / DOCUMENT).write_bytes(sealed(head))
    return f"files: wrong {how}"


def hostile_text(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    """Write what no writer of JSON of ours writes, with a digest that fits."""
    text = sealed(head_of(folder)).decode().rpartition(",\n")[0]
    depth = int(rng.integers(61, 100_000))
    inside = {
        "nested lists": "[" * depth + "]" * depth, "nested dicts": '{"a":' * depth + "1" + "}" * depth,
        "unclosed": "[" * depth, "infinite": "1e999", "constant": "NaN", "minus": "-Infinity", "long": "9" * 10_000,
        "mark": '{"$float": "1"}', "other mark": '{"$float": ["nan"]}', "two marks": '{"$float": "nan", "a": 1}',
        "broken escape": r'"\u12"', "control": '"\x01"', "bytes": '"\udcff"', "bare": "x",
    }  # fmt: skip
    names = [*inside, "double key", "number as key", "list", "many"]
    what = names[int(rng.integers(len(names)))]
    begin = text.index('"document": {') + len('"document": {')
    if what in inside:
        text = f'{text[:begin]}"more": {inside[what]}, {text[begin:]}'
    elif what == "double key":
        text = f'{text[:begin]}"kind": "Method", {text[begin:]}'
    elif what == "number as key":
        text = f"{text[:begin]}1: 2, {text[begin:]}"
    elif what == "list":
        text = f"[{text[1:]}"
    else:
        text = f'{text[:begin]}"costs": {json.dumps([[]] * int(rng.integers(10**5)))}, {text[begin:]}'
    begun = f"{text},\n".encode(errors="surrogateescape")
    tail = f'"sha256": "{hashlib.sha256(begun).hexdigest()}"\n}}\n'.encode()
    (folder / DOCUMENT).write_bytes(begun + tail)
    return f"JSON: {what}"


# forged content: another model may be a good one, but nothing may end in a traceback


STRANGE: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 10**9, 10**30, -0.5, 0.5, 1e308, 1e-320, float("nan"), float("inf"), "", "x",
    "../x", "/etc/passwd", "\0", "\x1b[31m", "\ud800", "n" * 10**5, [], [0], [[]], [None], ["a", "b"], [1.0, 2.0, 3.0],
    [[1, 2], [3, 4]], [0] * 1000, {}, {"a": 1}, {"kind": "model"}, {"$": 1}, "nan", "negative", "tuned", "stack",
    "net",
]  # fmt: skip


def forged_value(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    """Change one place of the document: another value, nothing at all, one thing more, another model's."""
    head = head_of(folder)
    document = head["document"]
    paths = list(paths_of(document))
    # every key as often as any other: long lists of numbers are much alike
    kinds = sorted({tuple(key for key in path if isinstance(key, str)) for path in paths})
    kind = kinds[int(rng.integers(len(kinds)))]
    fitting = [path for path in paths if tuple(key for key in path if isinstance(key, str)) == kind]
    path = fitting[int(rng.integers(len(fitting)))]
    holder = part_at(document, path[:-1])
    how = ("value", "value", "value", "gone", "doubled", "halved", "number", "other")[int(rng.integers(8))]
    value = holder[path[-1]]
    if how == "gone":
        del holder[path[-1]]
    elif how == "doubled" and isinstance(value, list):
        holder[path[-1]] = value * 2
    elif how == "halved" and isinstance(value, list | str):
        holder[path[-1]] = value[: len(value) // 2]
    elif how == "number" and isinstance(value, int | float):
        holder[path[-1]] = [-value, value * 10**6, value + 1, str(value), [value], float(value)][int(rng.integers(6))]
    elif how == "other":
        theirs = head_of(known[int(rng.integers(len(known)))].folder)["document"]
        with contextlib.suppress(KeyError, IndexError, TypeError):
            holder[path[-1]] = part_at(theirs, path)
    else:
        holder[path[-1]] = encode(copy.deepcopy(STRANGE[int(rng.integers(len(STRANGE)))]), "")
    (folder / DOCUMENT).write_bytes(sealed(head))
    return f"{'.'.join(map(str, path))}: {how}, {str(holder.get(path[-1]) if isinstance(holder, dict) else '')[:30]!r}"


def enlarged(folder: Path, _: list[Model], rng: np.random.Generator) -> str:
    """Let the document speak of a much larger model: hidden units, classes, columns, labels."""
    head = head_of(folder)
    document = head["document"]
    paths = [path for path in paths_of(document) if type(part_at(document, path)) in (int, bool)]
    dtype = ("classes", "dtype")
    path = [dtype, *paths][int(rng.integers(len(paths) + 1))]
    size = 10 ** int(rng.integers(4, 13))
    part_at(document, path[:-1])[path[-1]] = f"<U{min(size, 2**29)}" if path == dtype else size
    (folder / DOCUMENT).write_bytes(sealed(head))
    return f"{'.'.join(map(str, path))}: {size}"


def forged_tensor(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    """Change one tensor, with digests that fit; boosters' own bytes are left alone (docs/guide/deploy/save.md)."""
    tensors = tensors_of(folder)
    names = [name for name in tensors if "booster." not in name]
    if not names:
        return resealed(folder, {"more": torch.zeros(1)}, "one tensor more")
    name = names[int(rng.integers(len(names)))]
    value = tensors[name]
    changes: dict[str, Callable[[], torch.Tensor]] = {
        "NaN": lambda: torch.full_like(value.double(), float("nan")), "infinite": lambda: value.double() / 0.0,
        "half": lambda: value[: len(value) // 2], "twice": lambda: torch.cat((value, value)),
        "flat": lambda: value.reshape(-1), "deeper": lambda: value[None], "empty": lambda: value[:0],
        "very long": lambda: torch.zeros(2**40, 0), "other kind": lambda: value.to(torch.float16),
        "whole": lambda: value.to(torch.int64), "bits": lambda: value.to(torch.bool), "huge": lambda: value * 2**30,
        "brain": lambda: value.to(torch.bfloat16), "negative": lambda: -value.double().to(value.dtype),
        "turned": lambda: value.flip(0), "one": lambda: value.reshape(-1)[:1], "number": lambda: torch.tensor(3.0),
    }  # fmt: skip
    what = [*changes, "gone", "renamed", "another's"][int(rng.integers(len(changes) + 3))]
    if what == "gone":
        del tensors[name]
    elif what == "renamed":
        tensors[f"{name}x"] = tensors.pop(name)
    elif what == "another's":
        theirs = tensors_of(known[int(rng.integers(len(known)))].folder)
        tensors[name] = next(iter(theirs.values()), torch.zeros(3))
    else:
        try:
            tensors[name] = changes[what]().contiguous()
        except (RuntimeError, TypeError, IndexError):
            tensors[name] = torch.zeros(2, 2)
    return resealed(folder, tensors, f"tensor {name}: {what}")


def beside(folder: Path, known: list[Model], rng: np.random.Generator) -> str:
    """Put files beside the model that it does not list: nothing may change."""
    other = known[int(rng.integers(len(known)))].folder
    shutil.copy(other / DOCUMENT, folder / "model.json.bak")
    (folder / "training.json").write_bytes(rng.bytes(30))
    (folder / "tensors-0123456789abcdef.safetensors").symlink_to("/dev/zero")
    return "other files beside it"


DAMAGE: tuple[Change, ...] = (truncated, flipped, overwritten, prolonged, missing, swapped, no_file)
HEADS: tuple[Change, ...] = (version, listed, hostile_text)
CONTENT: tuple[Change, ...] = (forged_value, forged_value, forged_value, forged_tensor, enlarged)


# trying


def run(folder: Path, tries: int, seed: int) -> Iterator[Attempt]:
    rng = np.random.default_rng(seed)
    known = models(folder / "models", few=tries < 1000)
    for model in known:
        answer(model.folder, model.rows)  # imports and caches take memory once
    changes: list[Change] = [*DAMAGE, *DAMAGE, *HEADS, *CONTENT, *CONTENT, beside]
    for number in range(tries):
        change, model = changes[number % len(changes)], known[number // len(changes) % len(known)]
        place = folder / f"try-{number}" / model.folder.name
        shutil.copytree(model.folder, place)
        what = change(place, known, rng)
        yield Attempt(f"{model.folder.name}, {what}", fault_of(place, model, change))
        shutil.rmtree(place.parent)


def fault_of(place: Path, model: Model, change: Change) -> str:
    """Return what went wrong."""
    reset_peak()
    begin, before = time.monotonic(), memory("VmRSS")
    result, line = answer(place, model.rows)
    grown, taken = memory("VmHWM") - before, time.monotonic() - begin
    if grown > MOST_MEMORY:
        return f"took {grown / 2**20:.0f} MiB"
    if taken > LONGEST:
        return f"took {taken:.0f} s"
    if line is not None:
        return line
    if change is beside:
        return "" if np.array_equal(result, model.predicted) else "a file beside it changed what it says"
    if change in CONTENT:  # another model, perhaps
        return ""
    return "" if result is None else "loaded silently"


def memory(name: str) -> int:
    """Return a number of this process's status in bytes; 0 where the system has none."""
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith(f"{name}:")), 0)


def reset_peak() -> None:
    """Forget the peak of the resident memory so far."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


ATTACKS = (
    Attack(
        "artefacts",
        "A saved model (linear, net, TabM, forest, booster, ensemble, K classes, costs over columns, notes) is cut, "
        "flipped, swapped, replaced by links, pipes, devices and sparse giants, or forged with digests that fit: "
        "paths, sizes, nesting, versions, types, shapes (not the bytes of boosters). Failed: it loads though damaged, "
        "raises anything but an ArtefactError of one line, predicts with a raw error, takes over 300 MiB or 20 s.",
        run,
        long=10_000,
        short=60,
    ),
)
