"""Shared by all tests: array libraries, oracles that never reuse the code under test, hypothesis settings."""

import importlib.util
import json
import re
import signal
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # started in the background: tests of Ctrl-C need it
    signal.signal(signal.SIGINT, signal.default_int_handler)

settings.register_profile(
    "adacsl",
    max_examples=60,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("adacsl")


SPARSE_CHECKS = ("check_estimator_sparse_array", "check_estimator_sparse_matrix", "equivalence_on_sparse_data")
"""scikit-learn's checks of every form of sparse matrix fit dozens of models; all forms are written out alike."""


COLLECTED = pytest.StashKey[dict[Path, bool]]()
"""Which files were collected, and whether they have weekly tests."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave long checks to the weekly run, and note which files have weekly tests before these are deselected."""
    collected = config.stash.setdefault(COLLECTED, {})
    for item in items:
        # AdaCSLClassifier has had them all along: it gives its estimator what comes
        if any(check in item.name for check in SPARSE_CHECKS) and "AdaCSLClassifier" not in item.name:
            item.add_marker(pytest.mark.weekly)
        collected[item.path] = collected.get(item.path, False) or item.get_closest_marker("weekly") is not None


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup():
    """Skip tests of Ray where the machine is too busy to start a cluster: Ray gives up after 30 s."""
    try:
        return (yield)
    except Exception as error:
        if "node timed out during startup" in str(error):
            pytest.skip("Ray could not start a cluster within 30 s: the machine is busy")
        raise


def _load_module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"adacsl_{path.parent.name}_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _load(name: str) -> ModuleType:
    return _load_module(Path(__file__).parent / "reference" / f"{name}.py")


@pytest.fixture(scope="session")
def collected(request):
    """Which of the collected files have weekly tests."""
    return request.config.stash[COLLECTED]


@pytest.fixture(scope="session")
def load_module():
    """Import a script that lies beside the tests."""
    return _load_module


@pytest.fixture(autouse=True)
def one_thread():
    """Nets this small are slower on several threads, and two test processes share the cores."""
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


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


@pytest.fixture
def called(capsys):
    """Turn an entry point into a function of words: exit code, what was printed, and its JSON if it was asked for."""

    def of(main):
        def call(*words):
            code = main([str(word) for word in words])
            out, err = capsys.readouterr()
            assert not re.search(r"\d%", out + err), "write 57.5 %, not 57.5%"
            document = json.loads(out) if "--json" in words and out else None
            return SimpleNamespace(code=code, out=out, err=err, json=document)

        return call

    return of


@pytest.fixture
def refusal():
    """Turn such a function into one that must fail with one line on stderr, nothing on stdout, and returns the line."""

    def of(run):
        def call(*words, code=2):
            said = run(*words)
            assert said.code == code, said
            assert said.out == ""
            lines = said.err.splitlines()
            assert len(lines) == 1, said.err
            assert lines[0].startswith("error: ")
            assert "Traceback" not in said.err
            return lines[0]

        return call

    return of


@pytest.fixture(scope="session")
def paired_of():
    """Turn results (data, ratio, method, seed, cost) into row costs: 20 rows for each split, around its mean."""

    def of(results):
        from adacsl.comparison.statistics import RowCosts

        result, noise = {}, np.tile([-0.01, 0.01], 10)
        for view, block in results.groupby(["data", "ratio"]):
            means = block.pivot_table(index="method", columns="seed", values="cost")
            costs = (means.to_numpy()[:, :, None] + noise).reshape(len(means), -1)
            rows = np.arange(costs.shape[1])
            result[view] = RowCosts(tuple(means.index), costs, rows, np.repeat(means.columns, 20), rows)
        return result

    return of
