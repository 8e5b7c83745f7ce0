"""What every :class:`~blazar_gateway.ports.ModelHost` keeps to, as checks that raise ``AssertionError``.

Each takes a host that can serve ``model``. The gateway's fakes pass them, and so does whoever really runs engines.
"""

import asyncio

from blazar_gateway.ports import ModelHost
from blazar_routing.ticket import Ticket


async def check_lease_names_its_model(host: ModelHost, model: str) -> None:
    """A lease says whose it is, where the child listens, and how long it took."""
    lease = await host.lend(model, Ticket(model=model))
    try:
        assert lease.model == model
        assert lease.child.startswith(model)
        assert lease.endpoint.base_url.startswith("http")
        assert not lease.endpoint.base_url.endswith("/")
        assert lease.ctx_tokens is None or lease.ctx_tokens > 0
        assert lease.queue_s >= 0.0
        assert lease.load_s >= 0.0
    finally:
        lease.release()


async def check_release_twice_is_release_once(host: ModelHost, model: str) -> None:
    """The second release does nothing, so two leases can still be had and given back."""
    first = await host.lend(model, Ticket(model=model))
    first.release()
    first.release()
    second = await host.lend(model, Ticket(model=model))
    second.release()


async def check_cancelled_wait_leaves_nothing(host: ModelHost, model: str) -> None:
    """A request that is cancelled while it waits holds nothing afterwards: the next one is served."""
    waiting = asyncio.ensure_future(host.lend(model, Ticket(model=model)))
    await asyncio.sleep(0)
    if not waiting.done():
        waiting.cancel()
    results = await asyncio.gather(waiting, return_exceptions=True)
    for result in results:
        if not isinstance(result, BaseException):
            result.release()
    after = await host.lend(model, Ticket(model=model))
    after.release()
