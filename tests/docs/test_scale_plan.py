"""benchmarks/speed/scale_plan.py: the simulation of a cluster against what can be computed by hand."""

import math

import numpy as np
import pytest

from benchmarks.speed import scale_plan

plan = scale_plan
CALM = plan.ASSUMED | {"spread": 0.0, "slow_share": 0.0, "hours_between_losses": 1e12}


def took(files, cores, seconds, start=0.0, seed=0, **assumed):
    return plan.simulate(files, cores, seconds, start, CALM | assumed, np.random.default_rng(seed))


@pytest.mark.parametrize(("files", "cores"), [(10, 1), (100, 8), (1000, 64), (1000, 512), (3, 8)])
def test_a_calm_cluster_takes_so_many_rounds(files, cores):
    assert took(files, cores, 7.0, start=3.0) == pytest.approx(3.0 + 7.0 * math.ceil(files / cores))


def test_slow_files_hold_up_the_end():
    times = [took(64, 64, 10.0, seed=seed, slow_share=0.5, slow_factor=3) for seed in range(5)]
    assert times == [30.0] * 5  # of 64 files at once some are slow


class Fated:
    """Losses at given times."""

    def __init__(self, *lives):
        self.lives = list(lives)

    def exponential(self, mean):
        return self.lives.pop(0)

    def random(self):
        return 0.5


def test_a_lost_machine_costs_what_it_was_doing_and_the_wait_for_another():
    life = {"seconds_until_replaced": 50, "seconds_until_noticed": 5}
    alone = plan.simulate(20, 1, 10.0, 3.0, CALM | life, Fated(47.0, 1e9))
    assert alone == pytest.approx(47 + 50 + 3 + 16 * 10)  # four files were done, and 4 s of the fifth
    two = CALM | life | {"cores_of_a_machine": 1}
    together = plan.simulate(8, 2, 10.0, 0.0, two, Fated(15.0, 1e9, 1e9, 1e9))
    # one does a file, is lost at 15, back at 65; the other goes on, hears of the lost file at 20: 7 files by 70
    assert together == pytest.approx(70.0)


def test_losses_make_it_longer_never_shorter():
    calm = took(400, 16, 60.0)
    rough = [took(400, 16, 60.0, seed=seed, hours_between_losses=0.5) for seed in range(20)]
    assert min(rough) >= calm
    assert max(rough) > calm


def test_times_are_shown_in_the_unit_that_suits_them():
    assert [plan.span(seconds) for seconds in (59, 600, 7200, 300_000)] == ["59 s", "10.0 min", "2.0 h", "3.5 d"]
