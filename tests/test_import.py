"""``import adacsl`` needs numpy only; each framework is loaded by the module that bears its name."""

import os
import subprocess
import sys

import pytest

HEAVY = ("torch", "sklearn", "pandas", "polars", "scipy", "lightning", "pytorch_lightning", "narwhals", "matplotlib")


def loaded_after(statement):
    code = f"{statement}\nimport sys\nprint(*sorted({{name.split('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_the_core_loads_no_framework():
    statement = (
        "import adacsl; c = adacsl.CostMatrix(fp=1, fn=8); adacsl.AdaCSLController(c).step([0.1, 0.9], [0, 1]);"
        "adacsl.thresholds.brier_curve([0.1, 0.9], [0, 1]); adacsl.cost_interval(c, [0, 1], [1, 1])"
    )
    assert loaded_after(statement).isdisjoint(HEAVY)


def test_losses_load_torch_but_no_other_framework():
    loaded = loaded_after("import adacsl.torch")
    assert "torch" in loaded
    assert loaded.isdisjoint({"sklearn", "lightning", "pytorch_lightning", "pandas"})


HIDE = """
import sys
from importlib.machinery import PathFinder

class Hide(PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.split(".")[0] in {hidden} else super().find_spec(name, path, target)

sys.meta_path[sys.meta_path.index(PathFinder)] = Hide
"""


@pytest.mark.parametrize(
    ("missing", "statement", "advice"),
    [
        ("torch", "import adacsl; adacsl.AdaCSLClassifier().fit([[0.0], [1.0]] * 9, [0, 1] * 9)", "adacsl[train]"),
        ("safetensors", "from adacsl import load", "adacsl[train]"),
        ("torch", "import adacsl.torch", "adacsl[torch]"),
        ("lightning", "import adacsl.integrations.lightning", "adacsl[lightning]"),
        ("onnx", "import adacsl.estimators.onnx", "adacsl[onnx]"),
        ("tabm", "import adacsl.integrations.tabm", "adacsl[tabm]"),
        ("sklearn", "from adacsl import AdaCSLClassifier", "adacsl[sklearn]"),
        ("sklearn", "import adacsl.integrations.sklearn", "adacsl[sklearn]"),
        ("skorch", "import adacsl.integrations.skorch", "adacsl[skorch]"),
        ("torch", "import adacsl.integrations.skorch", "adacsl[skorch]"),
        ("transformers", "import adacsl.integrations.transformers", "adacsl[transformers]"),
        ("torch", "import adacsl.integrations.transformers", "adacsl[transformers]"),
        ("keras", "import adacsl.integrations.keras", "adacsl[keras]"),
        ("mlflow", "import adacsl.integrations.mlflow", "adacsl[mlflow]"),
        ("fastapi", "import adacsl.serving.app", "adacsl[serve]"),
    ],
)
def test_a_missing_extra_is_one_line_that_shows_what_to_install(missing, statement, advice):
    hidden = [missing, "pytorch_lightning"] if missing == "lightning" else [missing]
    code = HIDE.format(hidden=hidden) + statement
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].endswith(f"run  pip install '{advice}'")
    assert "During handling" not in done.stderr
    assert "direct cause" not in done.stderr


def test_a_missing_backend_of_keras_is_one_line_that_shows_what_to_set():
    code = "import sys\nsys.modules['jax'] = None\nimport adacsl.integrations.keras"
    env = os.environ | {"KERAS_BACKEND": "jax"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 1
    assert "set to a backend that is not installed (jax)" in done.stderr.splitlines()[-1]
    assert "KERAS_BACKEND" in done.stderr.splitlines()[-1]
