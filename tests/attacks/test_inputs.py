"""Wrong inputs are refused at once, in one line; the short form of the attack tries those without a fitted model."""

import warnings

import pytest
from lightning.pytorch import Trainer

from benchmarks.attacks.inputs import TABLE, Wrong, fault_of


def test_each_input_is_another_one():
    names = [wrong.name for wrong in TABLE]
    assert len(set(names)) == len(names) >= 250
    assert all(wrong.says for wrong in TABLE)


@pytest.mark.parametrize("wrong", [wrong for wrong in TABLE if wrong.fitted], ids=lambda wrong: wrong.name)
def test_a_fitted_model_refuses(wrong, tmp_path):
    assert fault_of(wrong, tmp_path) == ""


def _raises(error):
    def call(_):
        raise error

    return call


def _warns(_):
    warnings.warn("listen", stacklevel=1)
    raise ValueError("x must be a number")


@pytest.mark.parametrize(
    ("call", "fault"),
    [
        (lambda _: 5, "taken without a word"),
        (_raises(IndexError("x must be")), "no ValueError or TypeError"),
        (_raises(ValueError("x must be\nso")), "more than a line"),
        (_raises(ValueError("x must be" * 100)), "more than a line"),
        (_raises(ValueError("y must be")), "not 'x must be'"),
        (_raises(TypeError("x must be: 'int' object has no attribute 'shape'")), "has no attribute"),
        (_warns, "it warned: listen"),
        (lambda _: Trainer.fit(None), "training began"),
    ],
)
def test_every_bad_answer_counts(call, fault, tmp_path):
    assert fault in fault_of(Wrong("planted", "x must be", call), tmp_path)


def test_a_good_answer_does_not_count(tmp_path):
    assert fault_of(Wrong("planted", "x must be", _raises(ValueError("x must be 5"))), tmp_path) == ""
