"""Shared by all tests: array libraries, oracles that never reuse the code under test, hypothesis settings."""

import importlib.util
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "adacsl",
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("adacsl")


def _load(name: str) -> ModuleType:
    path = Path(__file__).parent / "reference" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"adacsl_reference_{name}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def published():
    """The paper's Algorithm 1, slow and obvious."""
    return _load("published_algorithm")


@pytest.fixture(scope="session")
def brute():
    """Every cut tried one by one, in exact fractions."""
    return _load("brute_force")


def _numpy():
    return SimpleNamespace(name="numpy", asarray=np.asarray, to_numpy=np.asarray)


def _torch():
    torch = pytest.importorskip("torch")
    return SimpleNamespace(name="torch", asarray=lambda v: torch.asarray(np.array(v)), to_numpy=lambda t: t.numpy())


def _strict():
    xp = pytest.importorskip("array_api_strict")
    return SimpleNamespace(name="array_api_strict", asarray=lambda v: xp.asarray(np.asarray(v)), to_numpy=np.asarray)


@pytest.fixture(scope="session", params=[_numpy, _torch, _strict], ids=["numpy", "torch", "strict"])
def library(request):
    """An array library: ``asarray`` takes numpy arrays in, ``to_numpy`` brings results back."""
    return request.param()
