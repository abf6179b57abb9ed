"""Files that are there whole or not at all."""

import pytest

from adacsl import durable
from adacsl.durable import replace_file


def test_a_file_takes_the_place_of_another_and_its_folder_is_made(tmp_path):
    path = tmp_path / "new" / "file.csv"
    for content in (b"first", b"second, longer"):
        replace_file(path, content)
        assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_what_was_there_stays_when_the_disk_is_full(tmp_path, monkeypatch):
    path = tmp_path / "file.csv"
    replace_file(path, b"whole")

    def full(draft, content):
        draft.write_bytes(content[:2])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(durable, "write_file", full)
    with pytest.raises(OSError, match="No space left"):
        replace_file(path, b"never seen")
    assert path.read_bytes() == b"whole"
    assert list(tmp_path.iterdir()) == [path]
