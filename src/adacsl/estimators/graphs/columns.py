"""A table's encoding as a few tensor operations, so that a graph takes raw columns."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from adacsl.datasets.columns import MISSING_TEXT, TRUTHS, Column, as_text, spellings
from adacsl.datasets.encoding import TableEncoder
from adacsl.datasets.features import FAR, PERIODS, Category, Number, Scale

PARTS = ("seconds", "year", "day", "month", "weekday", "hour")
INDICATOR = Scale([0.0, 1.0], [0.0, 1.0])
ZERO = Scale([0.0, 1.0], [0.0, 0.0])
DAY = 86_400.0


class Columns(nn.Module):
    """The encoder as tensor operations on all columns at once, in float64.

    Takes one number for each training column: a number (NaN = missing), seconds since 1970, or the code of a level.
    """

    fill: Tensor
    dates: Tensor
    sources: Tensor
    bent: Tensor
    first: Tensor
    ramps: Tensor
    straight: Tensor
    turning: Tensor
    angles: Tensor
    order: Tensor

    def __init__(self, encoder: TableEncoder) -> None:
        super().__init__()
        rules = encoder.rules()
        n, dates = len(rules), [i for i, rule in enumerate(rules) if rule is not None and rule.kind == "date"]
        # what scales and circles look at: numbers, whether they are missing, the parts of each date
        parts = {(i, part): 2 * n + len(PARTS) * k + PARTS.index(part) for k, i in enumerate(dates) for part in PARTS}
        scales: list[tuple[int, Scale]] = []
        cycles: list[tuple[int, float]] = []
        places: list[tuple[str, int]] = []
        self.coded: list[int] = []
        for i, rule in enumerate(rules):
            if isinstance(rule, Number):
                own = [(parts.get((i, part), i), scale) for part, scale in rule.scales.items()]
                turns = [(parts[i, part], 2.0 * math.pi / PERIODS[part]) for part in rule.cycles]
                places += [("scaled", len(scales) + k) for k in range(len(own))]
                places += [(wave, len(cycles) + k) for k in range(len(turns)) for wave in ("sine", "cosine")]
                places += [("scaled", len(scales) + len(own))] * rule.missing
                scales += own + [(n + i, INDICATOR)] * rule.missing
                cycles += turns
            elif isinstance(rule, Category):
                table = torch.tensor(level_features(rule))
                self.register_buffer(f"table{i}", table)
                places += [(f"table{i}", k) for k in range(table.shape[1])]
                self.coded.append(i)
        if not places:  # nothing varied in training: the encoder gives one column of zeros
            scales, places = [(0, ZERO)], [("scaled", 0)]
        self._remember_numbers(rules, dates, scales or [(0, ZERO)], cycles)
        starts = self._starts(len(scales or [ZERO]), len(cycles))
        self.register_buffer("order", torch.tensor([starts[kind] + k for kind, k in places]))

    def _remember_numbers(
        self, rules: Sequence[Number | Category | None], dates: list[int], scales: list[tuple[int, Scale]],
        cycles: list[tuple[int, float]],
    ) -> None:  # fmt: skip
        fill = [rule.fill if isinstance(rule, Number) else 0.0 for rule in rules]
        own = [scale for _, scale in scales]
        first, slopes = ramps([(s.knots or ZERO.knots, s.scores or ZERO.scores) for s in own])
        straight = [[s.center, s.width, s.limit or math.inf] for s in own]
        self.register_buffer("fill", torch.tensor(fill, dtype=torch.float64))
        self.register_buffer("dates", torch.tensor(dates, dtype=torch.int64))
        self.register_buffer("sources", torch.tensor([source for source, _ in scales]))
        self.register_buffer("bent", torch.tensor([bool(s.knots) for s in own]))
        self.register_buffer("first", first)
        self.register_buffer("ramps", slopes)
        self.register_buffer("straight", torch.tensor(straight, dtype=torch.float64).T.contiguous())
        self.register_buffer("turning", torch.tensor([source for source, _ in cycles], dtype=torch.int64))
        self.register_buffer("angles", torch.tensor([angle for _, angle in cycles], dtype=torch.float64))

    def _starts(self, n_scales: int, n_cycles: int) -> dict[str, int]:
        """Return where the features of each kind begin, as ``forward`` puts them side by side."""
        starts, end = {"scaled": 0, "sine": n_scales, "cosine": n_scales + n_cycles}, n_scales + 2 * n_cycles
        for i in self.coded:
            starts[f"table{i}"] = end
            end += self.get_buffer(f"table{i}").shape[1]
        return starts

    def forward(self, inputs: Tensor) -> Tensor:
        """Return encoded features, float32."""
        gaps = torch.isnan(inputs) | torch.isinf(inputs)
        known = torch.where(gaps, self.fill, inputs)
        looked = torch.cat((known, gaps.double()), dim=1)
        if len(self.dates):
            looked = torch.cat((looked, date_parts(known.index_select(1, self.dates)).flatten(1)), dim=1)
        features = [self._scaled(looked.index_select(1, self.sources))]
        if len(self.turning):
            angles = looked.index_select(1, self.turning) * self.angles
            features += [torch.sin(angles), torch.cos(angles)]
        features += [self.get_buffer(f"table{i}").index_select(0, known[:, i].long()) for i in self.coded]
        return torch.cat(features, dim=1).index_select(1, self.order).float()

    def _scaled(self, values: Tensor) -> Tensor:
        center, width, limit = self.straight
        z = ((values - center) / width).clamp(-FAR, FAR)
        squashed = z / torch.sqrt(1.0 + (z / limit) ** 2)
        return torch.where(self.bent, interpolated(values, self.first, self.ramps), squashed)


def known_levels(rule: Category) -> list[str]:
    """Return the levels with a code of their own: their place; then come any other level, and a missing one."""
    return sorted({*rule.levels, *(rule.frequencies or {})})


def level_codes(rule: Category) -> dict[str, int]:
    """Return the code of each text that is known; any other has the number of known levels as its code.

    A graph cannot read numbers and dates in text: it knows their usual spellings besides the one of the encoder.
    """
    codes = {level: i for i, level in enumerate(known_levels(rule))}
    usual = [f"{level}{end}" for level in codes for end in (".0", " 00:00:00", "T00:00:00")]
    others = {text: codes[level] for text, level in spellings([*usual, *TRUTHS]).items() if level in codes}
    return others | codes | dict.fromkeys(MISSING_TEXT, len(codes) + 1)


def level_features(rule: Category) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the features of each code."""
    levels = known_levels(rule)
    stranger = "?" * (1 + max(map(len, levels), default=0))  # longer than any level
    text = as_text([*levels, stranger, ""])
    return np.stack(rule.encode(Column(rule.name, "text", text)), axis=1)


def date_parts(seconds: Tensor) -> Tensor:
    """Return the parts of dates in the order of PARTS, as a last axis: the Gregorian calendar in whole float64 numbers.

    Years begin in March, so that a leap day is the last of its year; 400 years have 146,097 days.
    """
    whole = torch.floor(seconds)
    days = torch.floor(whole / DAY)
    hour = torch.floor((whole - days * DAY) / 3600.0)
    since = days + 719_468.0  # from the first of March of year 0
    era = torch.floor(since / 146_097.0)
    day = since - era * 146_097.0
    year = torch.floor(
        (day - torch.floor(day / 1460.0) + torch.floor(day / 36_524.0) - torch.floor(day / 146_096.0)) / 365.0
    )
    day = day - (365.0 * year + torch.floor(year / 4.0) - torch.floor(year / 100.0))
    month = torch.floor((5.0 * day + 2.0) / 153.0)
    early = (month >= 10.0).double()  # January and February belong to the next year
    day = day - torch.floor((153.0 * month + 2.0) / 5.0) + 1.0
    weekday = days + 3.0 - 7.0 * torch.floor((days + 3.0) / 7.0)
    parts = (seconds, year + 400.0 * era + early, day, month + 2.0 - 12.0 * early, weekday, hour)
    return torch.stack(parts, dim=-1)


def ramps(lines: list[tuple[list[float], list[float]]]) -> tuple[Tensor, Tensor]:
    """Return where each line through knots begins, and start, span and rise of its ramps; flat ones fill up."""
    longest = max(len(knots) for knots, _ in lines) - 1
    table = torch.zeros(3, len(lines), longest, dtype=torch.float64)
    table[1] = 1.0
    for row, line in enumerate(lines):
        knots, heights = torch.tensor(line, dtype=torch.float64)
        table[:, row, : len(knots) - 1] = torch.stack((knots[:-1], knots.diff(), heights.diff()))
    return torch.tensor([heights[0] for _, heights in lines], dtype=torch.float64), table


def interpolated(values: Tensor, first: Tensor, slopes: Tensor) -> Tensor:
    """Return the height of each column's line, as a sum of ramps."""
    start, span, rise = slopes
    climbed: Tensor = (((values.unsqueeze(2) - start) / span).clamp(0.0, 1.0) * rise).sum(2)
    return first + climbed
