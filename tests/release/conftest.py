"""What is released: an archive of the sources and a wheel, built once for all tests."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).parents[2]


def load(path):
    """Import a script."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def script():
    """Import one of scripts/."""
    return lambda name: load(ROOT / "scripts" / f"{name}.py")


def build_into(root, out, *targets):
    """Build with hatchling, as pip does, and return the files."""
    env = os.environ | {"SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out), *(f"-t{target}" for target in targets)]
    subprocess.run(command, cwd=root, env=env, check=True, capture_output=True)
    return sorted(out.iterdir())


@pytest.fixture
def build():
    """Build something else."""
    return build_into


@pytest.fixture(scope="session")
def built(tmp_path_factory):
    """Return the wheel and the archive of the sources."""
    pytest.importorskip("hatchling")
    archive, wheel = sorted(build_into(ROOT, tmp_path_factory.mktemp("dist"), "wheel", "sdist"), key=lambda p: p.suffix)
    return SimpleNamespace(wheel=wheel, archive=archive)


@pytest.fixture(scope="session")
def clean(built, tmp_path_factory):
    """Return the folder of an environment that has adacsl from the wheel, and no source tree.

    Its other packages are those of this environment: installing them again would show nothing about adacsl.
    """
    folder = tmp_path_factory.mktemp("clean")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "venv")], check=True)
    python = folder / "venv/bin/python"
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps", "--no-index"]
    subprocess.run([*command, "--no-compile", str(built.wheel)], check=True, capture_output=True)
    packages = Path(pytest.__file__).parents[1]
    # a path in a .pth file is searched last, and its own .pth files (that of an editable adacsl) are not read
    (next((folder / "venv/lib").iterdir()) / "site-packages/others.pth").write_text(f"{packages}\n")
    return folder
