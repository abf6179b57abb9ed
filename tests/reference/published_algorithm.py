"""The paper's per-threshold search and lambda update, written again: slow, obvious, and independent of adacsl.

Ten bins of equal width; each looks for its cheapest threshold on its own interval of a grid in steps of 0.005, one
threshold after the other, and keeps the first (lowest) of equally cheap ones (Algorithm 1, eq. 7 and 8).
"""

import math

import numpy as np


def total_cost(scores, labels, threshold, fp, fn):
    """What deciding ``score > threshold`` costs."""
    decisions = scores > threshold
    false_positives = np.sum(decisions & (labels == 0))
    false_negatives = np.sum(~decisions & (labels == 1))
    return float(fp * false_positives + fn * false_negatives)


def cheapest_on_grid(scores, labels, grid, fp, fn):
    """Return the first threshold of the grid with the least cost."""
    best_threshold, best_cost = None, math.inf
    for threshold in grid:
        cost = total_cost(scores, labels, threshold, fp, fn)
        if cost < best_cost:
            best_threshold, best_cost = threshold, cost
    return best_threshold


def bin_members(scores, number, bins=10):
    """Return the mask of bin ``number`` (from 0): ``[number / bins, (number + 1) / bins)``, the last one closed."""
    low, high = number / bins, (number + 1) / bins
    if number == bins - 1:
        return (scores >= low) & (scores <= high)
    return (scores >= low) & (scores < high)


def bin_thresholds(scores, labels, fp, fn, bins=10, steps=200):
    """Return (threshold, size) of each bin that is not empty."""
    result = []
    for number in range(bins):
        members = bin_members(scores, number, bins)
        if not members.any():
            continue
        grid = [k / steps for k in range(steps + 1) if number / bins <= k / steps <= (number + 1) / bins]
        threshold = cheapest_on_grid(scores[members], labels[members], grid, fp, fn)
        result.append((threshold, int(members.sum())))
    return result


def lambda_psi(scores, labels, fp, fn, target_threshold=0.5):
    """Return the factor of one adaptation (eq. 8)."""
    total = 0.0
    for threshold, size in bin_thresholds(scores, labels, fp, fn):
        total += size * math.exp(-(target_threshold - threshold) / (target_threshold * (1 - target_threshold)))
    return total / len(scores)


def lambda_whole(scores, labels, fp, fn, target_threshold=0.5):
    """Return the factor with one threshold for the whole set, on the grid 0, 0.005, ..., 0.9."""
    threshold = cheapest_on_grid(scores, labels, [k / 200 for k in range(181)], fp, fn)
    return math.exp(-(target_threshold - threshold) / (target_threshold * (1 - target_threshold)))
