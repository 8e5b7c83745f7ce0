"""The measuring itself: rounds that alternate between the two gateways, and medians over them."""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from bench_parts.load import Figures, run_load
from bench_parts.servers import Gateway
from bench_parts.workloads import WORKLOADS, Workload

FEW, MANY = 1, 16
"""Clients: alone, and enough to keep the gateway busy."""

LEAST_CPU_SHARE = 0.9
"""Below this the gateway was waiting for load, and its rate says nothing."""


@dataclass(slots=True)
class Series:
    """One gateway under one workload and number of clients, a figure a round."""

    rounds: list[Figures] = field(default_factory=list)
    cpu_shares: list[float] = field(default_factory=list)

    def per_s(self) -> float:
        """Median answers a second."""
        return statistics.median(figures.per_s for figures in self.rounds)

    def p50_ms(self) -> float:
        """Median over the rounds of the middle latency."""
        return statistics.median(figures.p50_ms for figures in self.rounds)

    def p99_ms(self) -> float:
        """Median over the rounds of the 99th percentile."""
        return statistics.median(figures.p99_ms for figures in self.rounds)

    def failed(self) -> int:
        """Requests that failed, all rounds together."""
        return sum(figures.failed for figures in self.rounds)

    def per_cpu_s(self) -> float:
        """Median answers for each second of the gateway's own processor time; holds also where others use the core."""
        pairs = zip(self.rounds, self.cpu_shares, strict=True)
        return statistics.median(figures.per_s / max(share, 1e-9) for figures, share in pairs)

    def cpu_share(self) -> float:
        """Median share of a core that the gateway used, 0.0 to 1.0."""
        return statistics.median(self.cpu_shares)


Key = tuple[str, str, int]
"""Workload, gateway, clients."""


def measure(
    gateways: Sequence[Gateway],
    *,
    workloads: Sequence[Workload] = WORKLOADS,
    rounds: int,
    seconds: float,
    load_core: int,
    wrk: str | None,
    tell: Callable[[str], None],
) -> dict[Key, Series]:
    """Load each gateway in turn with each workload.

    Args:
        gateways: Ours and the reference, or more.
        workloads: What they are loaded with.
        rounds: How often everything is repeated.
        seconds: How long each load lasts.
        load_core: Where the load comes from.
        wrk: Its path, or ``None`` for the generator of our own.
        tell: Called with a line before each round.
    """
    found: dict[Key, Series] = {}
    for number in range(1, rounds + 1):
        tell(f"round {number} of {rounds}")
        for workload in workloads:
            for clients in (FEW, MANY):
                # Who goes first changes from round to round, so that neither always has the warmer machine.
                for gateway in gateways if number % 2 else reversed(gateways):
                    series = found.setdefault((workload.name, gateway.name, clients), Series())
                    _one(series, gateway, workload, clients=clients, seconds=seconds, load_core=load_core, wrk=wrk)
    return found


def _one(
    series: Series,
    gateway: Gateway,
    workload: Workload,
    *,
    clients: int,
    seconds: float,
    load_core: int,
    wrk: str | None,
) -> None:
    cpu_before, started = gateway.cpu_s(), perf_counter()
    figures = run_load(
        gateway.url, workload, clients=clients, seconds=seconds, core=load_core, wrk=wrk, key=gateway.key
    )
    # The generator's own start is in the elapsed time: the share comes out a little low, never too high.
    series.cpu_shares.append((gateway.cpu_s() - cpu_before) / (perf_counter() - started))
    series.rounds.append(figures)
