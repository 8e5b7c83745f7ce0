"""``GET /metrics``: the daemon's own figures, for Prometheus. Engines are not asked, so none is woken."""

from collections.abc import Iterable, Iterator, Mapping

from aiohttp import web
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector
from typing_extensions import override

from blazar_gateway.context import GATEWAY, Gateway
from blazar_gateway.telemetry import Histogram


async def metrics(request: web.Request) -> web.StreamResponse:
    """Answer ``GET /metrics``."""
    registry = CollectorRegistry()
    registry.register(_Figures(request.app[GATEWAY]))
    return web.Response(body=generate_latest(registry), headers={"Content-Type": CONTENT_TYPE_LATEST})


class _Figures(Collector):
    """Reads what the gateway counts at the moment it is asked."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def describe(self) -> Iterable[Metric]:
        """Return nothing: the registry would otherwise collect once just to see the names."""
        return ()

    @override
    def collect(self) -> Iterator[Metric]:
        yield from self._requests()
        yield from self._usage()
        yield from self._gauges()
        yield from self._children()

    def _requests(self) -> Iterator[Metric]:
        telemetry = self._gateway.telemetry
        requests = CounterMetricFamily("blazar_requests", "Requests that have ended.", labels=("route", "status"))
        for (route, status), count in telemetry.requests.items():
            requests.add_metric((route, str(status)), count)
        yield requests
        coalesced = CounterMetricFamily("blazar_coalesced", "Chats that waited for an identical one.", labels=("how",))
        flights = self._gateway.flights
        coalesced.add_metric(("shared answer",), flights.shared)
        coalesced.add_metric(("warm prefix",), flights.warmed)
        yield coalesced
        yield _durations("blazar_request_seconds", "From head to last byte.", "route", telemetry.request_s)
        yield _durations("blazar_first_byte_seconds", "Until a stream opens.", "route", telemetry.first_byte_s)
        yield _durations("blazar_queue_seconds", "Until a lease, loading included.", "class", telemetry.queue_s)

    def _usage(self) -> Iterator[Metric]:
        labels = ("key", "model")
        asked = CounterMetricFamily("blazar_key_requests", "Requests that were admitted.", labels=labels)
        tokens = CounterMetricFamily("blazar_tokens", "As engines reported them.", labels=(*labels, "kind"))
        for (key, model), count in self._gateway.admission.ledger.totals.items():
            asked.add_metric((key, model), count.requests)
            tokens.add_metric((key, model, "prompt"), count.prompt_tokens)
            tokens.add_metric((key, model, "completion"), count.completion_tokens)
        yield asked
        yield tokens

    def _gauges(self) -> Iterator[Metric]:
        gauge = GaugeMetricFamily("blazar_in_hand", "What is in hand now.", labels=("what",))
        for name, value in self._gateway.traffic.gauges().items():
            gauge.add_metric((name,), value)
        gauge.add_metric(("following",), self._gateway.flights.following)
        yield gauge
        status = self._gateway.daemon.status()
        lag = status.get("loop_lag")
        worst_ms = lag.get("worst_ms") if isinstance(lag, Mapping) else None
        for metric, text, figure in (
            ("blazar_loop_lag_worst_seconds", "The worst of the last minute.", _number(worst_ms, 1000)),
            ("blazar_memory_bytes", "The daemon's own resident memory.", _number(status.get("memory_bytes"))),
            ("blazar_tasks", "Tasks of the event loop.", _number(status.get("tasks"))),
            ("blazar_descriptors", "Open files and sockets.", _number(status.get("descriptors"))),
        ):
            if figure is not None:
                yield GaugeMetricFamily(metric, text, value=figure)

    def _children(self) -> Iterator[Metric]:
        labels = ("model", "child")
        families = {
            "memory_bytes": GaugeMetricFamily("blazar_child_memory_bytes", "What the engine holds.", labels=labels),
            "in_flight": GaugeMetricFamily("blazar_child_requests", "Requests that run on it.", labels=labels),
            "waiting": GaugeMetricFamily("blazar_child_waiting", "Requests that wait for it.", labels=labels),
        }
        for resident in self._gateway.host.residents():
            for name, family in families.items():
                family.add_metric((resident.model, resident.child), getattr(resident, name))
        yield from families.values()


def _durations(name: str, text: str, label: str, histograms: Mapping[str, Histogram]) -> Metric:
    family = HistogramMetricFamily(name, text, labels=(label,))
    for value, histogram in histograms.items():
        family.add_metric((value,), list(histogram.cumulated()), histogram.sum_s)
    return family


def _number(value: object, divisor: float = 1.0) -> float | None:
    return value / divisor if isinstance(value, int | float) else None
