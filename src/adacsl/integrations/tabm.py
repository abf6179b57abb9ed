"""TabM for encoded tables: an ensemble of networks that share most weights, with binned numeric features.

Gorishniy et al., ICLR 2025; the packages ``tabm`` and ``rtdl_num_embeddings`` of its authors.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from adacsl.base.extras import requires

with requires("tabm"):
    from rtdl_num_embeddings import PiecewiseLinearEmbeddings, compute_bins
    from tabm import TabM


class BinnedTabM(nn.Module):
    """TabM that spreads numbers over bins and takes the other columns as they are; gives rows x 1 x k (x outputs).

    Parameters
    ----------
    n_features : int
        Columns of the input.
    numeric, borders : Tensor
        Columns that are spread; one row of rising borders for each of them, the last one repeated where there are
        fewer. Both are part of the state, so that a net can be made again from what was saved.
    outputs : int, default 1
        Logits per net: 1 for two classes, K for K > 2.
    sizes : int, float
        ``n_bins``, ``d_embedding`` (units per number), and TabM's own: ``k``, ``n_blocks``, ``d_block``, ``dropout``.
    """

    numeric: Tensor
    others: Tensor
    borders: Tensor

    def __init__(self, n_features: int, numeric: Tensor, borders: Tensor, *, outputs: int = 1, **sizes: Any) -> None:
        super().__init__()
        self.sizes = {"n_features": n_features, **sizes} | ({} if outputs == 1 else {"outputs": outputs})
        others = sorted(set(range(n_features)) - set(numeric.tolist()))
        for name, buffer in (("numeric", numeric), ("others", torch.tensor(others).long()), ("borders", borders)):
            self.register_buffer(name, buffer.clone())
        bins = [own.unique() for own in borders]
        units = sizes["d_embedding"]
        own = {name: size for name, size in sizes.items() if name not in ("n_bins", "d_embedding")}
        self.net = TabM.make(
            n_num_features=len(bins), cat_cardinalities=[1] * len(others), d_out=outputs, **own,
            num_embeddings=PiecewiseLinearEmbeddings(bins, units, activation=False, version="B") if bins else None,
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """Return logits of shape (rows, 1, k), with several outputs (rows, 1, k, outputs)."""
        # TabM's own forward takes categories as codes only; these are its parts
        features = x.index_select(1, self.others)
        if len(self.numeric):
            # beyond the last border a ramp would go on rising, steeply where the last bin is narrow
            numbers = x.index_select(1, self.numeric).clamp(self.borders[:, 0], self.borders[:, -1])
            features = torch.cat((self.net.num_module(numbers).flatten(1), features), dim=1)
        logits: Tensor = self.net.output(self.net.backbone(self.net.ensemble_view(features)))
        return logits.transpose(1, 2) if logits.shape[2] == 1 else logits.unsqueeze(1)


def check_tabm_sizes(sizes: Mapping[str, Any], state: Mapping[str, Tensor], *, n_features: int) -> None:
    """Refuse sizes of a :class:`BinnedTabM` that are not those of its weights, before memory is taken for them."""
    k, width, outputs = state["net.output.weight"].shape
    blocks = sum(name.startswith("net.backbone.blocks.") and name.endswith(".weight") for name in state)
    result = {"n_features": n_features, "k": k, "d_block": width, "n_blocks": blocks, "outputs": outputs}
    if len(state["numeric"]):
        result["d_embedding"] = state["net.num_module.linear0.weight"].shape[1]
    if {"outputs": 1} | dict(sizes) != {"outputs": 1} | dict(sizes) | result:
        raise ValueError("the sizes of the network are not those of its weights")


def find_bins(x: Tensor, numeric: Sequence[int], n_bins: int) -> dict[str, Tensor]:
    """Return the columns (``numeric``) that fill several bins in these rows, and the ``borders``: quantiles."""
    n_bins = min(n_bins, len(x) - 1)
    varying = [i for i in numeric if n_bins > 1 and bool((x[:, i] != x[0, i]).any())]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*just two bin edges")  # of two values, say: left as they are
        result = compute_bins(x[:, varying], n_bins) if varying else []
    bins = {i: own for i, own in zip(varying, result, strict=True) if len(own) > 2}
    borders = [torch.cat((own, own[-1:].expand(n_bins + 1 - len(own)))) for own in bins.values()]
    return {"numeric": torch.tensor([*bins]).long(), "borders": torch.stack(borders) if bins else x.new_zeros(0, 2)}
