"""Batches of sample numbers: even, complete, each member's own, and divided among processes."""

import numpy as np
import pytest
import torch

from adacsl.neural.batches import MemberBatches, RowBatches, share_of_batch, side_by_side, smote_batch
from adacsl.neural.members import LANES, Member, batch_shape

NONE = np.empty(0, dtype=np.int64)


def batches_of(members, size, *, epoch=0, filled=False, block=3):
    result = MemberBatches(members, size, lambda: epoch, filled=filled, block=block)
    blocks = list(result)
    assert len(blocks) == len(result)
    return [rows for block in blocks for rows in block]


@pytest.mark.parametrize(("n", "size"), [(1, 8), (8, 8), (9, 8), (17, 8), (100, 33), (65, 64)])
def test_batches_are_even_and_complete(n, size):
    in_order = [rows for (rows,) in RowBatches(torch.arange(n)[:, None], size)]
    assert torch.equal(torch.cat(in_order)[:, 0], torch.arange(n))
    for batches in (in_order, batches_of([Member(np.arange(n), NONE)], size)):
        assert len(batches) == -(-n // size)
        assert sorted(torch.cat(batches)[:, 0].tolist()) == list(range(n))
        lengths = {len(batch) for batch in batches}
        assert max(lengths) <= size
        assert max(lengths) - min(lengths) <= 1


def test_jointly_every_member_has_its_own_samples_once():
    members = [Member(np.arange(0, 50), NONE, seed=1), Member(np.arange(100, 149), NONE, seed=2)]
    batches = batches_of(members, 8, filled=True)
    assert {batch.shape for batch in batches} == {(LANES, 2)}
    for column, member in enumerate(members):
        own = torch.cat(batches)[:, column]
        assert sorted(own[own >= 0].tolist()) == member.train.tolist()
        # and in the same batches as separately
        alone = batches_of([member], 8, filled=True)
        assert all(torch.equal(batch[:, column], other[:, 0]) for batch, other in zip(batches, alone, strict=True))
    assert batch_shape([50, 49], 8) == (7, LANES)


def test_the_order_depends_on_the_seed_and_the_epoch():
    def order(seed, epoch):
        return torch.cat(batches_of([Member(np.arange(50), NONE, seed=seed)], 8, epoch=epoch))

    assert torch.equal(order(1, 0), order(1, 0))
    assert not torch.equal(order(1, 0), order(2, 0))
    assert not torch.equal(order(1, 0), order(1, 1))
    assert not torch.equal(order(1, 1), order(2, 0))


def test_pools_give_both_classes_in_equal_numbers():
    pools = np.arange(40), np.arange(40, 50)
    member = Member(np.arange(50), NONE, pools=pools)
    drawn = [torch.cat(batches_of([member], 8, epoch=epoch))[:, 0] for epoch in range(2)]
    for rows in drawn:
        assert len(rows) == 50
        assert (rows >= 40).sum() == 25
        # none is taken a third time before all were taken twice
        counts = np.bincount(rows.numpy(), minlength=50)
        assert set(counts[40:]) == {2, 3}
        assert set(counts[:40]) == {0, 1}
    assert set(drawn[0].tolist()) != set(drawn[1].tolist())


def test_pools_of_three_classes_are_shared_out_evenly():
    pools = np.arange(40), np.arange(40, 48), np.arange(48, 50)
    rows = torch.cat(batches_of([Member(np.arange(50), NONE, pools=pools)], 8))[:, 0].numpy()
    assert [int(np.isin(rows, pool).sum()) for pool in pools] == [17, 17, 16]
    assert set(np.bincount(rows)[48:]) == {8}
    few = Member(np.arange(2), NONE, pools=pools)  # fewer rows than classes
    assert len(torch.cat(batches_of([few], 8))) == 2


def test_shorter_columns_start_again_from_their_top():
    assert side_by_side([np.asarray([5, 6, 7]), np.asarray([8])]).tolist() == [[5, 8], [6, 8], [7, 8]]


@pytest.mark.parametrize(("rows", "world"), [(10, 2), (11, 4), (3, 4), (1, 2)])
def test_shares_make_up_the_batch(monkeypatch, rows, world):
    batch = torch.arange(rows)
    assert share_of_batch(batch) == (batch, 1)
    monkeypatch.setattr(torch.distributed, "is_initialized", lambda: True)
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: world)
    shares = []
    for rank in range(world):
        monkeypatch.setattr(torch.distributed, "get_rank", lambda rank=rank: rank)
        shares.append(share_of_batch(batch))
    # the mean over the processes of (their sum * share) is the sum over the batch
    total = sum(float(part.sum()) * share for part, share in shares) / world
    assert total == pytest.approx(float(batch.sum()))
    assert all(len(part) > 0 for part, _ in shares)


@pytest.mark.parametrize(
    ("counts", "filled"), [([6, 3, 2, 1], [6, 6, 6, 1]), ([9, 3], [9, 9])]
)  # a class of one sample cannot be mixed
def test_smote_fills_up_every_rarer_class_with_mixtures(counts, filled):
    torch.manual_seed(0)
    x = torch.rand(12, 1, 2, 2)
    y = torch.arange(len(counts)).repeat_interleave(torch.tensor(counts))
    y = y.float() if len(counts) == 2 else y
    mixed, labels = smote_batch(x, y)
    assert torch.bincount(labels.long()).tolist() == filled
    assert torch.equal(mixed[:12], x)
    for label, count in enumerate(counts):
        own, made = x[y == label], mixed[12:][labels[12:] == label]
        assert len(made) == filled[label] - count
        assert ((made >= own.amin(0) - 1e-6) & (made <= own.amax(0) + 1e-6)).all()


@pytest.mark.parametrize("positives", [0, 1, 6])
def test_smote_returns_a_batch_with_nothing_to_mix_or_fill_up(positives):
    x = torch.rand(12, 1, 2, 2)
    assert smote_batch(x, (torch.arange(12) < positives).float())[0] is x
