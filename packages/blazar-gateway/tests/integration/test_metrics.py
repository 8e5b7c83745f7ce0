"""The daemon's own figures."""

from prometheus_client.parser import text_string_to_metric_families

from blazar_gateway.access.keyring import Key
from blazar_gateway.testing import FixedCatalogue, ReadyHost, card, fetch, serve
from blazar_gateway.testing.residents import FakeResident
from blazar_store.key_secrets import hash_secret

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
ADMIN = Key(name="admin", hash=hash_secret("admin-secret"))
ALICE = Key(name="alice", hash=hash_secret("alice-secret"), models=("m",))
AS_ADMIN, AS_ALICE = {"x-api-key": "admin-secret"}, {"x-api-key": "alice-secret"}


async def samples(port: int) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    answer = await fetch(port, "GET", "/metrics", headers=AS_ADMIN)
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/plain")
    families = text_string_to_metric_families(answer.body.decode())
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for found in families
        for sample in found.samples
    }


async def test_requests_tokens_and_waits_are_told(host: ReadyHost) -> None:
    host.resident.append(FakeResident())
    async with serve(host, keys=[ADMIN, ALICE]) as served:
        await fetch(served.port, "POST", "/v1/chat/completions", CHAT, headers=AS_ALICE)
        await fetch(served.port, "POST", "/v1/chat/completions/", {**CHAT, "stream": True}, headers=AS_ALICE)
        await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "x"}, headers=AS_ALICE)
        await fetch(served.port, "GET", "/v1/models", headers=AS_ALICE)
        await fetch(served.port, "GET", "/v1/models")
        told = await samples(served.port)
        completion_tokens = served.gateway.traffic.completion_tokens
    route = ("route", "/v1/chat/completions")
    assert told["blazar_requests_total", (route, ("status", "200"))] == 2
    assert told["blazar_requests_total", (route, ("status", "404"))] == 1
    assert told["blazar_requests_total", (("route", "other"), ("status", "401"))] == 1
    assert told["blazar_request_seconds_count", (route,)] == 3
    assert told["blazar_first_byte_seconds_count", (route,)] == 1
    assert told["blazar_queue_seconds_count", (("class", "normal"),)] == 2
    who = (("key", "alice"), ("model", "m"))
    assert told["blazar_key_requests_total", who] == 2
    assert told["blazar_tokens_total", (who[0], ("kind", "completion"), who[1])] == completion_tokens > 0
    assert told["blazar_in_hand", (("what", "leases"),)] == 0
    assert told["blazar_child_memory_bytes", (("child", "m"), ("model", "m"))] == 200_000_000


async def test_scoped_keys_see_no_figures(host: ReadyHost) -> None:
    async with serve(host, keys=[ADMIN, ALICE]) as served:
        assert (await fetch(served.port, "GET", "/metrics", headers=AS_ALICE)).status == 403
        assert (await fetch(served.port, "GET", "/metrics")).status == 401


async def test_labels_do_not_grow_with_what_clients_write(host: ReadyHost) -> None:
    async with serve(host, keys=[ADMIN], catalogue=FixedCatalogue(card("m"))) as served:
        before = len(await samples(served.port))
        await fetch(served.port, "POST", "/v1/chat/completions", {**CHAT, "model": "none"}, headers=AS_ADMIN)
        first = len(await samples(served.port))
        for number in range(50):
            body = {**CHAT, "model": f"none{number}"}
            await fetch(served.port, "POST", "/v1/chat/completions", body, headers=AS_ADMIN)
            await fetch(served.port, "GET", f"/nowhere/{number}", headers=AS_ADMIN)
            await fetch(served.port, "GET", "/v1/models", headers={"x-api-key": f"guess-{number}"})
        after = await samples(served.port)
    # Statuses 401 and 404 of other routes are new.
    assert before < first
    assert len(after) <= first + 2
