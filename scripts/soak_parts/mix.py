"""What the soak asks: a fixed mixture, the same for the same seed."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

MODEL = "m"
EMBEDDER = "e"


class Expect(StrEnum):
    """How an answer is to end."""

    WHOLE = "whole"
    """With the status given, in one piece or as a stream to its end."""
    BROKEN = "broken"
    """As a stream that ends in an error."""
    LEAVE = "leave"
    """The client goes away in the middle."""


@dataclass(frozen=True, slots=True)
class Call:
    """One request.

    Attributes:
        method: Of the request line.
        path: Likewise.
        body: JSON bytes.
        key: Number of the API key; -1 for a wrong one.
        status: What the answer has to have.
        expect: How it has to end.
        tokens: Tokens to be read before leaving.
        kind: For the report.
    """

    method: str
    path: str
    body: bytes
    key: int
    status: int
    expect: Expect
    tokens: int
    kind: str


_CHATS = ("/v1/chat/completions", "/v1/messages", "/api/chat", "/v1/responses")


def mixture(*, calls: int, keys: int, names: int, seed: int) -> Iterator[Call]:
    """Yield the calls: 20 % streams, 5 % that leave, 2 % that the engine fails, 10 % for models there are not.

    Args:
        calls: How many.
        keys: API keys, used in turn.
        names: Model names that nobody has, used in turn.
        seed: Of the mixture.
    """
    dice = random.Random(seed)
    for number in range(calls):
        key = number % keys
        roll = dice.random()
        if roll < 0.10:
            yield _unknown(number, key, names)
        elif roll < 0.15:
            yield _other(number, key, dice)
        elif roll < 0.25:
            yield _small(key, dice)
        else:
            yield _chat(number, key, dice)


def _chat(number: int, key: int, dice: random.Random) -> Call:
    """Return a chat. Three quarters of all calls are chats: the shares here are of all."""
    path = dice.choice(_CHATS)
    stream = dice.random() < 0.20 / 0.75
    tokens = dice.randint(1, 30)
    fate = dice.random() * 0.75
    if fate < 0.05:
        order, expect, status = "hold", Expect.LEAVE, 200
        # Nobody knows how much of a whole answer has come when its client leaves, unless it is nothing.
        tokens = tokens if stream else 0
    elif fate < 0.06:
        order, expect, status = "fail", Expect.WHOLE, 500
    elif fate < 0.07:
        order, expect, status = "break", Expect.BROKEN if stream else Expect.WHOLE, 200 if stream else 500
    else:
        order, expect, status = "ok", Expect.WHOLE, 200
    prompt = f"{order} {tokens} of call {number} " + "word " * dice.choice((5, 50, 400))
    return Call(
        "POST",
        path,
        _chat_body(path, prompt, stream=stream),
        key,
        status,
        expect,
        tokens,
        f"{order}{' stream' * stream}",
    )


def _chat_body(path: str, prompt: str, *, stream: bool) -> bytes:
    body: dict[str, object] = {"model": MODEL, "stream": stream}
    if path == "/v1/responses":
        body |= {"input": prompt, "store": False}
    else:
        body |= {"messages": [{"role": "user", "content": prompt}], "max_tokens": 40}
    return _dump(body)


def _unknown(number: int, key: int, names: int) -> Call:
    name = f"no-such-model-{number % names}"
    body = _dump({"model": name, "messages": [{"role": "user", "content": "hi"}]})
    return Call("POST", "/v1/chat/completions", body, key, 404, Expect.WHOLE, 0, "unknown model")


def _small(key: int, dice: random.Random) -> Call:
    if dice.random() < 0.5:
        body = _dump({"model": MODEL, "content": "hello there"})
        return Call("POST", "/tokenize", body, key, 200, Expect.WHOLE, 0, "tokenize")
    body = _dump({"model": EMBEDDER, "input": "hello there"})
    return Call("POST", "/v1/embeddings", body, key, 200, Expect.WHOLE, 0, "embedding")


def _other(number: int, key: int, dice: random.Random) -> Call:
    match dice.randrange(4):
        case 0:
            return Call("GET", "/v1/models", b"", key, 200, Expect.WHOLE, 0, "listing")
        case 1:
            return Call("POST", "/v1/chat/completions", b'{"model":', key, 400, Expect.WHOLE, 0, "malformed")
        case 2:
            return Call("POST", f"/v1/nothing/{number}", b"{}", key, 404, Expect.WHOLE, 0, "no such route")
        case _:
            return Call("POST", "/v1/chat/completions", b"{}", -1, 401, Expect.WHOLE, 0, "wrong key")


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
