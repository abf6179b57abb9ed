"""Files that are there as a whole or not at all."""

import errno
import hashlib
import os
import socket
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from adacsl.storage.atomic import check_file, check_folder, draft_of, place_file, read_regular, replace_file
from adacsl.storage.documents import DamagedError, sealed, unsealed


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_draft_takes_the_name_at_the_end(tmp_path):
    path = tmp_path / "numbers.txt"
    path.write_text("old")
    with draft_of(path) as draft:
        draft.write_text("new")
        assert draft.parent == tmp_path
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert names(tmp_path) == ["numbers.txt"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_draft_is_gone_if_anything_goes_wrong(tmp_path, error):
    path = tmp_path / "numbers.txt"
    path.write_text("old")

    def fail():
        with draft_of(path) as draft:
            draft.write_text("half")
            raise error

    with pytest.raises(error):
        fail()
    assert path.read_text() == "old"
    assert names(tmp_path) == ["numbers.txt"]


def test_files_are_replaced_or_placed(tmp_path):
    path = tmp_path / "new" / "file"
    assert place_file(path, b"first")
    assert not place_file(path, b"second")
    assert path.read_bytes() == b"first"
    replace_file(path, b"third")
    assert path.read_bytes() == b"third"
    assert names(path.parent) == ["file"]


@pytest.mark.parametrize("code", [errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS])
def test_file_systems_without_hard_links(tmp_path, monkeypatch, code):
    def refuse(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "link", refuse)
    assert place_file(tmp_path / "file", b"first")
    assert not place_file(tmp_path / "file", b"second")
    assert (tmp_path / "file").read_bytes() == b"first"
    assert names(tmp_path) == ["file"]


@pytest.mark.parametrize("write", [replace_file, place_file])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_the_disk_refuses_leaves_nothing(tmp_path, monkeypatch, write, call):
    def refuse(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(*((os, "fsync") if call == "fsync" else (os, "link")), refuse)
    monkeypatch.setattr(Path, "replace", refuse)
    with pytest.raises(OSError, match="Input/output error"):
        write(tmp_path / "file", b"content")
    assert names(tmp_path) == []


def test_full_disk_leaves_nothing_half_written(tmp_path):
    """A real limit of the system, in a process of its own."""
    script = textwrap.dedent("""
        import resource, sys
        from pathlib import Path
        from adacsl.storage.atomic import replace_file
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
        try:
            replace_file(Path(sys.argv[1]), b"x" * 100_000)
        except OSError as error:
            print(type(error).__name__)
    """)
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "r.html")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "OSError"
    assert names(tmp_path) == []


def test_places_are_checked_before_any_work(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    check_file(tmp_path / "file")
    check_folder(tmp_path / "new" / "folder", "give a folder")
    with pytest.raises(NotADirectoryError, match=r"file is a file: give a folder"):
        check_folder(tmp_path / "file" / "folder", "give a folder")
    with pytest.raises(FileNotFoundError, match=r"there is no folder .*new to write x to: make it first"):
        check_file(tmp_path / "new" / "x")
    with pytest.raises(IsADirectoryError, match="is a folder: give the name of a file"):
        check_file(tmp_path)
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    for check in (lambda: check_file(tmp_path / "x"), lambda: check_folder(tmp_path / "x", "")):
        with pytest.raises(PermissionError, match=r"no permission to write to .*: choose another place"):
            check()


# untrusted files


def test_an_ordinary_file_is_read_up_to_a_bound(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "file").write_bytes(b"12345")
    (tmp_path / "linked").symlink_to(tmp_path / "real")
    assert read_regular(tmp_path / "real" / "file", at_most=5) == b"12345"
    assert read_regular(tmp_path / "linked" / "file", at_most=9) == b"12345"  # folders may be links
    with pytest.raises(DamagedError, match="it has 5 bytes, and at most 4 are read"):
        read_regular(tmp_path / "real" / "file", at_most=4)
    with pytest.raises(FileNotFoundError):
        read_regular(tmp_path / "none", at_most=9)
    with pytest.raises(NotADirectoryError):
        read_regular(tmp_path / "real" / "file" / "below", at_most=9)


def test_what_is_no_ordinary_file_is_neither_read_nor_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").write_bytes(b"x")
    for name, target in {"zero": "/dev/zero", "link": tmp_path / "file", "loop": tmp_path / "loop", "no": "no"}.items():
        (tmp_path / name).symlink_to(target)
        with pytest.raises(DamagedError, match="it is a link, which is not followed"):
            read_regular(tmp_path / name, at_most=10**9)
    with socket.socket(socket.AF_UNIX) as own:
        own.bind(str(tmp_path / "socket"))
        for path in (tmp_path / "pipe", tmp_path / "folder", tmp_path / "socket", Path("/dev/zero")):
            with pytest.raises(DamagedError, match="it is not a regular file"):
                read_regular(path, at_most=10**9)


def test_a_sparse_giant_is_not_read(tmp_path):
    with (tmp_path / "giant").open("wb") as file:
        file.truncate(10**12)
    with pytest.raises(DamagedError, match="it has 1,000,000,000,000 bytes"):
        read_regular(tmp_path / "giant", at_most=10**6)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="files without a size are Linux's")
def test_a_file_whose_size_is_not_the_stated_one():
    with pytest.raises(DamagedError, match="it changes while it is read"):
        read_regular(Path("/proc/self/status"), at_most=10**6)  # its stated size is 0


@pytest.mark.parametrize(
    ("inside", "why"),
    [
        ("1e999", "a number is too large"),
        ("-1e999", "a number is too large"),
        ("NaN", "a number is too large"),
        ('{"a": 1, "b": 2, "a": 1}', "a key comes twice"),
        ("[" * 61 + "]" * 61, "lists are nested more than 60 deep"),
        ('{"a": ' * 61 + "1" + "}" * 61, "lists are nested more than 60 deep"),
        ("[" * 10**5 + "]" * 10**5, "not JSON: maximum recursion depth"),
        ("9" * 5000, "not JSON: Exceeds the limit"),
        ("{1: 2}", "not JSON: Expecting property name"),
        ('{"$float": ["nan"]}', "unknown number"),
    ],
)
def test_what_no_writer_of_ours_writes_is_refused_although_its_digest_fits(inside, why):
    begun = f'{{\n"format": "mine",\n"schema_version": 1,\n"x": {inside},\n'.encode()
    content = begun + f'"sha256": "{hashlib.sha256(begun).hexdigest()}"\n}}\n'.encode()
    with pytest.raises(DamagedError, match=why):
        unsealed(content, "mine")


def test_a_document_comes_back_and_true_is_no_version():
    values = {"format": "mine", "schema_version": 1, "x": [[{"$float": "nan"}]]}
    assert str(unsealed(sealed(values), "mine")["x"]) == "[[nan]]"
    with pytest.raises(DamagedError, match="schema_version is True"):
        unsealed(sealed(values | {"schema_version": True}), "mine")
