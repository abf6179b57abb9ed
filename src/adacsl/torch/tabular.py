"""Networks for tables; many of them train as one batched computation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Any, Self, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from adacsl.base.arrays import check_whole
from adacsl.torch.samples import positive_logit

_Net = TypeVar("_Net", bound="MemberNet")


class MemberNet(nn.Module):
    """M independent networks for tables that run as one batched computation.

    Every parameter has the members in front, buffers are shared. A subclass sets ``members``, ``heads`` and ``depth``
    and has the methods :meth:`sizes` and :meth:`noise_shape`.

    Attributes
    ----------
    rates : dict of str to float
        What the learning rate of some parameters, by name, is multiplied by; of all others by 1.
    noise : Tensor or None
        Random bytes of the next pass, where dropout is to be the members' own.
    """

    numeric: Tensor
    noise: Tensor | None
    rates: Mapping[str, float]
    members: int
    dropout: float

    def sizes(self) -> dict[str, Any]:
        """Return the settings of the constructor, but for members and seeds."""
        raise NotImplementedError

    def noise_shape(self, passes: int, rows: int) -> tuple[int, ...]:
        """Return the shape of one member's random bytes: passes first, rows and units last."""
        raise NotImplementedError

    def draw_noise(self, generators: Sequence[torch.Generator], passes: int, rows: int) -> Tensor | None:
        """Return random bytes for the dropout of some passes, each member's from a generator of its own.

        The shape is (members, passes, layers, heads, rows, units); assign one pass to :attr:`noise` before it. None
        where nothing is dropped.
        """
        if self.dropout == 0:
            return None
        shape = self.noise_shape(passes, rows)
        return _random_bytes(generators, math.prod(shape), self.numeric.device).view(len(generators), *shape)

    def member(self, index: int) -> Self:
        """Return one member as a network of its own.

        Parameters
        ----------
        index : int
            Which one.

        Returns
        -------
        MemberNet
            With the same weights.
        """
        own = {name for name, _ in self.named_parameters()}
        state = {name: value[index] if name in own else value for name, value in self.state_dict().items()}
        return stack_members(self, [state]).to(self.numeric.device).train(self.training)


class TableNet(MemberNet):
    """M independent neural networks side by side: one matrix product per layer, whatever M is.

    Each member is a multilayer perceptron. With ``bins`` > 0 numbers are first spread over ramps (piecewise-linear
    encoding), so that a net can bend at many places along one feature, as trees do. With ``heads`` > 1 a member is an
    efficient ensemble in the manner of TabM: its heads share the weight matrices and differ in element-wise scales of
    each layer and in their output layer. Train every head on its own loss; average the heads to predict.

    No batch statistics are used anywhere: each member may be given rows of its own.

    Parameters
    ----------
    n_features : int
        Columns of the input.
    members : int, default 1
        The number of independent networks.
    numeric : sequence of int, optional
        Columns to spread over ramps: those that hold standard-normal-like numbers. Default: all.
    bins : int, default 0
        Ramps per number; their borders are the quantiles of the standard normal distribution. 0 takes numbers as they
        are.
    heads : int, default 1
        Heads per member.
    outputs : int, default 1
        Logits per head: 1 for two classes, K for K > 2.
    width : int, default 64
        Units of a hidden layer.
    depth : int, default 2
        The number of hidden layers.
    dropout : float, default 0.1
        Share of hidden units dropped while training.
    seeds : sequence of int, optional
        One seed per member, for its initial weights: a member starts the same alone and jointly with others.

    Raises
    ------
    ValueError
        Where a size is out of range.

    Examples
    --------
    >>> import torch
    >>> from adacsl.torch.tabular import TableNet
    >>> net = TableNet(4, members=3, seeds=[0, 1, 2])
    >>> net(torch.zeros(10, 4)).shape               # rows, members, heads
    torch.Size([10, 3, 1])
    >>> TableNet(4, outputs=5)(torch.zeros(10, 4)).shape
    torch.Size([10, 1, 1, 5])
    """

    borders: Tensor

    def __init__(
        self,
        n_features: int,
        members: int = 1,
        *,
        numeric: Sequence[int] | None = None,
        bins: int = 0,
        heads: int = 1,
        outputs: int = 1,
        width: int = 64,
        depth: int = 2,
        dropout: float = 0.1,
        seeds: Sequence[int] | None = None,
    ) -> None:
        super().__init__()
        sizes = {"n_features": n_features, "members": members, "heads": heads, "width": width, "depth": depth}
        sizes["outputs"] = outputs
        for name, size in sizes.items():
            check_whole(name, size)
        check_whole("bins", bins, 0)
        if not 0.0 <= dropout < 1.0:
            raise ValueError(f"dropout must be at least 0 and below 1, got {dropout!r}")
        generators = seeded(seeds, members)
        self.n_features, self.members, self.heads, self.outputs = n_features, members, heads, outputs
        self.bins, self.width, self.depth, self.dropout = bins, width, depth, dropout
        columns = numeric_columns(numeric, n_features)
        self.register_buffer("numeric", torch.tensor(columns, dtype=torch.int64))
        self.register_buffer("borders", _normal_borders(bins))
        inputs = n_features + len(columns) * bins
        self.layers = nn.ModuleList(
            MemberLinear(width if i else inputs, width, heads=heads, generators=generators, first=i == 0)
            for i in range(depth)
        )
        self.output = MemberOutput(width, outputs, heads=heads, generators=generators)
        self.noise, self.rates = None, {}

    def forward(self, x: Tensor) -> Tensor:
        """Return the logits.

        Parameters
        ----------
        x : Tensor of shape (rows, n_features) or (rows, members, n_features)
            The samples; with three axes each member has samples of its own.

        Returns
        -------
        Tensor of shape (rows, members, heads)
            Logits; with several outputs (rows, members, heads, outputs).
        """
        # inside, members come first and the heads' rows lie one after another: (members, heads * rows, units)
        hidden = self._spread(x.unsqueeze(0) if x.ndim == 2 else x.transpose(0, 1))
        for number, layer in enumerate(self.layers):
            hidden = F.relu(layer(hidden))
            if self.training and self.dropout > 0:
                hidden = drop(hidden, self.dropout, None if self.noise is None else self.noise[:, number])
        logits: Tensor = self.output(hidden)
        return logits

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
        return passes, self.depth, self.heads, rows, self.width

    def sizes(self) -> dict[str, Any]:
        """Return the parameters of the constructor, without members and seeds.

        Returns
        -------
        dict
            Names and values.
        """
        return {
            "n_features": self.n_features, "numeric": self.numeric.tolist(), "bins": self.bins, "heads": self.heads,
            "width": self.width, "depth": self.depth, "dropout": self.dropout,
        } | ({} if self.outputs == 1 else {"outputs": self.outputs})  # fmt: skip

    def extra_repr(self) -> str:
        """Describe the sizes."""
        return f"n_features={self.n_features}, members={self.members}, heads={self.heads}, bins={self.bins}"

    def _spread(self, x: Tensor) -> Tensor:
        """Append the ramps of the numbers: each rises from 0 to 1 between two borders."""
        if self.bins == 0 or len(self.numeric) == 0:
            return x
        numbers = x.index_select(-1, self.numeric).unsqueeze(-1)
        ramps = ((numbers - self.borders[:-1]) / (self.borders[1:] - self.borders[:-1])).clamp(0.0, 1.0)
        return torch.cat((x, ramps.flatten(-2)), dim=-1)


class MemberLinear(nn.Module):
    """A linear layer of every member; the heads of one member share its matrix."""

    def __init__(
        self, inputs: int, outputs: int, *, heads: int, generators: Sequence[torch.Generator], first: bool = False
    ) -> None:
        super().__init__()
        members, bound = len(generators), 1.0 / math.sqrt(inputs)
        self.heads, self.first = heads, first
        self.weight = _uniform(generators, (inputs, outputs), bound)
        self.bias = _uniform(generators, (heads, 1, outputs), bound)
        if heads > 1:
            # as in TabM: heads differ by random signs at the first layer only, and drift apart from there
            start = _signs(generators, (heads, 1, inputs)) if first else torch.ones(members, heads, 1, inputs)
            self.scale_in = nn.Parameter(start)
            self.scale_out = nn.Parameter(torch.ones(members, heads, 1, outputs))

    def forward(self, x: Tensor) -> Tensor:
        """Map (members or 1, rows, inputs), or (members, heads, rows, inputs) behind the first layer."""
        members = self.weight.shape[0]
        if self.heads == 1:
            return product(x.expand(members, -1, -1), self.weight, self.bias[:, 0])
        scaled = (x.unsqueeze(1) if self.first else x) * self.scale_in
        mapped = product(scaled.flatten(1, 2), self.weight)
        mapped = mapped.reshape(members, self.heads, -1, self.weight.shape[2])
        return torch.addcmul(self.bias, mapped, self.scale_out)


class MemberOutput(nn.Module):
    """The logits of each member and head, from weights of its own."""

    def __init__(self, inputs: int, outputs: int, *, heads: int, generators: Sequence[torch.Generator]) -> None:
        super().__init__()
        bound = 1.0 / math.sqrt(inputs)
        self.weight = _uniform(generators, (heads, inputs, outputs), bound)
        self.bias = _uniform(generators, (heads, 1, outputs), bound)

    def forward(self, x: Tensor) -> Tensor:
        """Map hidden units to logits of shape (rows, members, heads), or (rows, members, heads, outputs)."""
        several = self.weight.shape[3] > 1
        if x.ndim == 3:
            logits = product(x, self.weight[:, 0], self.bias[:, 0]).transpose(0, 1)
            return logits.unsqueeze(2) if several else logits
        logits = torch.matmul(x, self.weight) + self.bias
        return logits.permute(2, 0, 1, 3) if several else logits.squeeze(-1).permute(2, 0, 1)


def product(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, scale: float = 1.0) -> Tensor:
    """Return the matrix product of each member, with a bias ``scale`` times it plus the bias."""
    alone = x.shape[0] == 1 and x.device.type == "cpu"
    if alone:  # libraries take another way for a batch of one, which rounds differently: a member alone must not
        x, weight = x.expand(2, -1, -1), weight.expand(2, -1, -1)
        bias = None if bias is None else bias.expand(2, -1, -1)
    out = torch.bmm(x, weight) if bias is None else torch.baddbmm(bias, x, weight, alpha=scale)
    return out[:1] if alone else out


def seeded(seeds: Sequence[int] | None, members: int) -> list[torch.Generator]:
    """Return a generator for the initial weights of each member."""
    seeds = torch.randint(2**31, (members,)).tolist() if seeds is None else list(seeds)
    if len(seeds) != members:
        raise ValueError(f"seeds must be one per member: {members} members, {len(seeds)} seeds")
    return [torch.Generator().manual_seed(int(seed)) for seed in seeds]


def numeric_columns(numeric: Sequence[int] | None, n_features: int) -> list[int]:
    """Return the columns that hold numbers, in order; None stands for all."""
    columns = list(range(n_features)) if numeric is None else sorted(int(i) for i in numeric)
    if columns and not 0 <= columns[0] <= columns[-1] < n_features:
        raise ValueError(f"numeric must name columns 0 to {n_features - 1}, got {list(numeric or ())}")
    return columns


def stack_members(net: _Net, states: Sequence[dict[str, Tensor]]) -> _Net:
    """Return a net of the sizes of ``net`` from the parts of single members' states."""
    chosen = type(net)(**net.sizes(), members=len(states), seeds=list(range(len(states))))
    own = {name for name, _ in net.named_parameters()}
    chosen.load_state_dict({k: torch.stack([s[k] for s in states]) if k in own else v for k, v in states[0].items()})
    return chosen


def check_table_sizes(sizes: Mapping[str, Any], state: Mapping[str, Tensor], *, members: int, n_features: int) -> None:
    """Refuse sizes of a :class:`TableNet` that are not those of its weights, before memory is taken for them."""
    first, last, numeric = state["layers.0.weight"], state["output.weight"], state["numeric"].tolist()
    depth = sum(name.startswith("layers.") and name.endswith(".weight") for name in state)
    bins = max(len(state["borders"]) - 1, 0)
    result: dict[str, Any] = dict(zip(("members", "heads", "width", "outputs"), last.shape, strict=True))
    result |= {"n_features": first.shape[1] - bins * len(numeric), "depth": depth, "bins": bins, "numeric": numeric}
    said = {"outputs": 1} | {name: size for name, size in sizes.items() if name != "dropout"}
    if said | {"members": members} != result or result["n_features"] != n_features:
        raise ValueError("the sizes of the network are not those of its weights")


def member_logits(net: nn.Module, x: Tensor, n_classes: int | None = None) -> Tensor:
    """Return batch x members x heads (x classes, if more than two) from any net: ordinary ones have one of both.

    Raise where ``n_classes`` is given and the net's outputs are for another number of classes.

    Examples
    --------
    >>> [tuple(member_logits(nn.Linear(4, outputs), torch.zeros(9, 4)).shape) for outputs in (1, 2, 3)]
    [(9, 1, 1), (9, 1, 1), (9, 1, 1, 3)]
    """
    out: Tensor = net(x)
    if not isinstance(out, Tensor):
        raise TypeError(
            f"the network must return its logits as a tensor, got {type(out).__name__}: wrap it in a "
            f"module that returns "
            "the logits alone"
        )
    several = out.ndim == 2 and out.shape[1] > 2
    logits = out if out.ndim > 2 else (out if several else positive_logit(out))[:, None, None]
    if n_classes is not None and (logits.shape[3] if logits.ndim == 4 else 2) != n_classes:
        wanted = f"{n_classes} outputs" if n_classes > 2 else "one output, or two"
        raise ValueError(
            f"there are {n_classes} classes, so the last layer of the network must have {wanted}; "
            f"for {len(x)} rows it gave outputs of shape {tuple(out.shape)}"
        )
    return logits


def drop(x: Tensor, share: float, noise: Tensor | None) -> Tensor:
    """Zero a share of the units, a multiple of 1/256, and scale up the others."""
    if noise is None and (x.device.type != "cpu" or torch.compiler.is_compiling()):
        return F.dropout(x, share)
    # on a CPU torch draws one slow random number per unit: eight bits of a 64-bit draw do, and save a fifth of a step
    cut = min(max(round(256 * share), 1), 255)
    if noise is None:
        noise = _random_bytes([None], x.numel(), x.device)
    return x * ((noise >= cut).view(x.shape).to(x.dtype) * (256.0 / (256 - cut)))


def _random_bytes(generators: Sequence[torch.Generator | None], count: int, device: torch.device) -> Tensor:
    """Return so many bytes of each generator (None: torch's own); one draw of 64 bits makes eight."""
    draws = torch.empty((len(generators), math.ceil(count / 8)), dtype=torch.int64, device=device)
    for own, generator in zip(draws, generators, strict=True):
        own.random_(-(2**63), None, generator=generator)
    return draws.view(torch.uint8)[:, :count]


def _normal_borders(bins: int) -> Tensor:
    if bins == 0:
        return torch.zeros(0)
    tail = 0.002  # the outermost ramps reach to where one number in five hundred lies
    levels = [min(max(i / bins, tail), 1.0 - tail) for i in range(bins + 1)]
    return torch.tensor([NormalDist().inv_cdf(level) for level in levels])


def _uniform(generators: Sequence[torch.Generator], shape: tuple[int, ...], bound: float) -> nn.Parameter:
    return nn.Parameter(torch.stack([torch.empty(shape).uniform_(-bound, bound, generator=g) for g in generators]))


def _signs(generators: Sequence[torch.Generator], shape: tuple[int, ...]) -> Tensor:
    return torch.stack([torch.randint(0, 2, shape, generator=g).float() * 2.0 - 1.0 for g in generators])
