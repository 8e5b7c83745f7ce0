"""The run: first the mixed load, then each model alone on the same kind of requests."""

import asyncio
import os
import time
from collections.abc import Callable

from stress_parts.clients import Mix, run_clients
from stress_parts.house import House
from stress_parts.report import Batch, Stress

MIXED_SHARE = 0.7
"""Of the time, for the mixed load; the rest is shared by the models alone."""


def stress(
    house: House,
    *,
    seconds: float,
    clients: int,
    tokens: tuple[int, int],
    seed: int,
    requests: int | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> Stress:
    """Stress a daemon and return what came of it.

    Args:
        house: The daemon and its models.
        seconds: How long it may begin requests, all parts together.
        clients: How many ask at the same time.
        tokens: The fewest and the most that a request may have generated.
        seed: Of the requests.
        requests: The most requests of the mixed part, or ``None`` for as many as there is time for.
        tell: Called with what is going on.
    """
    mix = Mix(house.models, tokens=tokens, seed=seed)
    tell(f"{clients} clients, {' and '.join(house.models)}, memory for one ({house.budget_bytes >> 20} MiB)")
    before = house.loads()
    due_s = time.monotonic() + seconds * MIXED_SHARE
    results, took_s = asyncio.run(
        run_clients(
            house.daemon.url,
            mix,
            clients=clients,
            until=lambda begun: time.monotonic() >= due_s or (requests is not None and begun >= requests),
        )
    )
    loads = house.loads() - before
    load_average = os.getloadavg()[2 if seconds >= 600 else 0]
    tell(f"{len(results)} requests, {loads} loads; now each model alone")
    each_s = seconds * (1 - MIXED_SHARE) / len(house.models)
    batches = {
        model: _alone(house, mix, model, seconds=each_s, clients=clients, requests=requests) for model in house.models
    }
    return Stress(
        results=results,
        seconds=took_s,
        loads=loads,
        batches=batches,
        machine_load=load_average,
        cores=os.cpu_count() or 1,
    )


def _alone(house: House, mix: Mix, model: str, *, seconds: float, clients: int, requests: int | None) -> Batch:
    began_s = time.monotonic()
    asyncio.run(run_clients(house.daemon.url, mix, clients=1, until=lambda begun: begun >= 1, model=model))
    first_s = time.monotonic() - began_s
    due_s = time.monotonic() + seconds
    results, took_s = asyncio.run(
        run_clients(
            house.daemon.url,
            mix,
            clients=clients,
            until=lambda begun: time.monotonic() >= due_s or (requests is not None and begun >= requests),
            model=model,
        )
    )
    return Batch(
        seconds=took_s,
        load_s=_load_s(house, default_s=first_s),
        answers=sum(not one.problem for one in results),
        tokens=sum(one.tokens for one in results),
    )


def _load_s(house: House, *, default_s: float) -> float:
    """Return what the last load took, by the daemon's account."""
    for line in reversed(house.daemon.log().splitlines()):
        if " is ready after " in line:
            return float(line.rpartition(" is ready after ")[2].split()[0])
    return default_s
