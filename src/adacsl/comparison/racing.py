"""Racing: a method that costs significantly more after some folds is not run on the others."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

import numpy as np

from adacsl.comparison.fits import FitKey, Stopped
from adacsl.comparison.statistics import CONSTANTS, RowCosts, View, lowest_cost, paired_estimate, row_costs
from adacsl.comparison.store import ResultStore
from adacsl.costs.matrix import CostMatrix

ERROR = 0.01
"""Probability, at most, that racing stops a method of a data set and ratio whose expected cost is not higher."""
FIRST_LOOK = 2
"""Folds before the first look: one shows no variance between trainings."""
FEWEST = 4
"""Folds below which there is no racing by default: there would be one look, which saves at most a fold."""


class Race:
    """Decides after each fold which methods are not run on further folds, from results in a fixed order.

    Where all methods that still run have a result of a fold, they are compared on all folds so far: the one of lowest
    mean cost with each other one, paired. A method is stopped where it costs more and p, two-sided, is below
    :data:`ERROR`, divided by the number of looks and by the number of pairs of methods (Bonferroni): whichever method
    leads, and at whichever look. Constant baselines train nothing and are never stopped.

    A decision depends on the results of folds up to its own, and on no time: a run that was interrupted comes to the
    same ones.

    Parameters
    ----------
    store : ResultStore
        Results and splits.
    planned : iterable of FitKey
        The fits of the data sets that race, as if none was stopped.
    costs_of : function of data, ratio and the costs of a split
        Returns the costs of its samples at that ratio.
    plan : iterable of FitKey, optional
        All fits of the run, which its plan names. Default: those that race.
    """

    def __init__(
        self,
        store: ResultStore,
        planned: Iterable[FitKey],
        costs_of: Callable[[str, float, CostMatrix], CostMatrix],
        plan: Iterable[FitKey] | None = None,
    ) -> None:
        self._store, self._costs_of = store, costs_of
        own = list(planned)
        self._plan = frozenset(own if plan is None else plan)
        views: dict[View, list[FitKey]] = {}
        for fit in own:
            views.setdefault((fit.data, fit.ratio), []).append(fit)
        self._fields = [_Field(view, fits) for view, fits in sorted(views.items())]
        self.stopped: list[Stopped] = []

    def looks(self, done: Collection[FitKey], failed: Collection[FitKey]) -> Iterator[tuple[Stopped, list[FitKey]]]:
        """Yield the methods that are stopped now, each with the fits that are not run, or not used.

        Parameters
        ----------
        done : collection of FitKey
            Fits with a result.
        failed : collection of FitKey
            Fits that have failed for good; their methods take no part.
        """
        for field in self._fields:
            while (folds := field.next_look(done, failed)) is not None:
                methods = field.methods_at(folds, done)
                out = field.judge(self._costs(field.view, methods, folds)) if len(methods) > 1 else {}
                field.looked += 1
                for method, best in out.items():
                    stopped = Stopped(*field.view, method, folds, len(field.seeds), best)
                    field.running.remove(method)
                    self.stopped.append(stopped)
                    yield stopped, [fit for fit in field.fits if stopped.excludes(fit)]
                if out:
                    self._store.write_plan(self._plan, self.stopped)

    def _costs(self, view: View, methods: Sequence[str], seeds: Sequence[int]) -> RowCosts:
        fits = [FitKey(*view, method, seed) for method in methods for seed in seeds]
        splits = {(view[0], seed): self._store.read_split(view[0], seed) for seed in seeds}
        return row_costs({fit: self._store.read(fit) for fit in fits}, splits, self._costs_of)[view]


class _Field:
    """The methods of one data set and ratio."""

    def __init__(self, view: View, fits: Iterable[FitKey]) -> None:
        self.view, self.fits = view, sorted(fits)
        self.seeds = sorted({fit.seed for fit in self.fits})
        self.running = sorted({fit.method for fit in self.fits})
        self.looked = 0
        count = len(self.running)
        looks = max(1, len(self.seeds) - FIRST_LOOK)
        self.level = ERROR / (looks * max(1, count * (count - 1) // 2))

    def next_look(self, done: Collection[FitKey], failed: Collection[FitKey]) -> tuple[int, ...] | None:
        """Return the folds of the next look, None where some of their fits are owed, or no look is left."""
        count = self.looked + FIRST_LOOK
        if count >= len(self.seeds):
            return None
        folds = tuple(self.seeds[:count])
        owed = (FitKey(*self.view, method, seed) for method in self.running for seed in folds)
        return folds if all(fit in done or fit in failed for fit in owed) else None

    def methods_at(self, folds: Iterable[int], done: Collection[FitKey]) -> list[str]:
        """Return the methods that have results of all these folds."""
        own = tuple(folds)
        return [name for name in self.running if all(FitKey(*self.view, name, seed) in done for seed in own)]

    def judge(self, rows: RowCosts) -> dict[str, str]:
        """Return the methods that cost significantly more than the one of lowest cost, with its name."""
        best = lowest_cost(rows)
        others = (name for place, name in enumerate(rows.methods) if place != best and name not in CONSTANTS)
        return {name: rows.methods[best] for name in others if self._above(rows, rows.methods.index(name), best)}

    def _above(self, rows: RowCosts, place: int, best: int) -> bool:
        result = paired_estimate(rows, place, best)
        return bool(result.mean > 0 and np.isfinite(result.p) and result.p < self.level)


def in_racing_order(seeds: Mapping[str, Sequence[int]], data: str, seed: int) -> int:
    """Return the look that first needs a fold: 0 for those of the first look, then one after another."""
    return max(0, list(seeds[data]).index(seed) - FIRST_LOOK + 1)
