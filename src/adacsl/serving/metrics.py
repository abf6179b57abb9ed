"""Prometheus metrics of the server, over all its processes."""

from __future__ import annotations

import os
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from adacsl.decision.policy import Decisions

SHARED = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the folder through which processes share metrics."""
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Requests, rows, seconds, decisions and expected cost since the start."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        own: dict[str, Any] = {"registry": self._registry}
        self._requests = Counter("adacsl_requests", "Requests to /predict, by HTTP status.", ["status"], **own)
        self._seconds = Histogram("adacsl_request_seconds", "Seconds from request to answer.", buckets=SECONDS, **own)
        self._rows = Counter("adacsl_rows", "Rows that were decided.", **own)
        self._decisions = Counter("adacsl_decisions", "Rows by decision.", ["decision"], **own)
        # a gauge, as benefits are negative costs
        self._cost = Gauge(
            "adacsl_expected_cost_sum", "Expected cost of all decisions.", multiprocess_mode="sum", **own
        )  # fmt: skip

    def answered(self, status: int, seconds: float) -> None:
        """Count one request."""
        self._requests.labels(str(status)).inc()
        self._seconds.observe(seconds)

    def decided(self, result: Decisions) -> None:
        """Count the rows of one request."""
        self._rows.inc(len(result.actions))
        self._cost.inc(float(result.expected.sum()))
        for name, count in result.counts.items():
            self._decisions.labels(name).inc(count)

    def text(self) -> bytes:
        """Return all metrics in Prometheus's format."""
        registry = self._registry
        if SHARED in os.environ:
            registry = CollectorRegistry()
            MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
        return generate_latest(registry)
