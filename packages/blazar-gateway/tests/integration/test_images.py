"""Images in every dialect: as data, and by address, which is fetched from where it may be and from nowhere else."""

import base64
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any

import pytest
from aiohttp import web

from blazar_gateway.image_fetch import ImageFetcher
from blazar_gateway.testing import FixedCatalogue, PlainSettings, ReadyHost, ScriptedEngine, card, fetch, serve

PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 40
DATA = "data:image/png;base64," + base64.b64encode(PNG).decode()
SEES = FixedCatalogue(card(capabilities=("completion", "vision")))


def on_loopback(address: IPv4Address | IPv6Address) -> bool:
    """Take this machine for the open internet."""
    return address == ip_address("127.0.0.1")


def chat(url: object) -> tuple[str, dict[str, Any]]:
    part = {"type": "image_url", "image_url": {"url": url, "detail": "low"}}
    return "/v1/chat/completions", {"messages": [{"role": "user", "content": [part]}]}


def chat_with_a_bare_address(url: object) -> tuple[str, dict[str, Any]]:
    return "/v1/chat/completions", {
        "messages": [{"role": "user", "content": [{"type": "image_url", "image_url": url}]}]
    }


def responses(url: object) -> tuple[str, dict[str, Any]]:
    part = {"type": "input_image", "image_url": url}
    return "/v1/responses", {"input": [{"role": "user", "content": [part]}]}


def messages(url: object) -> tuple[str, dict[str, Any]]:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    return "/v1/messages", {"messages": [{"role": "user", "content": [block]}], "max_tokens": 5}


def tool_result(url: object) -> tuple[str, dict[str, Any]]:
    block = {"type": "image", "source": {"type": "url", "url": url}}
    turns = [
        {"role": "user", "content": "look"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [block]}]},
    ]
    return "/v1/messages", {"messages": turns, "max_tokens": 5}


def ollama(url: object) -> tuple[str, dict[str, Any]]:
    return "/api/chat", {"messages": [{"role": "user", "content": "", "images": [url]}], "stream": False}


def generate(url: object) -> tuple[str, dict[str, Any]]:
    return "/api/generate", {"prompt": "look", "images": [url], "stream": False, "context": []}


FORMS = [chat, chat_with_a_bare_address, responses, messages, tool_result, ollama, generate]
Form = Callable[[object], tuple[str, dict[str, Any]]]
Page = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def web_site(**pages: Page) -> AsyncIterator[str]:
    """Serve pages by name; yield the site's address."""
    app = web.Application()
    for name, page in pages.items():
        app.router.add_get(f"/{name}", page)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


def says(body: bytes, content_type: str = "image/png", *, status: int = 200, **headers: str) -> Page:
    async def page(_: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=content_type, status=status, headers=headers)

    return page


def images_sent(engine: ScriptedEngine) -> list[str]:
    """Return the addresses of the images that reached the engine."""
    found = []
    bodies: list[Any] = [exchange.json for exchange in engine.exchanges if exchange.path == "/v1/chat/completions"]
    for body in bodies:
        for message in body["messages"]:
            parts = message["content"] if isinstance(message["content"], list) else []
            found += [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return found


async def ask(
    host: ReadyHost, form: Form, url: object, *, settings: PlainSettings | None = None, allows: Any = on_loopback
) -> Any:
    path, body = form(url)
    async with serve(host, catalogue=SEES, settings=settings, images=ImageFetcher(allows=allows)) as served:
        return await fetch(served.port, "POST", path, {"model": "m", **body})


def text_of(body: Mapping[str, Any]) -> str:
    error = body["error"]
    return str(error if isinstance(error, str) else error["message"])


@pytest.mark.parametrize("form", FORMS)
async def test_an_image_by_address_is_fetched_in_every_dialect(
    host: ReadyHost, engine: ScriptedEngine, form: Form
) -> None:
    async with web_site(x=says(PNG)) as site:
        answer = await ask(host, form, f"{site}/x")
    assert answer.status == 200
    assert images_sent(engine) == [DATA]


@pytest.mark.parametrize("form", FORMS)
async def test_an_image_that_came_with_the_request_reaches_the_engine(
    host: ReadyHost, engine: ScriptedEngine, form: Form
) -> None:
    answer = await ask(host, form, DATA)
    assert answer.status == 200
    assert images_sent(engine) == [DATA]


@pytest.mark.parametrize("form", FORMS)
async def test_an_address_of_this_network_is_refused_in_every_dialect(
    host: ReadyHost, engine: ScriptedEngine, form: Form
) -> None:
    path, body = form("http://127.0.0.1:9/x.png")
    async with serve(host, catalogue=SEES) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", **body})
    assert answer.status == 400
    assert "it is not at a public address" in text_of(answer.json)
    assert (engine.exchanges, host.tickets) == ([], [])


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/latest/meta-data",
        "http://10.0.0.1/x.png",
        "http://[::1]:80/x.png",
        "http://[::ffff:127.0.0.1]/x.png",
        "http://2130706433/x.png",
        "http://127.1/x.png",
        "http://0/x.png",
        "http://localhost:1/x.png",
        "https://localhost/x.png",
    ],
)
async def test_no_spelling_of_a_private_address_is_connected_to(host: ReadyHost, url: str) -> None:
    path, body = chat(url)
    async with serve(host, catalogue=SEES) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", **body})
    assert answer.status == 400
    assert "was not fetched" in answer.json["error"]["message"]


async def test_the_address_that_is_connected_to_counts_not_the_name(
    host: ReadyHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    def resolves_to_this_machine(name: str, port: int, *_: object, **__: object) -> list[Any]:
        assert name == "images.example"
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    monkeypatch.setattr(socket, "getaddrinfo", resolves_to_this_machine)
    fetcher = ImageFetcher()
    try:
        with pytest.raises(Exception, match="it is not at a public address"):
            await fetcher.fetch("https://images.example/x.png", limit_bytes=100)
    finally:
        await fetcher.close()


async def test_a_redirect_into_this_network_is_not_followed(host: ReadyHost, engine: ScriptedEngine) -> None:
    async with web_site(x=says(b"", status=302, Location="http://127.0.0.2:9/secret")) as site:
        answer = await ask(host, chat, f"{site}/x")
    assert answer.status == 400
    assert "it is not at a public address" in answer.json["error"]["message"]
    assert engine.exchanges == []


async def test_redirects_are_followed_so_far(host: ReadyHost, engine: ScriptedEngine) -> None:
    pages = {"x": says(b"", status=302, Location="/y"), "y": says(PNG), "z": says(b"", status=301, Location="/z")}
    async with web_site(**pages) as site:
        assert (await ask(host, chat, f"{site}/x")).status == 200
        looping = await ask(host, chat, f"{site}/z")
    assert images_sent(engine) == [DATA]
    assert "more than 5 redirects" in looping.json["error"]["message"]


@pytest.mark.parametrize(
    ("page", "why"),
    [
        pytest.param(says(b"gone", status=404), "its server answered with status 404", id="status"),
        pytest.param(says(b"<html>", "text/html"), "is not an image, but text/html of 6 bytes", id="a-page"),
        pytest.param(says(b"", "image/png"), "is not an image", id="nothing"),
        pytest.param(says(b"<svg/>", "image/svg+xml"), "is not an image", id="no-pixels"),
        pytest.param(says(b"", status=302, Location="file:///etc/passwd"), "does not lead to a web", id="scheme"),
        pytest.param(says(PNG + b"x" * (1 << 20)), "more than 1 MiB", id="too-large"),
    ],
)
async def test_what_cannot_be_had_says_why(host: ReadyHost, engine: ScriptedEngine, page: Page, why: str) -> None:
    async with web_site(x=page) as site:
        answer = await ask(host, chat, f"{site}/x", settings=PlainSettings(fetch_images_max_mb=1))
    assert answer.status == 400
    assert why in answer.json["error"]["message"]
    assert (engine.exchanges, host.tickets) == ([], [])


async def test_a_body_without_a_length_is_cut_at_the_limit(host: ReadyHost) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "image/png"})
        await response.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await response.write(PNG * 1000)
        return response

    async with web_site(x=endless) as site:
        answer = await ask(host, chat, f"{site}/x", settings=PlainSettings(fetch_images_max_mb=1))
    assert "more than 1 MiB" in answer.json["error"]["message"]


async def test_the_limits_are_for_all_images_together(host: ReadyHost) -> None:
    part = [says(PNG + b"x" * 700_000)] * 2
    async with web_site(x=part[0], y=part[1]) as site:
        parts = [{"type": "image_url", "image_url": {"url": f"{site}/{name}"}} for name in "xy"]
        body = {"model": "m", "messages": [{"role": "user", "content": parts}]}
        settings = PlainSettings(fetch_images_max_mb=1)
        images = ImageFetcher(allows=on_loopback)
        async with serve(host, catalogue=SEES, settings=settings, images=images) as served:
            answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
    assert answer.status == 400
    assert "are left to it" in answer.json["error"]["message"]


async def test_a_server_that_never_answers_is_given_up(host: ReadyHost) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))
        mute.listen()
        url = f"http://127.0.0.1:{mute.getsockname()[1]}/x"
        answer = await ask(host, chat, url, settings=PlainSettings(fetch_images_timeout_secs=0.05))
    assert answer.status == 400
    assert "it did not come within 0.05 s" in answer.json["error"]["message"]


async def test_the_same_address_is_fetched_once(host: ReadyHost, engine: ScriptedEngine) -> None:
    asked = []

    async def page(request: web.Request) -> web.StreamResponse:
        asked.append(dict(request.headers))
        return web.Response(body=PNG, content_type="image/png")

    async with web_site(x=page) as site:
        part = {"type": "image_url", "image_url": {"url": f"{site}/x"}}
        body = {"model": "m", "messages": [{"role": "user", "content": [part, part]}]}
        async with serve(host, catalogue=SEES, images=ImageFetcher(allows=on_loopback)) as served:
            answer = await fetch(
                served.port, "POST", "/v1/chat/completions", body, headers={"Authorization": "Bearer secret"}
            )
    assert answer.status == 200
    assert images_sent(engine) == [DATA, DATA]
    [headers] = asked
    assert not {"Authorization", "Cookie"} & set(headers)


@pytest.mark.parametrize("form", FORMS)
async def test_switched_off_nothing_is_fetched_and_the_text_says_what_to_do(
    host: ReadyHost, engine: ScriptedEngine, form: Form
) -> None:
    answer = await ask(host, form, "https://example.com/x.png", settings=PlainSettings(fetch_images=False))
    assert answer.status == 400
    assert "fetch_images = false" in text_of(answer.json)
    assert engine.exchanges == []


async def test_a_disguised_part_is_found_all_the_same(host: ReadyHost, engine: ScriptedEngine) -> None:
    body = b'{"model":"m","messages":[{"role":"user","content":[{"type":"im\\u0061ge_url","im\\u0061ge_url":"http://127.0.0.1:9/x"}]}]}'
    async with serve(host, catalogue=SEES) as served:
        answer = await fetch(served.port, "POST", "/v1/chat/completions", body)
    assert answer.status == 400
    assert engine.exchanges == []


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "",
        "x.png",
        "ftp://example.com/x",
        7,
        None,
        "data:image/png,raw",
        "data:image/png;base64,",
        "data:image/png;base64,not base64 at all!",
        "data:image/png;base64,ÄÖÜ",
    ],
)
async def test_a_malformed_image_is_refused(host: ReadyHost, engine: ScriptedEngine, url: object) -> None:
    answer = await ask(host, chat, url)
    assert answer.status == 400
    assert answer.json["error"]["type"] == "invalid_request_error"
    assert engine.exchanges == []


@pytest.mark.parametrize(
    "source",
    [
        None,
        "x",
        {},
        {"type": "base64"},
        {"type": "base64", "media_type": "image/png", "data": ""},
        {"type": "base64", "media_type": "image/png", "data": 7},
        {"type": "base64", "media_type": "image/png", "data": "?!"},
        {"type": "url"},
        {"type": "url", "url": ""},
        {"type": "file", "file_id": "file_1"},
    ],
)
async def test_a_malformed_image_block_is_an_invalid_request(
    host: ReadyHost, engine: ScriptedEngine, source: object
) -> None:
    body = {
        "model": "m",
        "max_tokens": 5,
        "messages": [{"role": "user", "content": [{"type": "image", "source": source}]}],
    }
    async with serve(host, catalogue=SEES) as served:
        answer = await fetch(served.port, "POST", "/v1/messages", body)
    assert (answer.status, answer.json["error"]["type"]) == (400, "invalid_request_error")
    assert engine.exchanges == []


async def test_wrapped_and_unpadded_data_is_made_regular(host: ReadyHost, engine: ScriptedEngine) -> None:
    data = base64.encodebytes(PNG + b"x").decode().rstrip("=\n")
    answer = await ask(host, chat, f"data:image/png;base64,{data}")
    assert answer.status == 200
    [sent] = images_sent(engine)
    assert base64.b64decode(sent.partition(",")[2], validate=True) == PNG + b"x"


# --- Sounds and files ------------------------------------------------------------------------------------------------

SOUND = {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}}


@pytest.mark.parametrize(
    ("capabilities", "part", "status"),
    [
        pytest.param(("completion", "audio"), SOUND, 200, id="a-model-that-hears"),
        pytest.param((), SOUND, 200, id="a-model-of-which-nothing-is-known"),
        pytest.param(("completion",), SOUND, 400, id="a-deaf-model"),
        pytest.param(("audio",), {"type": "input_audio", "input_audio": {"data": "UklGRg=="}}, 400, id="no-format"),
        pytest.param(("audio",), {"type": "input_audio", "input_audio": "UklGRg=="}, 400, id="no-object"),
        pytest.param(("completion",), {"type": "file", "file": {"file_data": "x"}}, 400, id="a-file"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/responses"])
async def test_sounds_and_files(
    host: ReadyHost, engine: ScriptedEngine, path: str, capabilities: tuple[str, ...], part: Any, status: int
) -> None:
    rows = FixedCatalogue(card(capabilities=capabilities or ("completion", "audio")))
    if part["type"] == "file" and path == "/v1/responses":
        part = {"type": "input_file", "file_data": "x"}
    turn = {"role": "user", "content": [part]}
    body = {"messages": [turn]} if path == "/v1/chat/completions" else {"input": [turn]}
    async with serve(host, catalogue=rows) as served:
        answer = await fetch(served.port, "POST", path, {"model": "m", **body})
    assert answer.status == status
    if status == 200:
        sent: Any = engine.exchanges[0].json
        assert sent["messages"][0]["content"] == [part]
    else:
        assert host.tickets == []
