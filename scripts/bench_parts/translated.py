"""Streams that are translated, beside the one that is relayed as it comes: what the other dialects cost."""

import json
from collections.abc import Mapping

from rich.console import Console
from rich.table import Table

from bench_parts.measure import MANY, Key, Series
from bench_parts.servers import Gateway
from bench_parts.workloads import MODEL, PLACE, WORKLOADS, Workload

RELAYED = WORKLOADS[-1]
"""The stream whose frames are passed on: what the others are compared with."""

WANTED = 0.35
_TOKENS = 200
_MESSAGES = [{"role": "user", "content": f"hi {PLACE.decode()} " + "word " * 50}]


def _stream(name: str, path: str, **fields: object) -> Workload:
    return Workload(name, path, json.dumps({"model": MODEL, "stream": True, **fields}).encode(), WANTED)


TRANSLATED = (
    _stream("anthropic", "/v1/messages", messages=_MESSAGES, max_tokens=_TOKENS),
    _stream("responses", "/v1/responses", input=_MESSAGES, max_output_tokens=_TOKENS, store=False),
    _stream("ollama", "/api/chat", messages=_MESSAGES, options={"num_predict": _TOKENS}),
)


def ratios(found: Mapping[Key, Series], gateway: Gateway, workload: Workload) -> tuple[float, float]:
    """Return a stream's rate as a share of the relayed one's: by the clock, and by processor time used."""
    mine, relayed = found[workload.name, gateway.name, MANY], found[RELAYED.name, gateway.name, MANY]
    return mine.per_s() / relayed.per_s(), mine.per_cpu_s() / relayed.per_cpu_s()


def as_plain(found: Mapping[Key, Series], gateway: Gateway) -> dict[str, object]:
    """Return the result as JSON values."""
    plain: dict[str, object] = {}
    for workload in TRANSLATED:
        series = found[workload.name, gateway.name, MANY]
        ratio, by_cpu = ratios(found, gateway, workload)
        plain[workload.name] = {
            "per_s": round(series.per_s(), 1),
            "relayed_per_s": round(found[RELAYED.name, gateway.name, MANY].per_s(), 1),
            "ratio": round(ratio, 3),
            "ratio_by_cpu_time": round(by_cpu, 3),
            "cpu_share": round(series.cpu_share(), 3),
            "failed": series.failed(),
            "wanted": WANTED,
        }
    return plain


def print_translated(console: Console, found: Mapping[Key, Series], gateway: Gateway) -> None:
    """Print the table."""
    table = Table(box=None, padding=(0, 2, 0, 0))
    for number, column in enumerate(
        (
            "translated streams",
            "per s",
            "CPU",
            "p50/p99 ms, 16 clients",
            "of relayed",
            "by CPU time",
            "wanted",
            "failed",
        )
    ):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=True)
    for workload in (RELAYED, *TRANSLATED):
        series = found[workload.name, gateway.name, MANY]
        ratio, by_cpu = ratios(found, gateway, workload)
        wanted = f"{WANTED:.2f}" if workload in TRANSLATED else ""
        table.add_row(
            workload.name if workload in TRANSLATED else "relayed",
            f"{series.per_s():,.0f}",
            f"{series.cpu_share():.0%}",
            f"{series.p50_ms():.2f} / {series.p99_ms():.2f}",
            f"{ratio:.2f}",
            f"{by_cpu:.2f}",
            wanted,
            str(series.failed()),
        )
    console.print(table)
