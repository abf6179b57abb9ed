"""Which label has which class index: one rule."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adacsl.base.labels import (
    customary_positive,
    encode_labels,
    find_class,
    find_classes,
    find_named,
    order_classes,
    plain_labels,
    same_label,
)


def test_text_matches_numbers_only_by_value():
    assert same_label("10", "1e1")
    assert not same_label("10", "1")
    assert not same_label("nan", float("inf"))
    assert not same_label("yes", 1)


@given(st.lists(st.one_of(st.text("01 ae.", max_size=3), st.integers(-2, 2), st.booleans()), max_size=6), st.data())
def test_a_label_is_found_by_its_spelling_and_then_by_its_number(classes, data):
    label = data.draw(st.sampled_from(classes)) if classes else 1
    result = find_class(classes, label)
    names = [str(known).strip() for known in classes]
    if str(label).strip() in names:
        assert result == names.index(str(label).strip())
    else:
        alike = [i for i, name in enumerate(names) if same_label(name, label)]
        assert result == (alike[0] if len(alike) == 1 else None)
    assert find_classes(classes, [label, "other"]) == [result, None]


@pytest.mark.parametrize(
    ("classes", "labels"),
    [(("0", "1"), [0, 1]), (("-1", "1"), [-1, 1]), (("no", "1"), ["no", "1"]), (("01", "2"), ["01", "2"])],
)
def test_plain_labels(classes, labels):
    assert plain_labels(classes) == labels


@pytest.mark.parametrize(
    ("labels", "pos_label"),
    [
        ([0, 1], 1),
        ([0.0, 1.0], 1.0),
        ([-1, 1], 1),
        ([True, False], True),
        (["0", "1"], "1"),
        (["true", "false"], "true"),
    ],
)
def test_custom(labels, pos_label):
    assert customary_positive(labels) == pos_label
    assert order_classes(labels).labels[1] == pos_label


@pytest.mark.parametrize("labels", [[1, 2], ["no", "yes"], [0, 2], [-1, 0]])
def test_labels_without_a_customary_positive_class(labels):
    assert customary_positive(labels) is None
    with pytest.raises(ValueError, match=r"the positive class of y is not given \(.*\): .* cost fn: .* or "):
        order_classes(labels)
    if isinstance(labels[0], str):  # text is never guessed
        for text in (np.array(labels), np.array(labels, dtype=object), np.array(labels, dtype="S")):
            with pytest.raises(ValueError, match=r"the positive class of y is not given .*cost fn: .* or "):
                encode_labels(text)


def test_labels_become_0_and_1():
    result = encode_labels(np.array([5, 3, 5]), 3)
    assert (result.numbers.tolist(), result.classes.tolist(), result.pos_label) == ([0, 1, 0], [3, 5], 3)
    result = encode_labels(np.array([1, -1, 1]))
    assert (result.numbers.tolist(), result.classes.tolist(), result.pos_label) == ([1, 0, 1], [-1, 1], 1)
    with pytest.warns(UserWarning, match="pos_label is not given: the positive class is .*7.*pass pos_label") as caught:
        assert encode_labels(np.array([3, 7])).pos_label == 7
    assert caught[0].filename == __file__


@pytest.mark.parametrize(
    ("y", "pos_label", "message"),
    [
        ([0, 1, 2], 1, "pos_label=1 is for two classes, but y has 3: omit it"),
        ([0, 0], None, "Tree needs two classes, but y holds one class only"),
        ([0, 1], "yes", r"y has no class 'yes' \(it has 0, 1\); if these are positions of sorted labels, pass "),
        ([0, 2], "yes", r"y has no class 'yes' \(it has 0, 2\)$"),
    ],
)
def test_wrong_labels(y, pos_label, message):
    with pytest.raises(ValueError, match=message):
        encode_labels(np.array(y), pos_label, who="Tree")


NAMES = st.lists(st.text("abcd", min_size=1, max_size=3), min_size=2, max_size=5, unique=True)


@given(NAMES, st.randoms())
def test_costs_may_name_the_classes_in_any_order(names, random):
    """Names of labels are matched, whatever their order; two of them also decide which class is positive."""
    listed, labels = random.sample(names, len(names)), sorted(names)
    order = order_classes(labels, names=listed)
    assert order.labels == order.names
    assert set(order.labels) == set(names)
    assert order.labels == (tuple(listed) if len(names) == 2 else tuple(labels))


@given(NAMES, st.randoms())
def test_numbers_are_positions_in_the_sorted_names_or_an_error(names, random):
    listed, numbers = random.sample(names, len(names)), list(range(len(names)))
    if listed == sorted(names):
        order = order_classes(numbers, names=listed)
        assert [sorted(names)[label] for label in order.labels] == list(order.names)
        assert find_named(listed, numbers[1:]) == numbers[1:]
        return
    for asked in (lambda: order_classes(numbers, names=listed), lambda: find_named(listed, numbers[:1])):
        with pytest.raises(ValueError, match="order is not known"):
            asked()


@pytest.mark.parametrize("pos_label", [0, 1, "0", True])
def test_pos_label_decides_which_number_is_the_second_of_two_unsorted_names(pos_label):
    order = order_classes([0, 1], pos_label, ["good", "bad"])
    assert order.labels[1] == int(pos_label)
    assert order.names == ("good", "bad")
    with pytest.raises(ValueError, match="or pass 0 or 1 as pos_label"):
        order_classes([0, 1], "bad", ["good", "bad"])


def test_the_positive_class_may_be_named_by_the_costs():
    assert order_classes([0, 1], "bad", ["bad", "good"]) == ((1, 0), ("good", "bad"))
    assert order_classes([0, 1], 0, ["bad", "good"]) == ((1, 0), ("good", "bad"))
    assert order_classes([0, 1], None, ["bad", "good"]) == ((0, 1), ("bad", "good"))
    assert order_classes([0, 1], None, ["1", "0"]) == ((1, 0), (1, 0))  # the labels themselves
