"""Shared by the tests of estimators: saved models never need pickle."""

import pickle

import joblib
import pytest


@pytest.fixture
def no_pickle(monkeypatch):
    import torch

    def refuse(*_, **__):
        raise AssertionError("something was pickled")

    for name in ("load", "loads", "dump", "dumps", "Pickler", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    for owner, name in ((joblib, "load"), (joblib, "dump"), (torch, "load")):
        monkeypatch.setattr(owner, name, refuse)
