"""Sealed documents, files with a digest beside them, folders that belong to a fit, switched folders and locks."""

import contextlib
import fcntl
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from adacsl.storage import atomic
from adacsl.storage.atomic import alone_in, locked, remove_stale, switch_files
from adacsl.storage.digests import DigestedFile, bind_folder, digest_of, file_digest, text_digest
from adacsl.storage.documents import DamagedError
from adacsl.storage.sealed import ForeignError, SchemaError, SealedKind, pack, unpack

KIND = SealedKind("adacsl-made", schema=3, largest=2000)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


# documents


def test_a_document_comes_back_as_it_was_written(tmp_path):
    path, values = tmp_path / "new" / "made.json", {"cost": float("nan"), "parts": [1, "a", None], "sha256": "mine"}
    assert KIND.write(path, values, belongs_to="fit")
    result = KIND.read(path, belongs_to="fit")
    assert np.isnan(result["cost"])
    assert result["parts"] == [1, "a", None]
    assert (result["format"], result["schema_version"], result["belongs_to"]) == ("adacsl-made", 3, "fit")
    assert result["sha256"] != "mine"
    assert not KIND.write(path, {"cost": 2}, replace=False)
    assert np.isnan(KIND.read(path)["cost"])
    assert KIND.write(path, {"cost": 2})
    assert KIND.read(path)["cost"] == 2


def test_what_is_not_this_document_is_refused(tmp_path):
    path = tmp_path / "made.json"
    KIND.write(path, {"cost": 1}, belongs_to="fit")
    with pytest.raises(ForeignError, match="belongs to other data"):
        KIND.read(path, belongs_to="another")
    with pytest.raises(SchemaError, match="schema version 3, and this adacsl reads version 4") as caught:
        SealedKind("adacsl-made", schema=4).read(path)
    assert caught.value.version == 3
    with pytest.raises(DamagedError, match="its format is not adacsl-other"):
        SealedKind("adacsl-other", schema=3).read(path)
    with pytest.raises(DamagedError, match="at most 10 are read"):
        SealedKind("adacsl-made", schema=3, largest=10).read(path)
    with pytest.raises(ValueError, match="at most 2,000 are read again"):
        KIND.write(path, {"text": "x" * 2000})
    with pytest.raises(TypeError, match=r"^made\.cost must be a JSON value"):
        KIND.write(path, {"cost": object()})
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(DamagedError):
            KIND.read(path)


@pytest.mark.parametrize("kind", ["link", "folder", "pipe"])
def test_only_ordinary_files_are_read(tmp_path, kind):
    path, other = tmp_path / "made.json", tmp_path / "other.json"
    KIND.write(other, {"cost": 1})
    made = {"link": lambda: path.symlink_to(other), "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}
    made[kind]()
    with pytest.raises(DamagedError, match=r"link|regular"):
        KIND.read(path)
    with pytest.raises(DamagedError):
        file_digest(path)


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8", "i1", "u1", ">f8"])
def test_arrays_in_documents(dtype):
    array = np.array([0, 1, 7], dtype=dtype)
    result = unpack(pack(array))
    np.testing.assert_array_equal(result, array)
    result[0] = 1  # a copy of its own
    with pytest.raises(ValueError, match="unknown dtype"):
        unpack({"dtype": "|O", "base64": ""})


# digests


def test_a_digest_is_that_of_everything():
    array = np.arange(6)
    digests = {
        digest_of([array], 1), digest_of([array], 2), digest_of([array.astype(float)], 1), digest_of([array[::-1]], 1),
        digest_of([array.reshape(2, 3)], 1), digest_of([array[:3], array[3:]], 1), text_digest("a"),
    }  # fmt: skip
    assert len(digests) == 7
    assert digest_of([array[::2]], {"a": 1, "b": 2}) == digest_of([np.array([0, 2, 4])], {"b": 2, "a": 1})


def test_a_folder_belongs_to_one_fit(tmp_path):
    folder = tmp_path / "run"
    for _ in range(2):
        bind_folder(folder, "a" * 64)
    for there in (b"b" * 64, b"a" * 65, b""):
        (folder / "fit.sha256").write_bytes(there)
        with pytest.raises(ValueError, match="belong to other data or settings"):
            bind_folder(folder, "a" * 64)
    (tmp_path / "mark").write_bytes(b"a" * 64)
    (folder / "fit.sha256").unlink()
    (folder / "fit.sha256").symlink_to(tmp_path / "mark")
    with pytest.raises(ValueError, match="belong to other data or settings"):
        bind_folder(folder, "a" * 64)


def read(path):
    with DigestedFile.open(path) as file:
        return file.read()


def test_a_file_and_its_digest(tmp_path, monkeypatch):
    path = tmp_path / "last.ckpt"
    file = DigestedFile(path)
    for content in (b"first", b"second, longer"):
        with file.draft() as draft:
            draft.write_bytes(content)
        assert read(path) == content
    # killed between both renames, again and again: the file that is there is known
    replace = Path.replace
    for _ in range(2):
        monkeypatch.setattr(Path, "replace", lambda own, to: to == path or replace(own, to))
        with DigestedFile(path).draft() as draft:
            draft.write_bytes(b"third")
        monkeypatch.undo()
        assert read(path) == b"second, longer"
    with DigestedFile(path).draft() as draft:
        draft.write_bytes(b"fourth")
    assert read(path) == b"fourth"


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.write_bytes(b"firsT"), "digest is not the one in last.sha256"),
        (lambda path: path.write_bytes(b"first, longer"), "longer than it was"),
        (lambda path: path.with_suffix(".sha256").unlink(), "last.sha256 is missing, or not a regular file"),
        (lambda path: path.with_suffix(".sha256").write_text("x"), "last.sha256"),
        (lambda path: path.with_suffix(".sha256").write_text("x" * 300), "at most 200"),
        (lambda path: path.with_suffix(".sha256").write_text(""), "last.sha256"),
        (lambda path: path.rename(path.with_suffix(".old")) and path.symlink_to(path.with_suffix(".old")), "link"),
    ],
)
def test_a_file_that_is_not_the_one_of_its_digest(tmp_path, damage, message):
    path = tmp_path / "last.ckpt"
    with DigestedFile(path).draft() as draft:
        draft.write_bytes(b"first")
    damage(path)
    with pytest.raises(DamagedError, match=message):
        read(path)


# folders


def stale(name):
    return name.startswith("part-")


def test_files_of_a_folder_are_switched_together(tmp_path):
    folder = tmp_path / "model"
    switch_files(folder, {"part-1": b"1", "main": b"part-1"}, last="main", stale=stale)
    (folder / "notes.txt").write_text("mine")
    (folder / ".adacsl-0123456789ab.tmp").mkdir()  # of a killed process
    switch_files(folder, {"part-2": b"2", "main": b"part-2"}, last="main", stale=stale)
    assert names(folder) == ["main", "notes.txt", "part-2"]
    assert names(tmp_path) == ["model"]
    assert (folder / "main").read_bytes() == b"part-2"


@pytest.mark.parametrize("failing", range(3))
def test_a_switch_that_fails_leaves_what_was_there(tmp_path, monkeypatch, failing):
    folder = tmp_path / "model"
    switch_files(folder, {"part-1": b"1", "main": b"part-1"}, last="main", stale=stale)
    calls = iter(range(10))

    def fail(*given):
        if next(calls) == failing:
            raise OSError(28, "No space left on device")
        return done(*given)

    place, name = [(atomic, "write_file"), (Path, "replace"), (Path, "replace")][failing]
    failing = (0, 0, 1)[failing]
    done = getattr(place, name)
    monkeypatch.setattr(place, name, fail)
    with pytest.raises(OSError, match="No space"):
        switch_files(folder, {"part-2": b"2", "main": b"part-2"}, last="main", stale=stale)
    assert names(folder) == ["main", "part-1"]
    assert (folder / "main").read_bytes() == b"part-1"


def test_only_what_is_stale_is_removed(tmp_path):
    (tmp_path / "part-1").mkdir()
    (tmp_path / "part-2").write_text("")
    (tmp_path / "mine").write_text("")
    (tmp_path / ".adacsl-mine.tmp").write_text("")
    remove_stale(tmp_path, stale)
    assert names(tmp_path) == [".adacsl-mine.tmp", "mine"]


# locks

HOLD = """
import sys
from pathlib import Path
from adacsl.storage.atomic import locked
with locked(Path(sys.argv[1]), shared=sys.argv[2] == "shared"):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.parametrize(
    ("theirs", "ours", "free"), [("shared", True, True), ("shared", False, False), ("", True, False)]
)
def test_a_lock_ends_with_its_process(tmp_path, theirs, ours, free):
    path = tmp_path / ".lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, path, theirs], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout.readline() == "held\n"
        with contextlib.nullcontext() if free else pytest.raises(BlockingIOError), locked(path, shared=ours):
            pass
        other.kill()
    with locked(path):
        pass


def test_a_lock_follows_no_link(tmp_path):
    (tmp_path / ".lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DamagedError, match="link or not a regular"), locked(tmp_path / ".lock"):
        pass
    assert names(tmp_path) == [".lock"]


def test_one_at_a_time_in_a_folder(tmp_path):
    handle = os.open(tmp_path, os.O_RDONLY)
    with alone_in(tmp_path), pytest.raises(BlockingIOError):
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    os.close(handle)
