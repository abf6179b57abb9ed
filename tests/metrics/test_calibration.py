"""The expected calibration error: quantile bins; of K classes, of the likeliest."""

import numpy as np
import pytest

from adacsl.metrics.calibration import expected_calibration_error


def test_error_of_quantile_bins_by_hand():
    rng = np.random.default_rng(0)
    scores, labels = rng.random(3000), rng.integers(0, 2, 3000)
    order = np.argsort(scores)
    errors = [abs((scores[part] - labels[part]).sum()) for part in np.split(order, 15)]
    assert expected_calibration_error(scores, labels) == pytest.approx(sum(errors) / 3000)


def test_of_more_classes_the_likeliest_is_compared_with_how_often_it_is_true():
    rng = np.random.default_rng(1)
    scores, labels = rng.dirichlet(np.ones(3), 500), rng.integers(0, 3, 500)
    confidence, right = scores.max(axis=1), (scores.argmax(axis=1) == labels).astype(int)
    assert expected_calibration_error(scores, labels) == expected_calibration_error(confidence, right)
