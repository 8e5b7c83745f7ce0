"""The result as a table for people and as plain values for programs."""

import platform
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench_parts.measure import FEW, LEAST_CPU_SHARE, MANY, Key, Series
from bench_parts.router import CALLS, ENGINE, OURS, ROUTER
from bench_parts.servers import Gateway, describe_cpu
from bench_parts.startup import Startup
from bench_parts.workloads import WORKLOADS

WANTED_IDLE_MIB = 90
_MIB = 1 << 20


def as_plain(
    series: Mapping[Key, Series],
    gateways: Sequence[Gateway],
    startups: Sequence[Startup],
    *,
    load: str,
    router: Mapping[Key, Series] | None = None,
) -> dict[str, object]:
    """Return everything that was measured as JSON values."""
    ours, bare = gateways
    workloads: dict[str, object] = {}
    for workload in WORKLOADS:
        sides = {
            gateway.name: {
                f"clients_{clients}": _side(series[workload.name, gateway.name, clients]) for clients in (FEW, MANY)
            }
            for gateway in gateways
        }
        ratio, by_cpu = _ratios(series, workload.name, ours.name, bare.name)
        workloads[workload.name] = {
            **sides,
            "ratio": round(ratio, 3),
            "ratio_by_cpu_time": round(by_cpu, 3),
            "void": is_void(series, workload.name, gateways),
            "wanted": workload.wanted,
        }
    return {
        "machine": f"{describe_cpu()}, {platform.system()}, Python {platform.python_version()}",
        "load": load,
        "guarded": bool(ours.key),
        "workloads": workloads,
        "router": None
        if router is None
        else {
            name: {f"clients_{clients}": _side(router[CALLS.name, name, clients]) for clients in (FEW, MANY)}
            for name in (ENGINE, ROUTER, OURS)
        },
        "memory_mib": {
            gateway.name: {
                "idle": round(gateway.idle_bytes / _MIB, 1),
                "after_load": round(gateway.resident_bytes() / _MIB, 1),
            }
            for gateway in gateways
        },
        "startup_ms": {
            startup.name: {
                "ms": round(startup.ms, 1),
                "floor": startup.floor,
                "floor_ms": round(startup.floor_ms, 1),
                "more_ms": round(startup.ms - startup.floor_ms, 1),
                "allowed_ms": startup.allowed_ms,
            }
            for startup in startups
        },
    }


def _side(series: Series) -> dict[str, object]:
    return {
        "per_s": round(series.per_s(), 1),
        "p50_ms": round(series.p50_ms(), 3),
        "p99_ms": round(series.p99_ms(), 3),
        "cpu_share": round(series.cpu_share(), 3),
        "per_cpu_s": round(series.per_cpu_s(), 1),
        "failed": series.failed(),
    }


def _ratios(series: Mapping[Key, Series], workload: str, ours: str, bare: str) -> tuple[float, float]:
    """Return how we compare with the reference: by the clock, and by processor time used."""
    mine, reference = series[workload, ours, MANY], series[workload, bare, MANY]
    return mine.per_s() / reference.per_s(), mine.per_cpu_s() / reference.per_cpu_s()


def is_void(series: Mapping[Key, Series], workload: str, gateways: Sequence[Gateway]) -> str | None:
    """Return why a workload's ratio says nothing, or ``None`` when it does."""
    for gateway in gateways:
        side = series[workload, gateway.name, MANY]
        if failed := sum(series[workload, gateway.name, clients].failed() for clients in (FEW, MANY)):
            return f"{gateway.name} failed {failed} requests"
        if side.cpu_share() < LEAST_CPU_SHARE:
            return f"{gateway.name} used {side.cpu_share():.0%} of its core"
    return None


def print_report(
    console: Console,
    series: Mapping[Key, Series],
    gateways: Sequence[Gateway],
    startups: Sequence[Startup],
    *,
    load: str,
    router: Mapping[Key, Series] | None = None,
) -> None:
    """Print the tables."""
    console.print(f"{describe_cpu()}, Python {platform.python_version()}; load from {load}; medians over the rounds")
    console.print(_speed_table(series, gateways))
    for workload in WORKLOADS:
        if void := is_void(series, workload.name, gateways):
            console.print(f"The ratio of {workload.name} is void: {void}.")
    if router is not None:
        console.print(_router_table(router))
    console.print(_memory_table(gateways))
    console.print(_startup_table(startups))


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    return table


def _speed_table(series: Mapping[Key, Series], gateways: Sequence[Gateway]) -> Table:
    ours, bare = gateways
    table = _table("", "per s", "CPU", "p50/p99 ms, 16 clients", "p50/p99 ms, alone", "ratio", "by CPU time", "wanted")
    for workload in WORKLOADS:
        for gateway in gateways:
            many, few = (series[workload.name, gateway.name, clients] for clients in (MANY, FEW))
            verdict = ("", "", "")
            if gateway is ours:
                ratio, by_cpu = _ratios(series, workload.name, ours.name, bare.name)
                void = is_void(series, workload.name, gateways)
                verdict = ("void" if void else f"{ratio:.2f}", f"{by_cpu:.2f}", f"{workload.wanted:.2f}")
            table.add_row(
                f"{workload.name}, {gateway.name}",
                f"{many.per_s():,.0f}",
                f"{many.cpu_share():.0%}",
                f"{many.p50_ms():.2f} / {many.p99_ms():.2f}",
                f"{few.p50_ms():.2f} / {few.p99_ms():.2f}",
                *verdict,
            )
    return table


def _router_table(series: Mapping[Key, Series]) -> Table:
    table = _table(
        f"{CALLS.name}, tiny model", "per s, 16 clients", "p50/p99 ms, 16", "p50/p99 ms, alone", "added p50 ms"
    )
    direct = series[CALLS.name, ENGINE, FEW].p50_ms()
    for name in (ENGINE, ROUTER, OURS):
        many, few = (series[CALLS.name, name, clients] for clients in (MANY, FEW))
        table.add_row(
            name,
            f"{many.per_s():,.0f}",
            f"{many.p50_ms():.2f} / {many.p99_ms():.2f}",
            f"{few.p50_ms():.2f} / {few.p99_ms():.2f}",
            "" if name == ENGINE else f"{few.p50_ms() - direct:.2f}",
        )
    return table


def _memory_table(gateways: Sequence[Gateway]) -> Table:
    table = _table("resident MiB", "idle", "after the load", "wanted idle")
    for number, gateway in enumerate(gateways):
        table.add_row(
            gateway.name,
            f"{gateway.idle_bytes / _MIB:.1f}",
            f"{gateway.resident_bytes() / _MIB:.1f}",
            f"< {WANTED_IDLE_MIB}" if number == 0 else "",
        )
    return table


def _startup_table(startups: Sequence[Startup]) -> Table:
    table = _table("start, ms", "takes", "floor", "more", "wanted")
    for startup in startups:
        table.add_row(
            startup.name,
            f"{startup.ms:.0f}",
            f"{startup.floor_ms:.0f} ({startup.floor})",
            f"{startup.ms - startup.floor_ms:.0f}",
            f"< {startup.allowed_ms:.0f}",
        )
    return table
