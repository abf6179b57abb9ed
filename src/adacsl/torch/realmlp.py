"""RealMLP: a strong multilayer perceptron for tables; many of them train as one batched computation.

After Holzmueller, Grinsztajn and Steinwart, "Better by Default", NeurIPS 2024, on the features of
:class:`~adacsl.datasets.encoder.TableEncoder`, which are scaled robustly and clipped smoothly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adacsl.base.arrays import check_whole
from adacsl.torch.tabular import MemberNet, drop, numeric_columns, product, seeded


class RealMLP(MemberNet):
    """M independent networks side by side, each with periodic embeddings of its numbers.

    A number x becomes x and ``embedding`` linear combinations of cos(2 pi w x + b), with ``frequencies`` learned w and
    b. Every feature then has a learned scale. The hidden layers are in neural tangent parametrisation (weights start
    standard normal, products are divided by the root of the number of inputs) and end in (1 - a) x + a selu(x) with a
    learned slope a for each unit. Biases and the output layer start at zero.

    No batch statistics are used anywhere: each member may be given rows of its own.

    Parameters
    ----------
    n_features : int
        Columns of the input.
    members : int, default 1
        The number of independent networks.
    numeric : sequence of int, optional
        Columns to embed: those that hold scaled numbers. Default: all.
    outputs : int, default 1
        Logits: 1 for two classes, K for K > 2.
    width : int, default 128
        Size of the hidden layers.
    depth : int, default 3
        Number of the hidden layers.
    dropout : float, default 0.25
        Share of hidden units dropped while training.
    frequencies : int, default 16
        Frequencies of each number.
    embedding : int, default 3
        Features that the frequencies of a number are combined to.
    sigma : float, default 0.1
        Standard deviation of the frequencies at the start.
    seeds : sequence of int, optional
        One seed per member, for its initial weights: a member starts the same alone and jointly with others.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.realmlp import RealMLP
    >>> net = RealMLP(4, members=3, numeric=[0, 1], seeds=[0, 1, 2])
    >>> net(torch.zeros(10, 4)).shape               # rows, members, 1
    torch.Size([10, 3, 1])
    >>> RealMLP(4, outputs=5)(torch.zeros(10, 4)).shape
    torch.Size([10, 1, 1, 5])
    """

    heads = 1

    def __init__(
        self,
        n_features: int,
        members: int = 1,
        *,
        numeric: Sequence[int] | None = None,
        outputs: int = 1,
        width: int = 128,
        depth: int = 3,
        dropout: float = 0.25,
        frequencies: int = 16,
        embedding: int = 3,
        sigma: float = 0.1,
        seeds: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        sizes = {"n_features": n_features, "members": members, "outputs": outputs, "width": width, "depth": depth}
        for name, size in (sizes | {"frequencies": frequencies, "embedding": embedding}).items():
            check_whole(name, size)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout!r}")
        if not 0.0 < sigma < math.inf:
            raise ValueError(f"sigma must be a number above 0, got {sigma!r}")
        generators = seeded(seeds, members)
        columns = numeric_columns(numeric, n_features)
        self.n_features, self.members, self.outputs, self.width, self.depth = n_features, members, outputs, width, depth
        self.dropout, self.frequencies, self.embedding, self.sigma = dropout, frequencies, embedding, sigma
        self.register_buffer("numeric", torch.tensor(columns, dtype=torch.int64))
        self.periodic = PeriodicEmbedding(len(columns), frequencies, embedding, sigma, generators) if columns else None
        inputs = n_features + len(columns) * embedding
        self.scale = nn.Parameter(torch.ones(members, 1, inputs))
        self.layers = nn.ModuleList(NTKLinear(width if i else inputs, width, generators) for i in range(depth))
        self.slopes = nn.ParameterList(torch.ones(members, 1, width) for _ in range(depth))
        self.output = NTKLinear(width, outputs, generators)
        nn.init.zeros_(self.output.weight)  # a random function would outlast few samples
        self.noise, self.rates = None, {"scale": 6.0}

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits.

        Parameters
        ----------
        x : Tensor of shape (rows, n_features), or (rows, members, n_features)
            The second gives each member rows of its own.

        Returns
        -------
        Tensor of shape (rows, members, 1), or (rows, members, 1, outputs)
            The second with several outputs.
        """
        # inside, members come first: (members, rows, units)
        hidden = x.unsqueeze(0) if x.ndim == 2 else x.transpose(0, 1)
        if self.periodic is not None:
            embedded = self.periodic(hidden.index_select(-1, self.numeric))
            hidden = torch.cat((hidden.expand(self.members, -1, -1), embedded), dim=-1)
        hidden = hidden * self.scale
        for number, (layer, slope) in enumerate(zip(self.layers, self.slopes, strict=True)):
            hidden = layer(hidden)
            activated = F.selu(hidden) if self.training else _selu(hidden)
            hidden = torch.lerp(hidden, activated, slope.to(hidden.dtype))  # the layers may compute in half precision
            if self.training and self.dropout > 0:
                hidden = drop(hidden, self.dropout, None if self.noise is None else self.noise[:, number, 0])
        logits: Tensor = self.output(hidden).transpose(0, 1)
        return logits if self.outputs == 1 else logits.unsqueeze(2)

    def noise_shape(self, passes: int, rows: int) -> tuple[int, ...]:
        """Return the shape of one member's random bytes.

        Parameters
        ----------
        passes : int
            The number of passes.
        rows : int
            Samples of each.

        Returns
        -------
        tuple of int
            Passes first, rows and units last.
        """
        return passes, self.depth, 1, rows, self.width

    def sizes(self) -> dict[str, Any]:
        """Return the parameters of the constructor, without members and seeds.

        Returns
        -------
        dict
            Names and values.
        """
        return {
            "n_features": self.n_features, "numeric": self.numeric.tolist(), "width": self.width, "depth": self.depth,
            "dropout": self.dropout, "frequencies": self.frequencies, "embedding": self.embedding, "sigma": self.sigma,
        } | ({} if self.outputs == 1 else {"outputs": self.outputs})  # fmt: skip

    def extra_repr(self) -> str:
        """Describe the sizes."""
        return f"n_features={self.n_features}, members={self.members}"


class PeriodicEmbedding(nn.Module):
    """Linear combinations of periodic functions of each number: (members or 1, rows, numbers) to as many per number."""

    def __init__(
        self, numbers: int, frequencies: int, outputs: int, sigma: float, generators: Sequence[torch.Generator]
    ) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(frequencies)
        self.frequency = nn.Parameter(sigma * _normal(generators, (numbers, 1, frequencies)))
        self.phase = nn.Parameter(_uniform(generators, (numbers, 1, frequencies), math.pi))
        self.weight = nn.Parameter(_uniform(generators, (numbers, frequencies, outputs), bound))

    def forward(self, x: Tensor) -> Tensor:
        """Map (members or 1, rows, numbers) to (members, rows, numbers * outputs)."""
        angles = torch.addcmul(self.phase, x.transpose(1, 2).unsqueeze(-1), self.frequency * (2.0 * math.pi))
        members, numbers = self.weight.shape[:2]
        mixed = product(torch.cos(angles).flatten(0, 1), self.weight.flatten(0, 1))
        return mixed.view(members, numbers, -1, self.weight.shape[3]).transpose(1, 2).flatten(2)


class NTKLinear(nn.Module):
    """A linear layer of every member in neural tangent parametrisation: x W / sqrt(inputs) + b."""

    def __init__(self, inputs: int, outputs: int, generators: Sequence[torch.Generator]) -> None:
        super().__init__()
        self.weight = nn.Parameter(_normal(generators, (inputs, outputs)))
        self.bias = nn.Parameter(torch.zeros(len(generators), 1, outputs))
        self.factor = 1.0 / math.sqrt(inputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map (members, rows, inputs) to (members, rows, outputs)."""
        return product(x, self.weight, self.bias, scale=self.factor)


def check_realmlp_sizes(
    sizes: Mapping[str, Any], state: Mapping[str, Tensor], *, members: int, n_features: int
) -> None:
    """Refuse sizes of a :class:`RealMLP` that are not those of its weights, before memory is taken for them."""
    last, numeric = state["output.weight"], state["numeric"].tolist()
    depth = sum(name.startswith("layers.") and name.endswith(".weight") for name in state)
    result: dict[str, Any] = dict(zip(("members", "width", "outputs"), last.shape, strict=True))
    result |= {"n_features": n_features, "depth": depth, "numeric": numeric}
    if numeric:
        result |= dict(zip(("frequencies", "embedding"), state["periodic.weight"].shape[2:], strict=True))
    given = {"outputs": 1} | {name: size for name, size in sizes.items() if name not in ("dropout", "sigma")}
    inputs = n_features + len(numeric) * int(result.get("embedding", 0))
    if given | {"members": members} != given | {"members": members} | result or state["scale"].shape[2] != inputs:
        raise ValueError("the sizes of the net are not those of its weights")


def _selu(x: Tensor) -> Tensor:
    """Return torch's selu, up to rounding that does not depend on a number's place.

    torch's own rounds otherwise in the last few numbers of a tensor, on a CPU, so that a member's bits would depend on
    how many stand beside it. Batches of a training are filled up to whole vectors.
    """
    scale, alpha = 1.0507009873554805, 1.6732632423543772
    return torch.where(x > 0, scale * x, (scale * alpha) * torch.expm1(x))


def _normal(generators: Sequence[torch.Generator], shape: tuple[int, ...]) -> Tensor:
    return torch.stack([torch.randn(shape, generator=generator) for generator in generators])


def _uniform(generators: Sequence[torch.Generator], shape: tuple[int, ...], bound: float) -> Tensor:
    return torch.stack([torch.empty(shape).uniform_(-bound, bound, generator=g) for g in generators])
