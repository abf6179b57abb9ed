"""Logits collected in batches: each value at its row, member and class."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from adacsl.neural.loop import gather_logits, spread_out


@given(seed=st.integers(0, 99), n=st.integers(2, 20), members=st.integers(1, 4), classes=st.sampled_from([0, 3, 5]))
def test_every_value_is_at_its_place(seed, n, members, classes):
    generator = torch.Generator().manual_seed(seed)
    seen = int(torch.randint(1, n + 1, (1,), generator=generator))
    rows = torch.stack([torch.randperm(n, generator=generator)[:seen] for _ in range(members)], dim=1)
    values = torch.randn((seen, members, classes) if classes else (seen, members), generator=generator)
    cut = seen // 2
    result = gather_logits([(rows[:cut], values[:cut]), (rows[cut:], values[cut:])], n, 0, alone=True)
    assert torch.equal(result, spread_out(rows, values, n))
    for member in range(members):
        own = rows[:, member]
        assert torch.equal(result[own, member], values[:, member])
        others = torch.ones(n, dtype=torch.bool).index_fill(0, own, False)
        assert not result[others, member].any()


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_values_that_are_not_finite_are_refused(value):
    rows = torch.arange(3)[:, None]
    with pytest.raises(FloatingPointError, match="NaN or infinite in epoch 4"):
        gather_logits([(rows, torch.tensor([[0.0], [value], [1.0]]))], 3, 4, alone=True)
