"""The wheel on every supported Python, and at the lowest supported versions of everything.

Needs the package index and some gigabytes; interpreters are looked for as python3.12 and python3.13, or named by
ADACSL_PYTHONS (a list of paths with colons in between).
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXTRAS = "cli,excel,lightgbm,onnx,serve,skorch,sql"
TOOLS = ("httpx", "hypothesis", "openpyxl", "polars", "pytest", "pytest-timeout")
TESTS = (
    "tests/core", "tests/torch", "tests/datasets", "tests/serving", "tests/cli/test_threshold.py",
    "tests/estimators/test_registry.py", "tests/estimators/test_persistence.py",
)  # fmt: skip

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(3600)]


def interpreters():
    named = os.environ.get("ADACSL_PYTHONS", "")
    return named.split(":") if named else [p for v in ("3.12", "3.13") if (p := shutil.which(f"python{v}"))]


def skip_unless(command, why):
    """Skip the test, with the first line it states, where a command fails for reasons outside this project."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"{why}: {[*done.stderr.splitlines(), f'exit {done.returncode}'][0]}")


def try_out(python, folder, pins, wheel):
    """Install the wheel with these pins into an environment of its own, and run tests with it."""
    own = folder / "venv/bin/python"
    skip_unless([python, "-c", "import ensurepip, venv"], f"{python} does not run")  # a shim of a version manager
    subprocess.run([python, "-m", "venv", str(folder / "venv")], check=True)
    skip_unless([str(own), "-m", "pip", "download", "-qq", "-d", str(folder), "--no-deps", "numpy"], "no package index")
    pip = [str(own), "-m", "pip", "install", "-q", "--no-compile", "-c", str(pins)]
    subprocess.run([*pip, f"{wheel}[{EXTRAS}]", *TOOLS], check=True)
    # warnings of versions that we do not pin are not ours
    command = [str(own), "-m", "pytest", "-q", "-p", "no:cacheprovider", "-o", "filterwarnings=default", *TESTS]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, cwd=ROOT, env=env, check=True)


@pytest.mark.parametrize("python", interpreters() or [pytest.param("", marks=pytest.mark.skip("no other Python here"))])
def test_another_python(python, built, tmp_path):
    try_out(python, tmp_path, ROOT / "constraints.txt", built.wheel)


def test_lowest_versions(script, built, tmp_path):
    done = subprocess.run([sys.executable, ROOT / "scripts/minimum.py"], capture_output=True, text=True, check=True)
    pins = tmp_path / "minimum.txt"
    pins.write_text(done.stdout)
    try_out(sys.executable, tmp_path, pins, built.wheel)
