"""A gateway that has keys, over sockets."""

import asyncio
import base64
import re
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from blazar_gateway.access.keyring import Key
from blazar_gateway.access.quotas import utc_day
from blazar_gateway.testing import Exchange, FixedCatalogue, RawClient, ReadyHost, ScriptedEngine, card, fetch, serve
from blazar_gateway.testing.conditions import until
from blazar_gateway.testing.frames import chat_stream
from blazar_gateway.testing.memory import MemoryInProcess
from blazar_routing.ticket import Priority
from blazar_store.key_secrets import hash_secret

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ADMIN = Key(name="admin", hash=hash_secret("admin-secret"))
ALICE = Key(name="alice", hash=hash_secret("alice-secret"), models=("m",))
TWO_MODELS = FixedCatalogue(card("m"), card("other"))
NOON = 1_801_224_000.0


def bearer(secret: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {secret}"}


AS_ADMIN, AS_ALICE = bearer("admin-secret"), bearer("alice-secret")


def alice(**limits: Any) -> Key:
    return replace(ALICE, **limits)


# Authentication


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        pytest.param({}, 401, id="none"),
        pytest.param({"Authorization": "bEaReR admin-secret"}, 200, id="bearer in any case"),
        pytest.param({"X-API-Key": "admin-secret"}, 200, id="x-api-key"),
        pytest.param({**AS_ADMIN, "x-api-key": "admin-secret"}, 200, id="the same twice"),
        pytest.param({**AS_ADMIN, "x-api-key": "alice-secret"}, 401, id="two that differ"),
        pytest.param(bearer("wrong"), 401, id="wrong"),
        pytest.param(bearer(ADMIN.hash), 401, id="a hash is no secret"),
        pytest.param({"Authorization": "Basic " + base64.b64encode(b"me:admin-secret").decode()}, 200, id="basic"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/models", "/", "/api/tags", "/api/version", "/v1//models/"])
async def test_a_secret_is_needed(host: ReadyHost, path: str, headers: dict[str, str], status: int) -> None:
    async with serve(host, keys=[ADMIN, ALICE]) as served:
        answer = await fetch(served.port, "GET", path, headers=headers)
        assert answer.status == status
        if status == 401:
            assert answer.headers["www-authenticate"] == "Bearer"
            assert b"secret" not in answer.body


@pytest.mark.parametrize("path", ["/health", "/healthz", "/health/", "//healthz"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_health_is_free(host: ReadyHost, method: str, path: str) -> None:
    async with serve(host, keys=[ADMIN]) as served:
        assert (await fetch(served.port, method, path)).status == 200


@pytest.mark.parametrize(
    "path", ["/v1/models?key=admin-secret", "/v1/models?api_key=admin-secret", "/healthz/../v1/models"]
)
async def test_the_query_and_odd_paths_open_nothing(host: ReadyHost, path: str) -> None:
    async with serve(host, keys=[ADMIN]) as served:
        assert (await fetch(served.port, "GET", path)).status == 401


async def test_a_preflight_needs_no_key_and_refusals_can_be_read_by_the_page(host: ReadyHost) -> None:
    page = {"Origin": "http://localhost:3000"}
    async with serve(host, keys=[ADMIN]) as served:
        asked = {**page, "Access-Control-Request-Headers": "authorization, x-stainless-os"}
        preflight = await fetch(served.port, "OPTIONS", "/v1/chat/completions", headers=asked)
        assert preflight.status == 204
        assert preflight.headers["access-control-allow-headers"] == "authorization, x-stainless-os"
        refused = await fetch(served.port, "POST", "/v1/chat/completions", CHAT, headers=page)
        assert refused.status == 401
        assert refused.headers["access-control-allow-origin"] == "http://localhost:3000"
        assert refused.headers["vary"] == "Origin"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"error": {"type": "invalid_request_error", "code": "invalid_api_key"}}),
        ("/v1/messages", {"type": "error", "error": {"type": "authentication_error"}}),
        ("/api/chat", {"code": "invalid_api_key"}),
    ],
)
async def test_each_dialect_is_told_in_its_words(host: ReadyHost, path: str, body: dict[str, Any]) -> None:
    async with serve(host, keys=[ADMIN]) as served:
        answer = (await fetch(served.port, "POST", path, CHAT)).json
    for name, value in body.items():
        if isinstance(value, dict):
            assert value.items() <= answer[name].items()
        else:
            assert answer[name] == value


async def test_an_expired_key_opens_nothing_but_keeps_the_gateway_closed(host: ReadyHost) -> None:
    async with serve(host, keys=[replace(ADMIN, expires_at=NOON)], now=lambda: NOON) as served:
        answer = await fetch(served.port, "GET", "/v1/models", headers=AS_ADMIN)
        assert answer.status == 401
        assert "has expired" in answer.json["error"]["message"]


async def test_the_control_socket_asks_for_nothing(host: ReadyHost) -> None:
    async with serve(host, keys=[ADMIN], control=True) as served:
        assert (await fetch(served.port, "POST", "/v1/chat/completions", CHAT)).status == 200


async def test_keys_that_are_replaced_hold_at_once(host: ReadyHost) -> None:
    async with serve(host) as served:
        assert (await fetch(served.port, "GET", "/v1/models")).status == 200
        served.gateway.admission.replace_keys([ADMIN])
        assert (await fetch(served.port, "GET", "/v1/models")).status == 401
        served.gateway.admission.replace_keys([])
        assert (await fetch(served.port, "GET", "/v1/models")).status == 200


# Scope


async def test_a_scoped_key_sees_and_uses_its_models_only(host: ReadyHost) -> None:
    async with serve(host, keys=[ADMIN, ALICE], catalogue=TWO_MODELS) as served:
        listed = await fetch(served.port, "GET", "/v1/models", headers=AS_ALICE)
        assert [row["id"] for row in listed.json["data"]] == ["m"]
        tags = await fetch(served.port, "GET", "/api/tags", headers=AS_ALICE)
        assert [row["name"].removesuffix(":latest") for row in tags.json["models"]] == ["m"]
        assert (await fetch(served.port, "GET", "/v1/models/other", headers=AS_ALICE)).status == 403
        refused = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "other"}, headers=AS_ALICE)
        assert refused.status == 403
        assert refused.json["error"]["code"] == "model_not_allowed"
        assert (await fetch(served.port, "POST", "/v1/chat/completions", CHAT, headers=AS_ALICE)).status == 200
        every = await fetch(served.port, "GET", "/v1/models", headers=AS_ADMIN)
        assert len(every.json["data"]) == 2


async def test_names_out_of_scope_are_not_suggested(host: ReadyHost) -> None:
    catalogue = FixedCatalogue(card("m"), card("mine"))
    async with serve(host, keys=[ALICE], catalogue=catalogue) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "mx"}, headers=AS_ALICE)
        assert answer.status == 404
        assert "'m'" in answer.json["error"]["message"]
        assert "mine" not in answer.json["error"]["message"]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/api/pull"),
        ("DELETE", "/api/delete"),
        ("POST", "/api/create"),
        ("POST", "/api/copy"),
        ("POST", "/api/stop"),
        ("GET", "/api/daemon"),
        ("GET", "/api/logs"),
        ("POST", "/api/shutdown"),
        ("GET", "/api/keys"),
        ("POST", "/api/keys"),
        ("DELETE", "/api/keys/admin"),
        ("POST", "/api//keys/admin/rotate/"),
    ],
)
async def test_a_scoped_key_manages_nothing(host: ReadyHost, method: str, path: str) -> None:
    async with serve(host, keys=[ADMIN, ALICE]) as served:
        answer = await fetch(served.port, method, path, {"model": "m"}, headers=AS_ALICE)
        assert answer.status == 403
        assert answer.json["code"] == "admin_only"


# Limits


async def post_chat(port: int, headers: dict[str, str] = AS_ALICE, **fields: Any) -> Any:
    return await fetch(port, "POST", "/v1/chat/completions", {**CHAT, **fields}, headers=headers)


async def test_requests_per_minute(host: ReadyHost) -> None:
    clock = [NOON]
    async with serve(host, keys=[alice(rpm=2), ADMIN], now=lambda: clock[0]) as served:
        first = await post_chat(served.port)
        assert first.headers["x-ratelimit-limit-requests"] == "2"
        assert first.headers["x-ratelimit-remaining-requests"] == "1"
        assert re.fullmatch(r"\d+s", first.headers["x-ratelimit-reset-requests"])
        await post_chat(served.port)
        refused = await post_chat(served.port)
        assert refused.status == 429
        assert refused.json["error"]["code"] == "rate_limit_exceeded"
        assert refused.json["error"]["type"] == "rate_limit_error"
        assert refused.headers["retry-after"] == "60"
        assert refused.headers["x-ratelimit-remaining-requests"] == "0"
        assert (await post_chat(served.port, AS_ADMIN)).status == 200
        clock[0] += 60
        assert (await post_chat(served.port)).status == 200


async def test_what_is_out_of_scope_does_not_count_as_a_request(host: ReadyHost) -> None:
    async with serve(host, keys=[alice(rpm=1)], catalogue=TWO_MODELS) as served:
        for _ in range(3):
            assert (await post_chat(served.port, model="other")).status == 403
        assert (await post_chat(served.port)).status == 200
        assert (await post_chat(served.port)).status == 429
        # The scope is looked at before the rate.
        assert (await post_chat(served.port, model="other")).status == 403


async def test_tokens_per_minute_and_day_refuse_the_next_request(host: ReadyHost) -> None:
    clock = [NOON]
    keys = [alice(tpm=5), replace(ADMIN, daily_tokens=5)]
    async with serve(host, keys=keys, now=lambda: clock[0]) as served:
        first = await post_chat(served.port)
        assert first.headers["x-ratelimit-limit-tokens"] == "5"
        refused = await post_chat(served.port)
        assert (refused.status, refused.json["error"]["code"]) == (429, "rate_limit_exceeded")
        await post_chat(served.port, AS_ADMIN)
        spent = await post_chat(served.port, AS_ADMIN)
        assert (spent.status, spent.json["error"]["code"]) == (429, "insufficient_quota")
        assert spent.headers["retry-after"] == str(12 * 3600)
        assert spent.headers["x-should-retry"] == "false"
        clock[0] += 12 * 3600
        assert (await post_chat(served.port, AS_ADMIN)).status == 200


async def test_anthropic_s_clients_get_anthropic_s_headers(host: ReadyHost) -> None:
    async with serve(host, keys=[alice(rpm=1)], now=lambda: NOON) as served:
        body = {**CHAT, "max_tokens": 5}
        await fetch(served.port, "POST", "/v1/messages", body, headers={"x-api-key": "alice-secret"})
        refused = await fetch(served.port, "POST", "/v1/messages", body, headers={"x-api-key": "alice-secret"})
        assert refused.status == 429
        assert refused.json["error"]["type"] == "rate_limit_error"
        assert refused.headers["anthropic-ratelimit-requests-limit"] == "1"
        assert refused.headers["anthropic-ratelimit-requests-remaining"] == "0"
        assert refused.headers["anthropic-ratelimit-requests-reset"] == "2027-01-29T12:01:00Z"
        assert refused.headers["retry-after"] == "60"


class Gate:
    """An engine whose streams go on until they are let end."""

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def __call__(self, exchange: Exchange) -> None:
        opening, first, rest = chat_stream(["a", "b"], prompt_tokens=9).split(b"\n\n", 2)
        await exchange.begin_stream()
        await exchange.chunk(opening + b"\n\n" + first + b"\n\n")
        await self.open.wait()
        await exchange.chunk(rest)
        await exchange.end_stream()


async def test_an_answer_holds_its_place_until_its_last_byte() -> None:
    gate = Gate()
    async with ScriptedEngine(gate) as engine, serve(ReadyHost(engine), keys=[alice(max_concurrent=1)]) as served:
        async with RawClient(served.port) as client:
            await client.post("/v1/chat/completions", {**CHAT, "stream": True}, headers=AS_ALICE)
            await client.read_until(b"data: ")
            # Before the body has been looked at, let alone its model.
            refused = await fetch(served.port, "POST", "/v1/chat/completions", b"{", headers=AS_ALICE)
            assert refused.status == 429
            assert "max_concurrent" in refused.json["error"]["message"]
            assert refused.headers["retry-after"] == "1"
            # Looking is not asking.
            assert (await fetch(served.port, "GET", "/v1/models", headers=AS_ALICE)).status == 200
            gate.open.set()
            await client.read_until(b"data: [DONE]")
        assert (await post_chat(served.port)).status == 200


async def test_a_client_that_leaves_gives_its_place_back() -> None:
    gate = Gate()
    async with ScriptedEngine(gate) as engine, serve(ReadyHost(engine), keys=[alice(max_concurrent=1)]) as served:
        async with RawClient(served.port) as client:
            await client.post("/v1/chat/completions", {**CHAT, "stream": True}, headers=AS_ALICE)
            await client.read_until(b"data: ")
            client.reset()
        await until(lambda: served.gateway.admission.quotas.running("alice") == 0)
        # What was seen of the answer is charged.
        await until(lambda: served.gateway.traffic.completion_tokens > 0)
        assert served.gateway.admission.ledger.tokens_by_key(utc_day(time.time()))["alice"] > 0
        gate.open.set()
        assert (await post_chat(served.port)).status == 200


# The place in the queue


@pytest.mark.parametrize(
    ("key", "header", "body_bytes", "priority"),
    [
        pytest.param(ALICE, "high", 0, Priority.HIGH, id="as asked"),
        pytest.param(alice(max_priority=Priority.NORMAL), "high", 0, Priority.NORMAL, id="capped"),
        pytest.param(alice(max_priority=Priority.LOW), None, 0, Priority.LOW, id="the usual class is capped too"),
        pytest.param(alice(max_priority=Priority.NORMAL), "low", 0, Priority.LOW, id="lower is allowed"),
        pytest.param(alice(max_priority=Priority.NORMAL), "high", 70_000, Priority.LOW, id="a large body on top"),
    ],
)
async def test_tickets_carry_the_key(
    host: ReadyHost, key: Key, header: str | None, body_bytes: int, priority: Priority
) -> None:
    headers = AS_ALICE if header is None else {**AS_ALICE, "x-blazar-priority": header}
    async with serve(host, keys=[replace(key, weight=4)]) as served:
        await post_chat(served.port, headers, messages=[{"role": "user", "content": "x" * max(1, body_bytes)}])
    (ticket,) = host.tickets
    assert (ticket.key, ticket.weight, ticket.priority) == ("alice", 4, priority)


# What is counted


async def test_tokens_are_counted_by_key_and_model(host: ReadyHost) -> None:
    async with serve(host, keys=[ADMIN, ALICE], now=lambda: NOON) as served:
        await post_chat(served.port)
        await post_chat(served.port, stream=True)
        await post_chat(served.port, AS_ADMIN)
        traffic = served.gateway.traffic
        own = await fetch(served.port, "GET", "/api/usage", headers=AS_ALICE)
        every = await fetch(served.port, "GET", "/api/usage?days=7", headers=AS_ADMIN)
    assert [(row["key"], row["model"], row["requests"]) for row in own.json["usage"]] == [("alice", "m", 2)]
    rows: Sequence[dict[str, Any]] = every.json["usage"]
    assert [(row["day"], row["key"], row["requests"]) for row in rows] == [
        ("2027-01-29", "admin", 1),
        ("2027-01-29", "alice", 2),
    ]
    assert sum(row["prompt_tokens"] for row in rows) == traffic.prompt_tokens > 0
    assert sum(row["completion_tokens"] for row in rows) == traffic.completion_tokens > 0


async def test_an_open_gateway_counts_too(host: ReadyHost) -> None:
    async with serve(host, now=lambda: NOON) as served:
        await post_chat(served.port, {})
        usage = await fetch(served.port, "GET", "/api/usage")
    assert [(row["key"], row["model"], row["requests"]) for row in usage.json["usage"]] == [("", "m", 1)]


async def test_responses_belong_to_their_key(host: ReadyHost) -> None:
    bob = Key(name="bob", hash=hash_secret("bob-secret"))
    async with serve(host, keys=[ALICE, bob], memory=MemoryInProcess()) as served:
        made = await fetch(served.port, "POST", "/v1/responses", {"model": "m", "input": "hi"}, headers=AS_ALICE)
        path = f"/v1/responses/{made.json['id']}"
        assert (await fetch(served.port, "GET", path, headers=bearer("bob-secret"))).status == 404
        assert (await fetch(served.port, "GET", path, headers=AS_ALICE)).status == 200


async def test_a_key_for_an_alias_is_a_key_for_the_model_behind_it(host: ReadyHost) -> None:
    rows = FixedCatalogue(card("m", aliases=("gpt-4o",)), card("other"))
    async with serve(host, catalogue=rows, keys=[ADMIN, alice(models=("gpt-4o",))]) as served:
        for model, status in (("gpt-4o", 200), ("m", 200), ("other", 403)):
            answer = await fetch(
                served.port, "POST", "/v1/chat/completions", {**CHAT, "model": model}, headers=AS_ALICE
            )
            assert answer.status == status
        listed = (await fetch(served.port, "GET", "/v1/models", headers=AS_ALICE)).json["data"]
    assert [entry["id"] for entry in listed] == ["m", "gpt-4o"]
