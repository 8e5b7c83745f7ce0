"""Web pages that call: permitted ones are served, others are refused before any work."""

import pytest

from blazar_gateway.testing import Answer, PlainSettings, ReadyHost, fetch, serve

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
PATH = "/v1/chat/completions"
LOCAL = "http://localhost:3000"
ROUTES = [
    ("POST", PATH),
    ("GET", "/v1/models"),
    ("GET", "/api/tags"),
    ("GET", "/"),
    ("GET", "/nothing"),
    ("OPTIONS", PATH),
]
PREFLIGHT = {
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "authorization,content-type,x-stainless-os,baggage,dangerously-allow-browser",
}


def check_cors(answer: Answer, origin: str) -> None:
    assert answer.headers["access-control-allow-origin"] == origin
    assert answer.headers["vary"] == "Origin"


@pytest.mark.parametrize(("method", "path"), ROUTES)
@pytest.mark.parametrize("origin", ["https://evil.example", "null", "chrome-extension://abc", "app://localhost"])
async def test_foreign_origin_is_refused_on_every_route(host: ReadyHost, method: str, path: str, origin: str) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, method, path, CHAT, headers={"Origin": origin, **PREFLIGHT})
    assert answer.status == 403
    assert "access-control-allow-origin" not in answer.headers
    assert answer.headers["vary"] == "Origin"
    assert answer.headers["x-request-id"]
    assert not host.tickets


@pytest.mark.parametrize(("method", "path"), ROUTES[:-1])
async def test_local_origin_is_served_and_may_read_the_answer(host: ReadyHost, method: str, path: str) -> None:
    async with serve(host) as served:
        check_cors(await fetch(served.port, method, path, CHAT, headers={"Origin": LOCAL}), LOCAL)


async def test_errors_and_streams_can_be_read_too(host: ReadyHost) -> None:
    async with serve(host) as served:
        error = await fetch(served.port, "POST", PATH, b"{", headers={"Origin": LOCAL})
        stream = await fetch(served.port, "POST", PATH, {**CHAT, "stream": True}, headers={"Origin": LOCAL})
    assert error.status == 400
    check_cors(error, LOCAL)
    check_cors(stream, LOCAL)
    assert "x-request-id" in stream.headers["access-control-expose-headers"]


@pytest.mark.parametrize("path", [PATH, "/api/chat", "/v1/messages", "/nothing"])
async def test_preflight_grants_what_it_asks_for(host: ReadyHost, path: str) -> None:
    headers = {"Origin": LOCAL, **PREFLIGHT, "Access-Control-Request-Private-Network": "true"}
    async with serve(host) as served:
        answer = await fetch(served.port, "OPTIONS", path, headers=headers)
    assert (answer.status, answer.body) == (204, b"")
    check_cors(answer, LOCAL)
    assert answer.headers["access-control-allow-headers"] == PREFLIGHT["Access-Control-Request-Headers"]
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-private-network"] == "true"


async def test_bare_options_names_methods(host: ReadyHost) -> None:
    async with serve(host) as served:
        answer = await fetch(served.port, "OPTIONS", PATH)
    assert answer.status == 204
    assert "POST" in answer.headers["allow"]
    assert "vary" not in answer.headers


@pytest.mark.parametrize("origin", ["https://chat.example", "chrome-extension://abc"])
async def test_configured_origins_are_served(host: ReadyHost, origin: str) -> None:
    settings = PlainSettings(allowed_origins=("https://chat.example", "chrome-extension://*"))
    async with serve(host, settings=settings) as served:
        answer = await fetch(served.port, "POST", PATH, CHAT, headers={"Origin": origin})
    assert answer.status == 200
    check_cors(answer, origin)


@pytest.mark.parametrize(("method", "path"), ROUTES)
async def test_foreign_host_name_is_refused_on_every_route(host: ReadyHost, method: str, path: str) -> None:
    async with serve(host) as served:
        rebound = {"Host": "evil.example", "Origin": "http://evil.example"}
        for headers in ({"Host": "evil.example"}, rebound):
            answer = await fetch(served.port, method, path, CHAT, headers=headers)
            assert answer.status == 403
            assert "evil.example" in answer.body.decode()
    assert not host.tickets


async def test_configured_host_name_is_served(host: ReadyHost) -> None:
    async with serve(host, settings=PlainSettings(allowed_hosts=("gpu.lan",))) as served:
        assert (await fetch(served.port, "GET", "/", headers={"Host": "gpu.lan:11435"})).status == 200


async def test_edited_settings_hold_for_the_next_request(host: ReadyHost) -> None:
    async with serve(host) as served:
        assert (await fetch(served.port, "GET", "/", headers={"Host": "gpu.lan"})).status == 403
        edited = PlainSettings(allowed_hosts=("gpu.lan",))
        served.gateway.settings = lambda: edited
        assert (await fetch(served.port, "GET", "/", headers={"Host": "gpu.lan"})).status == 200


async def test_owner_on_the_control_socket_is_not_asked(host: ReadyHost) -> None:
    async with serve(host, control=True) as served:
        headers = {"Host": "evil.example", "Origin": "https://evil.example"}
        answer = await fetch(served.port, "GET", "/api/tags", headers=headers)
    assert answer.status == 200
    assert "access-control-allow-origin" not in answer.headers
