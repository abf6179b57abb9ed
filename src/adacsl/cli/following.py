"""What follows a comparison: the method to take, fitted on all rows and saved, or the command that does it."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from adacsl.cli.options import ALL, ANY, FREE, NEVER, Checking, Prices, Source, Times, as_words
from adacsl.cli.screen import Answer, Screen
from adacsl.experiments.ratios import mean_ratio, scale_misses

if TYPE_CHECKING:
    from adacsl.datasets.task import Task
    from adacsl.experiments.comparison import Comparison


@dataclass(frozen=True)
class Training:
    """What `adacsl train` is to be told, but for the folder of the model."""

    data: str | None
    source: Source = ANY
    prices: Prices = FREE
    times: Times = NEVER
    checking: Checking = ALL
    method: str = ""
    nets: Mapping[str, Any] = field(default_factory=dict)
    """What was said about nets, by the name of the option."""

    def command(self, out: str = "model/") -> str:
        """Return the command to type."""
        said = [word for part in (self.source, self.times, self.prices, self.checking) for word in as_words(part)]
        for name, value in self.nets.items():
            said += [f"--{name}"] if value is True else [f"--{name}", str(value)]
        return shlex.join(["adacsl", "train", *self._data, *said, "--method", self.method, "--out", out])

    def run(self, out: Path, screen: Screen) -> Answer:
        """Fit the method on all rows and save it."""
        from adacsl.cli.commands.train import train  # noqa: PLC0415  as slow as the command itself

        silent = replace(screen, quiet=True)  # the comparison has said all there is to note
        about = {"source": self.source, "prices": self.prices, "times": self.times, "checking": self.checking}
        return train(self.data, out=out, method=self.method, screen=silent, **about, **self.nets)  # type: ignore[arg-type]

    def predicting(self, model: Path) -> str:
        """Return the command that decides about rows with the saved model."""
        where = [] if self.source.folder is None else ["--folder", str(self.source.folder)]
        where += as_words(self.source.files)
        return shlex.join(["adacsl", "predict", str(model), *self._data, *where, "--out", "decisions.csv"])

    @property
    def _data(self) -> list[str]:
        return [] if self.data is None else [self.data]


def training_of(found: Comparison, task: Task, said: Training, origins: Mapping[str, str]) -> Training | None:
    """Return how to train the method to take on all rows; None where it cannot be said on the command line.

    ``said`` is what was said about the data and about nets, ``origins`` are the words of methods of one's own.
    """
    from adacsl.estimators.methods import METHODS, is_portfolio, method, needs_net  # noqa: PLC0415  scikit-learn

    own = mean_ratio(task.costs)
    verdicts = {ratio: verdict for (name, ratio), verdict in found.verdicts.items() if name == task.name}
    ratio = next((r for r in verdicts if math.isclose(r, own, rel_tol=1e-5)), next(iter(verdicts), own))
    verdict = verdicts.get(ratio)
    name = None if verdict is None else verdict.recommended
    costs = scale_misses(task.costs, ratio / own)
    if name is None or name not in {*METHODS, *origins} or (costs is not task.costs and costs.n_instances is not None):
        return None  # prices of each row, made dearer
    if costs is not task.costs:
        said = replace(said, prices=Prices(costs.fn, costs.fp, costs.tp or None, costs.tn or None))
    made = found.methods[name] if name in origins else method(name)
    nets = said.nets if needs_net(made) or is_portfolio(made) else {}
    return replace(said, method=origins.get(name, name), nets=nets)
