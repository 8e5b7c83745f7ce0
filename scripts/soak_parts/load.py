"""Clients that send the mixture, check every answer, and leave when they are to."""

import asyncio
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from blazar_gateway.testing.client import RawClient
from soak_parts.mix import Call, Expect

DEADLINE_S = 120.0
"""Seconds after which an answer that has not come counts as lost."""

_ERRORS = (b'"error"', b"event: error")


@dataclass
class Outcome:
    """What came of the calls.

    Attributes:
        kinds: Calls by kind.
        wrong: Answers that were not what they had to be, the first of them in words.
        wrong_count: All of them.
    """

    kinds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    wrong_count: int = 0

    def note(self, call: Call, problem: str) -> None:
        """Remember an answer that was wrong."""
        self.wrong_count += 1
        if len(self.wrong) < 10:
            self.wrong.append(f"{call.method} {call.path} ({call.kind}): {problem}")


async def send_all(port: int, calls: Iterator[Call], *, clients: int, secrets: list[str]) -> Outcome:
    """Send every call, over so many connections at once, and return what came of them."""
    outcome = Outcome()
    await asyncio.gather(*(_client(port, calls, secrets, outcome, number) for number in range(clients)))
    return outcome


async def _client(port: int, calls: Iterator[Call], secrets: list[str], outcome: Outcome, number: int) -> None:
    dice = random.Random(number)
    connection: RawClient | None = None
    for call in calls:
        if connection is None:
            connection = await RawClient(port).__aenter__()
        secret = secrets[call.key] if call.key >= 0 else "plm_nobodys"
        stays = False
        try:
            await connection.post(
                call.path, call.body, headers={"Authorization": f"Bearer {secret}"}, method=call.method
            )
            stays = await _take(connection, call, outcome, dice)
        except (ConnectionError, asyncio.IncompleteReadError, TimeoutError) as error:
            outcome.note(call, f"{type(error).__name__}: {error}")
        outcome.kinds[call.kind] += 1
        if not stays:
            connection.reset()
            connection = None
    if connection is not None:
        connection.close()


async def _take(connection: RawClient, call: Call, outcome: Outcome, dice: random.Random) -> bool:
    """Take an answer as the call says; return whether the connection can be used again."""
    if call.expect is Expect.LEAVE:
        if call.tokens:
            for _ in range(call.tokens):
                await connection.read_until(b"word", deadline_s=DEADLINE_S)
        else:
            await asyncio.sleep(dice.random() * 0.02)
        return False
    answer = await connection.answer(deadline_s=DEADLINE_S)
    told_late = call.kind == "fail stream" and answer.status == 200 and any(sign in answer.body for sign in _ERRORS)
    if told_late and answer.whole:
        pass  # it had waited so long that its stream was opened; the error is in there
    elif answer.status != call.status:
        outcome.note(call, f"status {answer.status} instead of {call.status}: {answer.body[:200]!r}")
    elif not answer.whole:
        outcome.note(call, f"it broke off: {answer.body[-200:]!r}")
    elif call.expect is Expect.BROKEN and not any(sign in answer.body for sign in _ERRORS):
        outcome.note(call, f"a broken answer ends without an error: {answer.body[-200:]!r}")
    elif call.kind.startswith("ok") and answer.body.count(b"word") < call.tokens:
        outcome.note(call, f"{answer.body.count(b'word')} tokens came instead of {call.tokens}")
    return answer.headers.get("connection", "").lower() != "close"
