"""What a worker does: one job, several cells; a job that breaks says so instead of breaking the run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from adacsl.experiments.cells import Cell, CellResult
from adacsl.experiments.documents import StoreError
from adacsl.experiments.provenance import now, stamped
from adacsl.experiments.store import Failure, Store


@dataclass
class Job:
    """Cells that one training serves; in a run, those it still owes, and how often it has broken."""

    cells: tuple[Cell, ...]
    payload: Any = None  # small; the data travel as ``shared``
    errors: int = 0  # it raised, or its worker died
    losses: int = 0  # its machine went away, which says nothing about the job
    failure: Failure | None = None  # of the present attempt


@dataclass(frozen=True)
class Report:
    """What a pool has to say about a job."""

    job: Job
    saved: dict[Cell, dict[str, float]] = field(default_factory=dict)  # cells now in the store, with their metrics
    failure: Failure | None = None
    over: bool = True  # nothing more will come
    lost: bool = False  # the machine went away


def outcomes(
    work: Callable[..., Iterator[CellResult]],
    shared: Any,
    payload: Any,
    cells: tuple[Cell, ...],
    *,
    save: Callable[[CellResult], object] | None = None,
) -> Iterator[CellResult | Failure]:
    """Do a job: yield its results, saved, as they come, and at the end a failure if there was one.

    ``work(shared, payload, cells)`` yields the result of each of these cells, in any order. Only a StoreError is
    raised: a full disk is not the job's fault and ends the run.
    """
    started, owed = now(), set(cells)
    try:
        for plain in work(shared, payload, cells):
            if plain.cell not in cells:
                raise RuntimeError(f"the work yielded a result it was not asked for: {plain.cell}")
            result = stamped(plain, started=started)
            if save is not None:
                save(result)
            owed.discard(result.cell)
            yield result
        if owed:
            raise RuntimeError(f"the work ended without a result for {len(owed)} of its cells, such as {min(owed)}")
    except StoreError:
        raise
    except (Exception, SystemExit) as error:
        yield Failure.of(error)


class Pool:
    """Where jobs run: here, one after another, unless a subclass has other places.

    Parameters
    ----------
    work : callable
        ``work(shared, payload, cells)`` yields the result of each of these cells.
    shared : object
        The data, for all jobs.
    store : Store
        Where results go.
    """

    def __init__(self, work: Callable[..., Iterator[CellResult]], shared: Any, store: Store) -> None:
        self._work, self._shared, self._store = work, shared, store
        self._waiting: list[Job] = []

    def has_room(self) -> bool:
        """Tell whether one more job is welcome."""
        return not self._waiting

    def submit(self, job: Job) -> None:
        """Take a job."""
        self._waiting.append(job)

    def wait(self, seconds: float | None = None) -> Iterator[Report]:
        """Wait until something has happened, and tell it; after so many seconds that may be nothing.

        Here the job is done, however long it takes, and each cell is told at once.
        """
        job, failure = self._waiting.pop(), None
        for outcome in outcomes(self._work, self._shared, job.payload, job.cells, save=self._store.write):
            if isinstance(outcome, Failure):
                failure = outcome
            else:
                yield Report(job, {outcome.cell: outcome.metrics}, over=False)
        yield Report(job, failure=failure)

    def close(self, *, kill: bool) -> None:
        """End the workers, if there are any; ``kill`` does not wait for what they do."""
