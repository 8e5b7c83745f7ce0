"""Clients that ask for two models at once: streams, plain calls, and some that leave in the middle."""

import asyncio
import json
import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import aiohttp

PATIENCE_S = 300.0
"""Seconds without an answer after which a request counts as failed."""

TOPICS = ("rivers", "clocks", "bread", "the moon", "bridges", "salt", "winter", "maps", "sleep", "trains")


class Kind(StrEnum):
    """What a client does."""

    STREAM = "stream"
    PLAIN = "plain"
    ABORT = "abort"
    """A stream, or every other time a plain call, that its client leaves after a while."""


@dataclass(frozen=True, slots=True)
class Order:
    """One request to be made.

    Attributes:
        model: Which model.
        kind: How.
        prompt: What.
        tokens: The most that may be generated.
        leave_s: For aborts: seconds after which the client leaves.
    """

    model: str
    kind: Kind
    prompt: str
    tokens: int
    leave_s: float


@dataclass(frozen=True, slots=True)
class Result:
    """What came of it.

    Attributes:
        order: The request.
        began_s: When it was sent, on the run's clock.
        wait_s: Until its turn came: by the daemon's account for plain calls, to the first word for streams.
        took_s: Until its end.
        tokens: Generated, as far as its client saw.
        problem: What went wrong, or ``""``.
        left: Whether its client left.
    """

    order: Order
    began_s: float
    wait_s: float | None
    took_s: float
    tokens: int
    problem: str = ""
    left: bool = False


class Mix:
    """Draws requests: half streams, a third plain, the rest aborted. Same seed, same requests."""

    def __init__(self, models: Sequence[str], *, tokens: tuple[int, int], seed: int) -> None:
        self._models = tuple(models)
        self._tokens = tokens
        self._dice = random.Random(seed)

    def order(self, client: int, *, model: str | None = None) -> Order:
        """Return the next request of a client: mostly for the model it works with, now and then for another.

        Args:
            client: The client's number, which says what it mostly works with.
            model: The only model to ask for, by clients of whom none leaves; ``None`` for the whole mixture.
        """
        dice = self._dice
        own = self._models[client % len(self._models)]
        drawn = own if dice.random() < 0.8 else dice.choice(self._models)
        kind = dice.choices((Kind.STREAM, Kind.PLAIN, Kind.ABORT), weights=(50, 35, 15 if model is None else 0))[0]
        topic = dice.choice(TOPICS)
        return Order(
            model=model or drawn,
            kind=kind,
            prompt=f"Tell me, in plain words, about {topic}. " * dice.randint(1, 4),
            tokens=dice.randint(*self._tokens),
            leave_s=dice.uniform(0.05, 3.0),
        )


async def run_clients(
    url: str,
    mix: Mix,
    *,
    clients: int,
    until: Callable[[int], bool],
    model: str | None = None,
    pause_s: float = 0.2,
) -> tuple[list[Result], float]:
    """Have clients ask one request after the other; return what came of each, and the seconds it all took.

    Args:
        url: The daemon's address.
        mix: What they ask.
        clients: How many there are at the same time.
        until: Called with the number of requests begun; no more are begun once it returns true.
        model: The one model they all ask for, or ``None`` for whatever the mix says.
        pause_s: The longest pause between two requests of a client.
    """
    results: list[Result] = []
    started_s = time.monotonic()
    begun = 0
    pauses = random.Random(clients)

    async def client(number: int, session: aiohttp.ClientSession) -> None:
        nonlocal begun
        while not until(begun):
            begun += 1
            order = mix.order(number, model=model)
            results.append(await _ask(session, url, order, started_s))
            await asyncio.sleep(pauses.uniform(0, pause_s))

    timeout = aiohttp.ClientTimeout(total=PATIENCE_S)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        await asyncio.gather(*(client(number, session) for number in range(clients)))
    return results, time.monotonic() - started_s


async def _ask(session: aiohttp.ClientSession, url: str, order: Order, started_s: float) -> Result:
    call = _Call(order, began_s=time.monotonic(), started_s=started_s)
    stream = order.kind is Kind.STREAM or (order.kind is Kind.ABORT and order.tokens % 2 == 0)
    body = {
        "model": order.model,
        "messages": [{"role": "user", "content": order.prompt}],
        "max_tokens": order.tokens,
        "stream": stream,
    }
    try:
        async with asyncio.timeout(order.leave_s if order.kind is Kind.ABORT else PATIENCE_S):
            async with session.post(f"{url}/v1/chat/completions", json=body) as response:
                if response.status != 200:
                    return call.over(f"status {response.status}: {(await response.text())[:300]}")
                if stream:
                    return call.over(await call.read_stream(response))
                return call.over(call.read_plain(await response.read(), response.headers))
    except TimeoutError:
        return call.over("" if order.kind is Kind.ABORT else "no answer", left=order.kind is Kind.ABORT)
    except (aiohttp.ClientError, OSError, ValueError, LookupError) as error:
        return call.over(f"{type(error).__name__}: {error}")


class _Call:
    """A request under way."""

    def __init__(self, order: Order, *, began_s: float, started_s: float) -> None:
        self._order = order
        self._began_s = began_s
        self._started_s = started_s
        self._wait_s: float | None = None
        self._tokens = 0

    async def read_stream(self, response: aiohttp.ClientResponse) -> str:
        """Read a stream to its end; return what is wrong with it, or ``""``."""
        ended = False
        async for line in response.content:
            if not line.startswith(b"data: "):
                continue
            if line.strip() == b"data: [DONE]":
                ended = True
                continue
            event = json.loads(line[6:])
            if "error" in event:
                return f"in the stream: {json.dumps(event['error'])[:300]}"
            choices = event.get("choices") or []
            if choices and choices[0]["delta"].get("content"):
                self._tokens += 1
                if self._wait_s is None:
                    self._wait_s = time.monotonic() - self._began_s
        return "" if ended else "the stream ended without its end"

    def read_plain(self, body: bytes, headers: Mapping[str, str]) -> str:
        """Read a whole answer; return what is wrong with it, or ``""``."""
        answer = json.loads(body)
        self._tokens = int(answer["usage"]["completion_tokens"])
        waited = headers.get("x-blazar-queue-ms")
        self._wait_s = float(waited) / 1000 if waited is not None else None
        return "" if answer["choices"][0]["finish_reason"] else "no finish reason"

    def over(self, problem: str, *, left: bool = False) -> Result:
        """Return what came of it."""
        now_s = time.monotonic()
        return Result(
            order=self._order,
            began_s=self._began_s - self._started_s,
            wait_s=self._wait_s,
            took_s=now_s - self._began_s,
            tokens=self._tokens,
            problem=problem,
            left=left,
        )
