"""Artefacts: what is written comes back exactly; whatever is wrong with a folder is one ArtefactError."""

import builtins
import errno
import hashlib
import itertools
import json
import math
import os
import pickle
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import safetensors.torch
import torch

from adacsl.estimators.artefact import ArtefactError, artefact_digest, is_artefact, read_artefact, write_artefact
from adacsl.storage.documents import sealed

TENSORS = {
    "zeta.weight": torch.arange(6, dtype=torch.float32).view(2, 3),
    "alpha": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
    "flag": torch.tensor([True, False]),
    "scalar": torch.tensor(7),
    "empty": torch.zeros(0, 3),
}
DOCUMENT = {"name": "größe", "threshold": 0.1 + 0.2, "classes": ["no", "yes"], "nested": {"a": [1, None, True]}}


@pytest.fixture
def folder(tmp_path):
    return write_artefact(tmp_path / "model", TENSORS, DOCUMENT)


def tensor_file(folder):
    return next(folder.glob("tensors-*.safetensors"))


def snapshot(folder):
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def forge(folder, *, content=None, **changes):
    """Change an artefact and make every digest fit again, as an attacker or a fault of ours could."""
    head = json.loads((folder / "model.json").read_text())
    if content is not None:
        tensor_file(folder).unlink()
        digest = hashlib.sha256(content).hexdigest()
        name = f"tensors-{digest[:16]}.safetensors"
        (folder / name).write_bytes(content)
        head["files"] = {name: {"sha256": digest, "bytes": len(content), "tensors": list(TENSORS)}}
    head |= changes
    del head["sha256"]
    (folder / "model.json").write_bytes(sealed(head))


# the round trip


def test_a_document_has_one_spelling(folder, tmp_path):
    before = snapshot(folder)
    assert snapshot(write_artefact(tmp_path / "other", TENSORS, DOCUMENT)) == before
    forge(folder)  # unchanged, digests and all: what the tests of forged ones rely on
    assert snapshot(folder) == before


def test_round_trip(folder):
    tensors, document = read_artefact(folder)
    assert document == DOCUMENT
    assert list(document) == list(DOCUMENT)
    assert list(tensors) == list(TENSORS)
    for name, tensor in TENSORS.items():
        assert torch.as_tensor(tensors[name]).dtype == tensor.dtype
        assert torch.equal(torch.as_tensor(tensors[name]), tensor)
    kinds = {name: type(value) for name, value in tensors.items()}
    assert kinds == dict.fromkeys(TENSORS, np.ndarray) | {"alpha": torch.Tensor}  # numpy has no bfloat16
    tensors["zeta.weight"][0, 0] = 5.0  # writable
    assert sorted(p.name for p in folder.iterdir()) == ["model.json", tensor_file(folder).name]
    assert [p.name for p in folder.parent.iterdir()] == ["model"]


def test_arrays_views_and_shared_tensors(tmp_path):
    base = torch.arange(12.0).view(3, 4)
    frozen = np.arange(4)
    frozen.flags.writeable = False
    given = {
        "turned": base.t(),
        "part": base[1:, ::2],
        "same": base,
        "again": base,
        "big_endian": np.arange(3, dtype=">f8"),
        "reversed": np.arange(5)[::-1],
        "frozen": frozen,
        "grad": torch.nn.Parameter(torch.ones(2)),
    }
    tensors, _ = read_artefact(write_artefact(tmp_path / "m", given, {}))
    for name, value in given.items():
        expected = value.detach() if isinstance(value, torch.Tensor) else value
        np.testing.assert_array_equal(tensors[name], np.asarray(expected))


def test_numbers_that_json_lacks(tmp_path):
    given = {
        "bad": [math.nan, math.inf, -math.inf],
        "np": np.float32(0.5),
        "int": np.int64(3),
        "pair": (1, 2),
        "z": -0.0,
    }
    folder = write_artefact(tmp_path / "m", {}, given)
    tensors, document = read_artefact(folder)
    assert tensors == {}
    assert math.isnan(document["bad"][0])
    assert document["bad"][1:] == [math.inf, -math.inf]
    assert document["np"] == 0.5
    assert type(document["int"]) is int
    assert document["pair"] == [1, 2]
    assert math.copysign(1, document["z"]) == -1
    text = (folder / "model.json").read_text()
    assert "NaN" not in text
    assert "Infinity" not in text


@pytest.mark.parametrize(
    ("tensors", "document", "message"),
    [
        ({}, {"a": {1: 2}}, r"document.a: keys must be str .* got 1"),
        ({}, {"a": [0, object()]}, r"document.a\[1\] must be a JSON value"),
        ({}, {"$float": "nan"}, "keys must be str"),
        ({}, {"a": b"x"}, "must be a JSON value"),
        ({1: torch.zeros(1)}, {}, "need a name"),
        ({"__metadata__": torch.zeros(1)}, {}, "need a name"),
        ({"a": np.array([object()])}, {}, "dense tensor or array of numbers"),
        ({"a": np.array(["x"])}, {}, "dense tensor or array of numbers"),
        ({"a": torch.zeros(2, 2).to_sparse()}, {}, "dense tensor"),
        ({"a": [1.0]}, {}, "got list"),
        ({"a": torch.zeros(1, dtype=torch.complex128)}, {}, "complex128"),
    ],
)
def test_what_cannot_be_written(tmp_path, tensors, document, message):
    with pytest.raises(ArtefactError, match=message):
        write_artefact(tmp_path / "m", tensors, document)
    assert list(tmp_path.iterdir()) == []


# where it is written


def test_replacing_leaves_other_files_alone(folder):
    (folder / "notes.txt").write_text("mine")
    write_artefact(folder, {"w": torch.ones(2)}, {"v": 2})
    tensors, document = read_artefact(folder)
    assert list(tensors) == ["w"]
    assert document == {"v": 2}
    assert (folder / "notes.txt").read_text() == "mine"
    assert len(list(folder.iterdir())) == 3
    write_artefact(folder, {"w": torch.ones(2)}, {"v": 3})
    assert read_artefact(folder)[1] == {"v": 3}


def test_new_nested_and_empty_targets(tmp_path):
    (tmp_path / "empty").mkdir()
    for folder in (tmp_path / "empty", tmp_path / "a" / "b"):
        assert not is_artefact(folder)
        write_artefact(str(folder), TENSORS, DOCUMENT)
        assert is_artefact(folder)
        assert read_artefact(str(folder))[1] == DOCUMENT
    assert (tmp_path / "empty").stat().st_mode & 0o777 == (tmp_path / "a").stat().st_mode & 0o777


def test_link_to_an_artefact_stays_a_link(folder, tmp_path):
    link = tmp_path / "latest"
    link.symlink_to(folder)
    write_artefact(link, {}, {"v": 2})
    assert link.is_symlink()
    assert read_artefact(folder)[1] == {"v": 2}


def test_foreign_folders_and_files_are_not_touched(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "model.json").write_text('{"not": "ours"}')
    before = snapshot(tmp_path / "thesis")
    with pytest.raises(ArtefactError, match="holds other files"):
        write_artefact(tmp_path / "thesis", TENSORS, DOCUMENT)
    assert snapshot(tmp_path / "thesis") == before
    (tmp_path / "file").write_text("x")
    with pytest.raises(ArtefactError, match="is a file"):
        write_artefact(tmp_path / "file", TENSORS, DOCUMENT)
    with pytest.raises(ArtefactError, match="could not write"):
        write_artefact(tmp_path / "file" / "below", TENSORS, DOCUMENT)
    damaged = write_artefact(tmp_path / "damaged", TENSORS, DOCUMENT)
    (damaged / "model.json").write_bytes((damaged / "model.json").read_bytes()[:80])
    assert read_artefact(write_artefact(damaged, TENSORS, DOCUMENT))[1] == DOCUMENT  # it is ours


# writing that fails


@pytest.fixture
def failing(monkeypatch):
    """Make one call of a function fail."""

    def patch(place, name, call, error):
        real, calls = getattr(place, name), itertools.count(1)

        def stand_in(*args, **kwargs):
            if next(calls) == call:
                raise error
            return real(*args, **kwargs)

        monkeypatch.setattr(place, name, stand_in)

    return patch


@pytest.mark.parametrize("tensors", [{"w": torch.ones(3)}, TENSORS], ids=["other tensors", "the same tensors"])
@pytest.mark.parametrize(
    ("place", "name", "call", "code"),
    [
        (os, "fsync", 1, errno.ENOSPC), (os, "fsync", 2, errno.EACCES), (Path, "replace", 1, errno.EACCES),
        (Path, "replace", 2, errno.ENOSPC), (Path, "mkdir", 1, errno.EACCES),
    ],
)  # fmt: skip
def test_a_failure_while_replacing_leaves_the_old_model(folder, failing, monkeypatch, place, name, call, code, tensors):
    before = snapshot(folder)
    failing(place, name, call, OSError(code, os.strerror(code)))
    with pytest.raises(ArtefactError, match=f"could not write .*{os.strerror(code)}; nothing was changed"):
        write_artefact(folder, tensors, {"v": 2})
    monkeypatch.undo()
    assert snapshot(folder) == before
    assert [p.name for p in folder.parent.iterdir()] == ["model"]
    assert read_artefact(folder)[1] == DOCUMENT


@pytest.mark.parametrize(
    ("place", "name", "error"),
    [
        (os, "fsync", OSError(28, "No space left")),
        (Path, "rename", OSError(28, "")),
        (Path, "rename", KeyboardInterrupt),
    ],
)
def test_a_failure_while_making_leaves_nothing(tmp_path, failing, place, name, error):
    failing(place, name, 1, error)
    with pytest.raises(KeyboardInterrupt if error is KeyboardInterrupt else ArtefactError):
        write_artefact(tmp_path / "m", TENSORS, DOCUMENT)
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, sys
import numpy as np
from pathlib import Path
from adacsl.estimators.artefact import write_artefact
real, left = Path.replace, [int(sys.argv[2])]
def replace(self, target):
    if left[0] == 0:
        os._exit(9)
    left[0] -= 1
    return real(self, target)
Path.replace = replace
write_artefact(sys.argv[1], {"w": np.ones(3)}, {"v": 2})
"""


@pytest.mark.parametrize("renames", [0, 1])
def test_killed_while_replacing(folder, renames):
    """A kill runs no clean-up: the folder must be good as it stands, and leftovers must go at the next save."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(folder), str(renames)], check=False)
    assert done.returncode == 9
    assert len(list(folder.iterdir())) > 2
    assert read_artefact(folder)[1] == DOCUMENT
    write_artefact(folder, {"w": torch.ones(4)}, {"v": 3})
    assert len(list(folder.iterdir())) == 2
    assert read_artefact(folder)[1] == {"v": 3}


def test_leftovers_in_an_otherwise_empty_folder_do_not_hinder(tmp_path):
    (tmp_path / "m" / ".adacsl-0123456789ab.tmp").mkdir(parents=True)
    (tmp_path / "m" / "tensors-0123456789abcdef.safetensors").write_bytes(b"x")
    write_artefact(tmp_path / "m", TENSORS, DOCUMENT)
    assert len(list((tmp_path / "m").iterdir())) == 2


# several at once


def test_threads_that_save_at_the_same_time_wait_and_no_model_is_lost(tmp_path):
    folder = tmp_path / "model"

    def save(value):
        write_artefact(folder, {"w": torch.full((9,), float(value))}, {"value": value})
        tensors, document = read_artefact(folder)
        assert tensors["w"].tolist() == [document["value"]] * 9

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(save, range(24)))
    assert len(list(folder.iterdir())) == 2


SAVING = """
import sys, torch
from adacsl.estimators.artefact import read_artefact, write_artefact
for number in range(100):
    value = 1000.0 * int(sys.argv[2]) + number
    write_artefact(sys.argv[1], {"w": torch.full((9,), value)}, {"value": value})
    tensors, document = read_artefact(sys.argv[1])
    assert tensors["w"].tolist() == [document["value"]] * 9
"""


@pytest.mark.weekly
def test_processes_that_save_at_the_same_time_lose_no_model(tmp_path):
    command = [sys.executable, "-c", SAVING, str(tmp_path / "model")]
    running = [subprocess.Popen([*command, str(who)], stderr=subprocess.PIPE, text=True) for who in range(4)]
    errors = [own.communicate()[1] for own in running]
    assert [own.returncode for own in running] == [0] * 4, errors
    assert len(list((tmp_path / "model").iterdir())) == 2


def test_a_model_that_is_replaced_while_it_is_read(folder, monkeypatch):
    """Its tensors are gone after the document was read: the new document names others."""
    from adacsl.estimators import artefact

    real, reads = artefact.read_regular, []

    def late(path, at_most):
        reads.append(path.name)
        if len(reads) == 2:
            write_artefact(folder, {"w": torch.ones(2)}, {"v": 2})
        return real(path, at_most=at_most)

    monkeypatch.setattr(artefact, "read_regular", late)
    tensors, document = read_artefact(folder)
    assert (list(tensors), document) == (["w"], {"v": 2})


# damage


def damaged(whole, step):
    """Yield contents that differ from a file's: flipped bits, cut and prolonged files, other bytes."""
    for place in {*range(0, len(whole), step), len(whole) - 1}:
        for mask in (0x01, 0x20, 0x80):
            yield whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
    yield from (b"", whole[:1], whole[: len(whole) // 2], whole[:-1], whole + b"\n", whole + whole)
    rng = np.random.default_rng(0)
    yield from (rng.bytes(int(rng.integers(0, 300))) for _ in range(50))


@pytest.mark.parametrize(("part", "step"), [("model.json", 5), ("tensors", 97)])
def test_any_damage_is_an_error(folder, part, step):
    path = next(own for own in folder.iterdir() if own.name.startswith(part))
    whole = path.read_bytes()
    for content in damaged(whole, step):
        path.write_bytes(content)
        with pytest.raises(ArtefactError):
            read_artefact(folder)
    path.write_bytes(whole)
    assert read_artefact(folder)[1] == DOCUMENT


def test_reformatted_document_is_refused(folder):
    path = folder / "model.json"
    path.write_text(json.dumps(json.loads(path.read_text())))
    with pytest.raises(ArtefactError, match="digest does not fit"):
        read_artefact(folder)


def test_missing_things_are_named(folder, tmp_path):
    with pytest.raises(ArtefactError, match="no model folder"):
        read_artefact(tmp_path / "absent")
    (tmp_path / "plain").mkdir()
    with pytest.raises(ArtefactError, match="is not an adacsl model"):
        read_artefact(tmp_path / "plain")
    with pytest.raises(ArtefactError, match="no model folder"):
        read_artefact(folder / "model.json")
    (tmp_path / "plain" / "model.json").write_text('{"other": 1}')
    with pytest.raises(ArtefactError, match="is not part of an adacsl model"):
        read_artefact(tmp_path / "plain")
    tensor_file(folder).unlink()
    with pytest.raises(ArtefactError, match=r"tensors-.* is missing"):
        read_artefact(folder)


def test_unreadable_file(folder, monkeypatch):
    def refuse(*_):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(ArtefactError, match="cannot be read: Permission denied"):
        read_artefact(folder)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"schema_version": 4, "adacsl_version": "9.0.0", "novelty": [1]}, r"version 4 .* adacsl 9.0.0.*update adacsl"),
        ({"schema_version": 1, "adacsl_version": "0.2.0"}, r"version 1 .* 0.2.0; .* version 3: train the model again"),
        *(({"schema_version": version}, "schema_version") for version in ("1", None, 0, -1, 1.5, [1])),
        *(({"files": files}, "damaged") for files in (None, [], {"tensors-0123456789abcdef.safetensors": 3})),
        *(
            ({"files": {name: {"sha256": "", "bytes": 0, "tensors": []}}}, "damaged")
            for name in ("../model/tensors-0123456789abcdef.safetensors", "weights.pkl")
        ),
        *(({"document": document}, "damaged") for document in ([1], 3, None, {"$float": "nan"}, {"a": {"$float": []}})),
    ],
)
def test_forged_heads(folder, changes, match):
    forge(folder, **changes)
    with pytest.raises(ArtefactError, match=match):
        read_artefact(folder)


def entry(folder):
    return json.loads((folder / "model.json").read_text())["files"][tensor_file(folder).name]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"bytes": 2**34 + 1}, "lists the content"),
        ({"bytes": -1}, "lists the content"),
        ({"bytes": True}, "lists the content"),
        ({"bytes": 1e3}, "lists the content"),
        ({"bytes": 10**12}, "lists the content"),
        ({"bytes": 5}, r"bytes, and at most 5 are read"),
        ({"tensors": ["alpha", "alpha"]}, "lists the content"),
        ({"tensors": [1]}, "lists the content"),
        ({"tensors": ["alpha"]}, "does not hold the tensors that model.json lists"),
        ({"sha256": "0" * 64}, "the digest of .* is another"),
        ({"sha256": None}, "the digest of .* is another"),
    ],
)
def test_forged_entries(folder, change, why):
    forge(folder, files={tensor_file(folder).name: entry(folder) | change})
    with pytest.raises(ArtefactError, match=why):
        read_artefact(folder)


def test_one_file_of_tensors(folder):
    own, other = {tensor_file(folder).name: entry(folder)}, entry(folder) | {"sha256": "0123456789abcdef"}
    forge(folder, files=own | {"tensors-0123456789abcdef.safetensors": other})
    with pytest.raises(ArtefactError, match="it lists 2 files instead of one"):
        read_artefact(folder)


def test_a_tensor_without_numbers_is_not_very_long(folder):
    forge(folder, content=safetensors.torch.save(TENSORS | {"empty": torch.zeros(2**40, 0)}))
    with pytest.raises(ArtefactError, match="a tensor without numbers is very long"):
        read_artefact(folder)


@pytest.mark.parametrize("part", ["model.json", "tensors"])
@pytest.mark.parametrize("what", ["device", "same content", "pipe", "folder", "giant", "itself"])
def test_what_is_no_file_of_the_folder_is_not_read(folder, tmp_path, part, what):
    path = next(own for own in folder.iterdir() if own.name.startswith(part))
    aside = path.rename(tmp_path / "aside")
    if what == "pipe":
        os.mkfifo(path)
    elif what == "folder":
        path.mkdir()
    elif what == "giant":
        with path.open("wb") as file:
            file.write(aside.read_bytes())
            file.truncate(10**12)
    else:
        path.symlink_to({"device": "/dev/zero", "same content": aside, "itself": path}[what])
    why = {
        "pipe": "not a regular file",
        "folder": "not a regular file",
        "giant": "1,000,000,000,000 bytes, and at most",
    }
    with pytest.raises(ArtefactError, match=f"is damaged .it (is|has) {why.get(what, 'a link')}"):
        read_artefact(folder)
    assert is_artefact(folder) == (part != "model.json" or what == "giant")


def test_what_could_not_be_read_is_not_written(tmp_path, monkeypatch):
    from adacsl.estimators import artefact

    monkeypatch.setattr(artefact, "LARGEST_DOCUMENT", 300)
    with pytest.raises(ArtefactError, match="would be too large: at most 300 bytes of text"):
        write_artefact(tmp_path / "m", {}, {"a": "x" * 300})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "change",
    [
        lambda content: struct.pack("<Q", 2**40) + content[8:],
        lambda content: content.replace(b'"F32"', b'"F64"'),
        lambda _: safetensors.torch.save({}),
        lambda _: pickle.dumps({"w": 1}),
        lambda _: b"",
    ],
    ids=["bloated", "another dtype", "without tensors", "pickled", "empty"],
)
def test_forged_tensor_files(folder, change):
    forge(folder, content=change(tensor_file(folder).read_bytes()))
    with pytest.raises(ArtefactError, match="damaged"):
        read_artefact(folder)


@pytest.mark.usefixtures("no_pickle")
def test_nothing_is_unpickled(folder, monkeypatch):
    monkeypatch.setattr(builtins, "exec", None)
    (folder / "extra.pkl").write_bytes(b"cos\nsystem\n(S'true'\ntR.")
    assert read_artefact(folder)[1] == DOCUMENT


def test_error_lines_are_short(folder):
    (folder / "model.json").write_bytes(b"\xff" * 10_000)
    with pytest.raises(ArtefactError) as caught:
        read_artefact(folder)
    assert len(str(caught.value)) < 400
    assert "\n" not in str(caught.value)


def test_only_the_artefact_of_a_digest_is_read(tmp_path):
    folder = write_artefact(tmp_path / "m", {"a": np.arange(3.0)}, {"v": 1})
    digest = artefact_digest(folder)
    assert read_artefact(folder, digest=digest)[1] == {"v": 1}
    write_artefact(folder, {"a": np.arange(3.0)}, {"v": 2})  # other notes, the same numbers
    with pytest.raises(
        ArtefactError, match=rf"holds another model than .*: its digest is \w{{12}}, not {digest[:12]}$"
    ):
        read_artefact(folder, digest=digest)
    write_artefact(folder, {"a": np.arange(3.0)}, {"v": 1})
    assert artefact_digest(folder) == digest
