"""What the attacks on saved models call a fault: a reader that takes anything, and one that unpickles."""

import pickle

import pytest

from adacsl.learners import skops_models
from benchmarks.attacks import pipelines, saved
from benchmarks.attacks.artefacts import run as damage
from benchmarks.attacks.untrusted import run as plant


def faults(run, folder, tries):
    return [attempt.fault for attempt in run(folder, tries, 0)]


class Taken:
    """Says the same about every row."""

    def predict_proba(self, rows):
        return [0.5] * len(rows)

    predict = predict_proba


def test_a_reader_that_takes_anything_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(saved, "load_noted", lambda place, device: (Taken(), None))
    assert faults(damage, tmp_path, 16) == ["loaded silently"] * 16


@pytest.mark.parametrize("error", [KeyError("x"), MemoryError()])
def test_raw_errors_are_found(tmp_path, monkeypatch, error):
    def refuse(place, device):
        raise error

    monkeypatch.setattr(saved, "load_noted", refuse)
    assert all(fault.startswith(type(error).__name__) for fault in faults(damage, tmp_path, 3))


def test_a_reader_that_unpickles_is_found(tmp_path, monkeypatch):
    def careless(place, device):
        return pickle.loads((place / "model.pkl").read_bytes())  # noqa: S301  that is the fault

    monkeypatch.setattr(saved, "load_noted", careless)
    assert set(faults(plant, tmp_path, 3)) == {"the payload has run"}
    monkeypatch.setattr(saved, "load_noted", lambda place, device: (place / "model.pt").read_bytes())
    assert all("opened" in fault for fault in faults(plant, tmp_path / "again", 3))


def test_pipelines_that_read_files_are_found(tmp_path, monkeypatch):
    monkeypatch.setattr(skops_models, "_check_objects", lambda _: None)
    monkeypatch.setattr(pipelines, "CHANGES", (pipelines.reads_files,))
    result = faults(pipelines.run, tmp_path, 40)
    assert any("opened" in fault for fault in result)
