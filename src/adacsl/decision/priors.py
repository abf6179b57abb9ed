"""Prior shift: probabilities moved to another class prior, and estimates of that prior."""

from __future__ import annotations

import math
from typing import Any

from array_api_compat import array_namespace, device

from adacsl.base import arrays
from adacsl.base.arrays import Array

__all__ = ["as_prior", "estimate_prior", "shift_prior"]


def shift_prior(probabilities: Array, old: Any, new: Any) -> Array:
    r"""Return the probabilities that hold under another class prior than in training.

    Parameters
    ----------
    probabilities : array of shape (n,) or (n, K)
        Of the positive class, or of every class; calibrated for the prior ``old``.
    old : float or sequence of K numbers
        The share of the positive class, or of every class, in training.
    new : float or sequence of K numbers
        The same where the model is used. A class may have died out (a share of 0).

    Returns
    -------
    array of shape (n,) or (n, K)
        Probabilities.

    Raises
    ------
    ValueError
        Where shares are no shares, or a class has none in training.

    See Also
    --------
    estimate_prior : The new prior from samples without labels.

    Notes
    -----
    Rows of one class are assumed to look as before; only how many there are of each has changed. Then

    .. math:: P'(j \mid x) \propto P(j \mid x) \, \frac{\pi'_j}{\pi_j}

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.decision import shift_prior
    >>> shift_prior(np.asarray([0.1, 0.5, 0.9]), 0.5, 0.1).round(4).tolist()
    [0.0122, 0.1, 0.5]
    """
    columns, binary = _columns(probabilities)
    xp = array_namespace(columns)
    before, after = (as_prior(shares, columns, name) for shares, name in ((old, "old"), (new, "new")))
    _check_possible(before, columns)
    ratios = after / xp.where(before > 0, before, 1.0)
    moved = columns * (ratios / xp.max(ratios))
    sums = xp.sum(moved, axis=1, keepdims=True)
    # of a row whose only classes have died out nothing is left: it stays as it was
    moved = xp.where(sums > 0, moved / xp.where(sums > 0, sums, 1.0), columns)
    return moved[:, 1] if binary else moved


def estimate_prior(
    probabilities: Array,
    old: Any,
    *,
    sample_weight: Array | None = None,
    tolerance: float = 1e-10,
    rounds: int = 1000,
) -> Any:
    r"""Return the class prior of samples without labels, estimated from a model's probabilities.

    It maximises the likelihood, by expectation maximisation (Saerens, Latinne and Decaestecker 2002), two steps of
    which are extrapolated (Varadhan and Roland 2008), because plain steps get short where classes overlap.

    Parameters
    ----------
    probabilities : array of shape (n,) or (n, K)
        Of the positive class, or of every class; calibrated for the prior ``old``.
    old : float or sequence of K numbers
        The shares in training.
    sample_weight : array of shape (n,), optional
        How much each sample counts.
    tolerance : float, default 1e-10
        Steps that change no share by more are the last ones.
    rounds : int, default 1000
        The largest number of steps.

    Returns
    -------
    float or array of shape (K,)
        The share of the positive class, or of each.

    Raises
    ------
    ValueError
        Where shares are no shares, or a setting is out of range.

    See Also
    --------
    shift_prior : Probabilities under the new prior.

    Notes
    -----
    With :math:`\pi` the shares in training, the likelihood of the shares :math:`q` is concave:

    .. math:: \sum_n w_n \log \sum_j P(j \mid x_n) \, q_j / \pi_j

    Examples
    --------
    >>> import numpy as np
    >>> from adacsl.decision import estimate_prior
    >>> round(estimate_prior(np.asarray([0.02, 0.02, 0.02, 0.98]), 0.5), 6)
    0.239583
    """
    columns, binary = _columns(probabilities)
    arrays.check_whole("rounds", rounds)
    if not tolerance > 0:
        raise ValueError(f"tolerance must be above 0, got {tolerance!r}")
    before = as_prior(old, columns, "old")
    _check_possible(before, columns)
    result = _climb(*_ratios(columns, before, sample_weight), before, tolerance, rounds)
    return float(result[1]) if binary else result


def as_prior(shares: Any, like: Array, name: str = "prior") -> Array:
    """Return a class prior as an array like ``like`` (n, K): one number is the share of the second of two."""
    k = like.shape[1]
    xp = array_namespace(like)
    if isinstance(shares, int | float) and not isinstance(shares, bool):
        if k != 2:
            raise ValueError(f"{name} must be the shares of all {k} classes, got one number, {shares!r}")
        if not 0 < shares < 1:
            raise ValueError(f"{name} must be a share between 0 and 1, got {shares!r}")
        return xp.asarray([1.0 - shares, shares], dtype=like.dtype, device=device(like))
    result = arrays.move(arrays.widest(arrays.as_vector(shares, name)), like)
    arrays.check_finite(result, name)
    if result.shape[0] != k:
        raise ValueError(f"{name} must be the shares of {k} classes, got {result.shape[0]}")
    total = float(xp.sum(result))
    if float(xp.min(result)) < 0 or abs(total - 1.0) > 1e-3:
        raise ValueError(f"{name} must be shares that sum to 1, got {arrays.as_host(result).tolist()}")
    return xp.astype(result / total, like.dtype, copy=False)


def _columns(probabilities: Array) -> tuple[Array, bool]:
    """Return probabilities as one column for each class, and whether they came as those of the positive one."""
    array = arrays.as_array(probabilities, "probabilities")
    array = arrays.widest(arrays.as_probabilities(array, array.shape[1] if array.ndim == 2 else 2))
    if array.ndim == 2:
        return array, False
    return array_namespace(array).stack([1.0 - array, array], axis=1), True


def _check_possible(before: Array, columns: Array) -> None:
    """Raise where a class that training never saw is in the new prior: its shift is unknown."""
    xp = array_namespace(columns)
    if bool(xp.any((before == 0) & (xp.max(columns, axis=0) > 0))):
        raise ValueError(
            "a class has no share in training (old), but probabilities above 0: give training shares above 0"
        )


def _ratios(columns: Array, before: Array, sample_weight: Array | None) -> tuple[Array, Array]:
    """Return how much likelier each class makes each sample, and the weights of the samples, which sum to 1."""
    xp = array_namespace(columns)
    weight = arrays.as_weights(sample_weight, columns[:, 0])
    weight = xp.ones_like(columns[:, 0]) if weight is None else weight
    return columns / xp.where(before > 0, before, 1.0), weight / xp.sum(weight)


def _climb(ratios: Array, weight: Array, prior: Array, tolerance: float, rounds: int) -> Array:
    """Return the likeliest shares, from ``prior`` upwards: no round makes them less likely."""
    xp = array_namespace(ratios)
    tolerance = max(tolerance, 4 * float(xp.finfo(ratios.dtype).eps))
    for _ in range(rounds):
        once, value = _step(ratios, weight, prior)
        change = once - prior
        if float(xp.max(xp.abs(change))) <= tolerance:
            return once
        twice, _ = _step(ratios, weight, once)
        bend = twice - once - change
        length = math.sqrt(float(xp.sum(change**2)) / max(float(xp.sum(bend**2)), 1e-300))
        leap = prior + 2 * length * change + length**2 * bend
        prior = twice
        if length > 1 and float(xp.min(leap)) >= 0:
            further, leapt = _step(ratios, weight, leap / xp.sum(leap))
            prior = further if leapt >= value else twice
    return prior


def _step(ratios: Array, weight: Array, prior: Array) -> tuple[Array, float]:
    """Return the mean probabilities of the classes under ``prior``, the next shares, and how likely ``prior`` is."""
    xp = array_namespace(ratios)
    likely = xp.clip(ratios @ prior, min=float(xp.finfo(ratios.dtype).smallest_normal))
    result = prior * (ratios.T @ (weight / likely))
    return result / xp.sum(result), float(xp.sum(weight * xp.log(likely)))
