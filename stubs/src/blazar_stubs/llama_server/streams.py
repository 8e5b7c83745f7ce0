"""Write the results of generations as an answer: streamed with pings, or whole."""

import os
import signal
import time

from blazar_stubs.llama_server.exchange import Aborted, Exchange
from blazar_stubs.llama_server.results import (
    Begin,
    Choice,
    Failure,
    Final,
    Partial,
    Progress,
    Result,
    Results,
    Scripted,
)
from blazar_stubs.llama_server.shapes import Shape

_NULL_FRAME = b"data: null\n\n"
_SUBSTANCE = frozenset(["content", "reasoning_content", "reasoning", "tool_calls"])


async def write_stream(
    exchange: Exchange, results: Results, shape: Shape, *, ping_s: int, replay: bytearray | None
) -> None:
    """Stream results as they come.

    The status is decided by the first of them; an error that comes later is one frame, after which the stream ends
    without its closing mark. A client that leaves cancels the generations, unless `replay` collects the stream for
    whoever resumes it (``X-Conversation-Id``).
    """
    first = await _next(exchange, results, None, survives=True)
    assert first is not None
    if isinstance(first, Failure):
        await exchange.json(first.status, {"error": first.body})
        return
    await exchange.open_stream()
    data = b"" if isinstance(first, Begin) else _bytes_of(shape, first)
    while True:
        if data:
            if replay is not None:
                replay += data
            await exchange.write(data)
        if results.is_over:
            break
        result = await _next(exchange, results, ping_s if ping_s > 0 else None, survives=replay is not None)
        if result is None:
            data = b":\n\n"
            continue
        if isinstance(result, Failure):
            await exchange.write(shape.error(result.body))
            await exchange.end_stream()
            results.cancelled = True
            return
        data = _NULL_FRAME if isinstance(result, Begin) else _bytes_of(shape, result)
        if isinstance(result, Partial | Scripted):
            await exchange.write(data)
            if replay is not None:
                replay += data
            data = b""
            await _count(exchange, results, result)
    if exchange.script.get("done", True):
        await exchange.write(shape.closing)
    await exchange.end_stream()


async def write_whole(exchange: Exchange, results: Results, shape: Shape) -> None:
    """Wait for all results, then give one answer. A client that leaves changes nothing (observed)."""
    choices: list[Choice] = []
    while not results.is_over:
        result = await results.get()
        if isinstance(result, Failure):
            results.cancelled = True
            await exchange.json(result.status, {"error": result.body})
            return
        if isinstance(result, Final):
            choices.append(result.choice)
        elif isinstance(result, Partial | Scripted):
            await _count(exchange, results, result)
        if exchange.client_left:
            _left(exchange)
    choices.sort(key=lambda choice: choice.index)
    await exchange.json(200, shape.whole(choices))


async def _next(exchange: Exchange, results: Results, ping_s: float | None, *, survives: bool) -> Result | None:
    """The next result, or None when it is time for a ping.

    Raises:
        Aborted: The client left and nobody else wants the stream.
    """
    due_s = time.monotonic() + ping_s if ping_s is not None else None
    while True:
        if exchange.client_left:
            _left(exchange)
            if not survives:
                results.cancelled = True
                raise Aborted
        left_s = None if due_s is None else due_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            return None
        result = await results.get(left_s)
        if result is not None:
            return result


def _left(exchange: Exchange) -> None:
    exchange.recorder.client_closed(exchange.entry)
    code = exchange.script.get("exit_on_disconnect")
    if code is not None:
        exchange.recorder.event("exit", code=code)
        os._exit(code)


def _bytes_of(shape: Shape, result: Result) -> bytes:
    match result:
        case Partial():
            return shape.partial(result)
        case Progress():
            return shape.progress(result)
        case Scripted():
            return shape.scripted(result)
        case Final():
            return shape.final(result.choice)
        case _:
            return b""


async def _count(exchange: Exchange, results: Results, result: Partial | Scripted) -> None:
    """Count a token as sent, and do what the script wants done at that count."""
    if isinstance(result, Scripted) and not result.chunk.keys() & _SUBSTANCE:
        return
    entry, script = exchange.entry, exchange.script
    decoded = result.decoded if isinstance(result, Partial) else result.choice.decoded
    entry["tokens_generated"] = decoded
    if not exchange.client_left and exchange.is_open:
        entry["tokens_sent"] += 1
        exchange.recorder.tokens_sent += 1
    made = entry["tokens_sent"] if exchange.is_open else decoded
    if made == script.get("close_after_tokens"):
        results.cancelled = True
        await exchange.connection.flushed()
        exchange.abort()
        raise Aborted
    if made == script.get("hang_after_tokens"):
        await exchange.hang()
    if made == script.get("exit_after_tokens"):
        await exchange.connection.flushed()
        die(exchange)


def die(exchange: Exchange) -> None:
    """End this process as the script says: by a signal, else with a code."""
    name = exchange.script.get("signal")
    code = exchange.script.get("exit_code", 1)
    exchange.recorder.event("exit", code=code, signal=name)
    if name is not None:
        number = signal.Signals[name]
        if number not in {signal.SIGKILL, signal.SIGSTOP}:
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
        return
    os._exit(code)
