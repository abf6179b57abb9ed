"""PyTorch without any trainer: the examples run, and processes started by torchrun agree."""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LAMBDA = re.compile(r"lambda (\d+\.\d+)")


def code_lines(path):
    text = re.sub(r'^""".*?"""\n', "", path.read_text(), count=1, flags=re.DOTALL)
    return [line for line in text.splitlines() if line.strip() and not line.startswith(("import ", "from ", "#"))]


@pytest.mark.parametrize(
    "name", ["plain_pytorch", "torchrun", "skorch_net", "transformers_trainer", "keras_model", "sklearn_estimator"]
)
def test_examples_are_short(name):
    assert len(code_lines(EXAMPLES / f"{name}.py")) <= 25


def test_a_plain_loop(capsys):
    runpy.run_path(str(EXAMPLES / "plain_pytorch.py"))
    found = LAMBDA.findall(capsys.readouterr().out)
    assert len(found) == 15
    assert len(set(found)) > 5


@pytest.mark.slow
def test_two_processes_have_the_lambda_of_one(capsys, monkeypatch, tmp_path):
    for name, value in {"RANK": 0, "WORLD_SIZE": 1, "MASTER_ADDR": "localhost", "MASTER_PORT": 0}.items():
        monkeypatch.setenv(name, str(value))
    runpy.run_path(str(EXAMPLES / "torchrun.py"))
    one = [float(value) for value in LAMBDA.findall(capsys.readouterr().out)]
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    for name in ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name)
    done = subprocess.run(
        [*command, str(EXAMPLES / "torchrun.py")], capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    two = [float(value) for value in LAMBDA.findall(done.stdout)]
    assert len(one) == len(set(one)) == 6
    # gradients are summed in another order; the measured scores are the same to a few digits of float32
    assert two == pytest.approx(one, rel=1e-4)
