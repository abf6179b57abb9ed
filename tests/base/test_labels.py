"""Which class is positive: one rule."""

import numpy as np
import pytest

from adacsl.base.labels import choose_positive, customary_positive, encode_labels, plain_labels, same_label


def test_text_matches_numbers_only_by_value():
    assert same_label("10", "1e1")
    assert not same_label("10", "1")
    assert not same_label("nan", float("inf"))
    assert not same_label("yes", 1)


@pytest.mark.parametrize(
    ("classes", "labels"),
    [(("0", "1"), [0, 1]), (("-1", "1"), [-1, 1]), (("no", "1"), ["no", "1"]), (("01", "2"), ["01", "2"])],
)
def test_plain_labels(classes, labels):
    assert plain_labels(classes) == labels


@pytest.mark.parametrize(
    ("labels", "positive"),
    [
        ([0, 1], 1),
        ([0.0, 1.0], 1.0),
        ([-1, 1], 1),
        ([True, False], True),
        (["0", "1"], "1"),
        (["true", "false"], "true"),
    ],
)
def test_custom(labels, positive):
    assert customary_positive(labels) == positive
    assert choose_positive(labels) == positive


@pytest.mark.parametrize("labels", [[1, 2], ["no", "yes"], [0, 2], [0, 1, 2], [-1, 0]])
def test_custom_says_nothing(labels):
    assert customary_positive(labels) is None
    with pytest.raises(ValueError, match=r"which of the classes .* is positive\? Name the one .* as positive"):
        choose_positive(labels)


def test_labels_become_0_and_1():
    y, classes, positive = encode_labels(np.array([5, 3, 5]), 3)
    assert (y.tolist(), classes.tolist(), positive) == ([0, 1, 0], [3, 5], 3)
    y, classes, positive = encode_labels(np.array([1, -1, 1]))
    assert (y.tolist(), classes.tolist(), positive) == ([1, 0, 1], [-1, 1], 1)
    with pytest.warns(UserWarning, match="was not named: taking .*7.*name it as positive") as told:
        assert encode_labels(np.array([3, 7]))[2] == 7
    assert told[0].filename == __file__


@pytest.mark.parametrize(
    "labels", [np.array(["no", "yes"]), np.array(["no", "yes"], dtype=object), np.array([b"n", b"y"])]
)
def test_the_positive_class_of_text_is_not_guessed(labels):
    with pytest.raises(ValueError, match=r"which of the classes .* is positive\? .* as positive: .* or "):
        encode_labels(labels)


@pytest.mark.parametrize(
    ("y", "positive", "message"),
    [
        ([0, 1, 2], 1, "positive 1 is for two classes, y has 3: leave it out"),
        ([0, 0], None, "Tree needs two classes, but y holds one class only"),
        ([0, 1], "yes", r"positive 'yes' is no label of y; the labels are \[0, 1\]"),
    ],
)
def test_wrong_labels(y, positive, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(np.array(y), positive, who="Tree")
