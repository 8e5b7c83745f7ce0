"""An engine never has more generations than slots, and a slot is held until the answer has left."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from e2e.home import Home
from e2e.http import chat_body
from e2e.served import add_stub_model, serving
from e2e.waiting import eventually


def highest_in_flight(events: list[dict[str, Any]]) -> int:
    """Return the most chats that were open at the engine at the same time."""
    open_now: set[int] = set()
    most = 0
    for event in events:
        if event["event"] == "request" and event["path"].endswith("/chat/completions"):
            open_now.add(event["id"])
        elif event["event"] == "done":
            open_now.discard(event["id"])
        most = max(most, len(open_now))
    return most


@pytest.mark.promise("admit:slots")
@pytest.mark.parametrize("stream", [True, False], ids=["streamed", "whole"])
def test_an_engine_with_two_slots_never_has_three_chats(home: Home, stub_home: Home, stream: bool) -> None:
    home.configure('[models."m"]\nslots = 2\n')
    model = add_stub_model(home, "m", script={"token_delay_s": 0.01})
    with serving(home) as daemon, ThreadPoolExecutor(10) as pool:

        def ask(_: int) -> int:
            return daemon.client.chat("m", max_tokens=10, stream=stream).status

        assert set(pool.map(ask, range(10))) == {200}
        model.wait_for(lambda events: sum(event["event"] == "done" for event in events) >= 10)
    assert highest_in_flight(model.events()) == 2


@pytest.mark.promise("admit:until-drained")
def test_a_slow_reader_keeps_its_slot_until_it_has_read_the_last_byte(home: Home, stub_home: Home) -> None:
    # More than sockets and buffers hold: the answer cannot leave until the client reads.
    home.configure('[models."m"]\nslots = 1\n')
    # Not in the prompt: that would be refused for its length.
    model = add_stub_model(home, "m", script={"requests": [{"match": "at length", "text": "x" * 32_000_000}]})
    with serving(home) as daemon, ThreadPoolExecutor(1) as pool:
        body = chat_body("m", "at length", stream=True)
        with daemon.client.open("POST", "/v1/chat/completions", body) as slow:
            slow.read1(1000)
            waiting = pool.submit(daemon.client.chat, "m")
            eventually(lambda: _waiting(home), what="the second request waits for the slot")
            assert len(model.requests("/v1/chat/completions")) == 1
            while slow.read1(1 << 20):
                pass
        assert waiting.result().status == 200


@pytest.mark.promise("admit:order")
def test_requests_for_one_model_are_served_in_the_order_they_came(home: Home, stub_home: Home) -> None:
    home.configure('[models."m"]\nslots = 1\n')
    model = add_stub_model(home, "m")
    hang = f"[[stub: {json.dumps({'n_tokens': 9, 'hang_after_tokens': 1})}]]"
    with serving(home) as daemon, ThreadPoolExecutor(6) as pool:
        # One request holds the slot until all the others stand in line, in a known order.
        with daemon.client.open("POST", "/v1/chat/completions", chat_body("m", hang, stream=True)) as holder:
            holder.read1(65536)
            jobs = []
            for number in range(5):
                jobs.append(pool.submit(daemon.client.chat, "m", f"number {number}"))
                eventually(lambda: _waiting(home) == len(jobs), what=f"request {number} stands in line")
        assert {job.result().status for job in jobs} == {200}
    prompts = [
        json.loads(request["body"])["messages"][0]["content"] for request in model.requests("/v1/chat/completions")
    ]
    assert prompts[1:] == [f"number {number}" for number in range(5)]


def _waiting(home: Home) -> int:
    """Return how many requests stand in line, all models together."""
    return sum(int(resident["waiting"]) for resident in home.json("ps"))
