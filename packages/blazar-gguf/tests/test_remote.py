import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from blazar_gguf import GgufChanged, GgufError, GgufWriter, NotGguf, RemoteError, Typed, ValueType, parse_metadata
from blazar_gguf.remote import RemoteSource, read_metadata_url, remote_shards
from blazar_gguf.remote.client import RangeClient
from blazar_gguf.remote.source import FIRST_BLOCK, NEXT_BLOCK
from blazar_gguf.testing import TinyShape, tiny_model

HUGE = 40 << 30
"""Size the server claims for its model; the bytes beyond the header are never made."""


@dataclass
class Served:
    """What the server has, how it misbehaves, and what it was asked."""

    files: dict[str, bytes]
    claimed: int | None = None
    ranges: bool = True
    encoding: str = ""
    status: int | None = None
    shift: int = 0
    redirects: dict[str, str] = field(default_factory=dict)
    tags: Sequence[str] = ('"v1"',)
    stop_after: int | None = None
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    sent: int = 0
    cut_off: threading.Event = field(default_factory=threading.Event)


class Handler(BaseHTTPRequestHandler):
    served: Served

    def do_GET(self) -> None:
        served = self.served
        served.asked.append((self.path, self.headers.get("Range")))
        served.headers.append({k.lower(): v for k, v in self.headers.items()})
        if self.path in served.redirects:
            self.send_response(302)
            self.send_header("Location", served.redirects[self.path])
            self.end_headers()
            return
        data = served.files.get(self.path.partition("?")[0])
        if data is None or served.status is not None:
            self.send_error(served.status or 404)
            return
        with suppress(ConnectionError):
            self._answer(data)

    def _answer(self, data: bytes) -> None:
        served = self.served
        total = served.claimed or len(data)
        wanted = (self.headers.get("Range") or "").removeprefix("bytes=")
        first, last = (int(n) for n in wanted.split("-")) if served.ranges and wanted else (0, total - 1)
        last = min(last, total - 1)
        if first >= total:
            self.send_error(416)
            return
        self.send_response(206 if served.ranges else 200)
        self.send_header("Content-Length", str(last - first + 1))
        self.send_header("ETag", served.tags[min(len(served.asked), len(served.tags)) - 1])
        if served.ranges:
            self.send_header("Content-Range", f"bytes {first + served.shift}-{last}/{total}")
        if served.encoding:
            self.send_header("Content-Encoding", served.encoding)
        self.end_headers()
        self._send(data, first, last + 1)

    def _send(self, data: bytes, first: int, end: int) -> None:
        """Send in pieces, zeros where the claimed file has no bytes, and notice a reader who hangs up."""
        served = self.served
        while first < end:
            if served.stop_after is not None and served.sent >= served.stop_after:
                return
            piece = data[first : min(end, first + (1 << 16))] or bytes(min(end - first, 1 << 16))
            try:
                self.wfile.write(piece)
            except ConnectionError:
                served.cut_off.set()
                raise
            served.sent += len(piece)
            first += len(piece)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test output quiet."""


@contextmanager
def serving(served: Served) -> Iterator[str]:
    """Serve on an ephemeral loopback port and yield the base URL."""
    handler = type("Bound", (Handler,), {"served": served})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)


def _big_header() -> bytes:
    """A header with a vocabulary of some MiB, and keys and tensors behind it."""
    writer = tiny_model("llama", shape=TinyShape(layers=1))
    writer.add("tokenizer.ggml.tokens", [f"a rather long token {n}" for n in range(60_000)])
    writer.add("tokenizer.ggml.scores", [0.0] * 60_000)
    return writer.add("tokenizer.chat_template", "{{ late }}").header()


def test_the_shape_of_a_huge_model_costs_one_request_of_256_kib() -> None:
    served = Served({"/m.gguf": _big_header()}, claimed=HUGE)
    with serving(served) as base:
        meta = read_metadata_url(f"{base}/m.gguf?signature=secret")
        assert (meta.architecture, meta.block_count, meta.vocab_size) == ("llama", 1, 60_000)
        assert (meta.file_bytes, meta.complete) == (HUGE, False)
        assert meta.path == f"{base}/m.gguf"
    assert served.asked == [("/m.gguf?signature=secret", f"bytes=0-{FIRST_BLOCK - 1}")]
    assert served.sent == FIRST_BLOCK


def test_what_lies_behind_the_vocabulary_is_fetched_when_asked_for_and_kept() -> None:
    header = _big_header()
    served = Served({"/m.gguf": header}, claimed=HUGE)
    with serving(served) as base:
        meta = read_metadata_url(f"{base}/m.gguf")
        assert meta.chat_template == "{{ late }}"
        assert meta.complete
        assert meta.tensors == parse_metadata(header)[0].tensors
        requests = len(served.asked)
        tokens = meta.fields["tokenizer.ggml.tokens"]
        assert isinstance(tokens, Sequence)
        assert tokens[59_999] == "a rather long token 59999"
        assert len(served.asked) == requests <= 4
    assert served.sent < len(header) + 2 * NEXT_BLOCK


def test_a_complete_header_can_be_asked_for_at_once() -> None:
    served = Served({"/m.gguf": _big_header()}, claimed=HUGE)
    with serving(served) as base:
        assert read_metadata_url(f"{base}/m.gguf", complete=True).complete


def test_numbers_that_can_be_skipped_are_not_fetched() -> None:
    writer = GgufWriter("llama").add("n", Typed([0] * 8_000_000, ValueType.ARRAY, ValueType.I32)).add("late", 1)
    header = writer.header()
    served = Served({"/m.gguf": header}, claimed=HUGE)
    with serving(served) as base:
        assert read_metadata_url(f"{base}/m.gguf", complete=True).get("late") == 1
    assert served.sent < 2 << 20 < len(header)


@pytest.mark.parametrize("complete", [False, True])
def test_a_server_that_ignores_ranges_is_cut_off(*, complete: bool) -> None:
    served = Served({"/m.gguf": _big_header()}, claimed=HUGE, ranges=False)
    with serving(served) as base:
        if complete:
            with pytest.raises(RemoteError, match="ignores ranges"):
                read_metadata_url(f"{base}/m.gguf", complete=True)
        else:
            meta = read_metadata_url(f"{base}/m.gguf")
            assert (meta.block_count, meta.file_bytes) == (1, HUGE)
            with pytest.raises(RemoteError, match="Download the file"):
                _ = meta.tensors
        assert served.cut_off.wait(30)
    assert len(served.asked) == 1
    assert served.sent < 16 << 20


def test_a_small_file_is_read_even_without_ranges() -> None:
    data = tiny_model("llama", shape=TinyShape(layers=1)).to_bytes()
    with serving(Served({"/m.gguf": data}, ranges=False)) as base:
        meta = read_metadata_url(f"{base}/m.gguf")
        assert (meta.complete, meta.file_bytes, meta.missing_bytes) == (True, len(data), 0)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param({"status": 404}, "no such file", id="404"),
        pytest.param({"status": 401}, "may need a token", id="401"),
        pytest.param({"status": 403}, "may need a token", id="403"),
        pytest.param({"status": 429}, "slow down", id="429"),
        pytest.param({"status": 500}, "HTTP 500", id="500"),
        pytest.param({"encoding": "gzip"}, "compresses", id="compressed"),
        pytest.param({"shift": 7}, "another range", id="another range"),
        pytest.param({"stop_after": 65_536}, "ended", id="short body"),
    ],
)
def test_what_goes_wrong_is_said_in_words(change: dict[str, int | str], message: str) -> None:
    served = Served({"/m.gguf": _big_header()}, claimed=HUGE)
    for name, value in change.items():
        setattr(served, name, value)
    with serving(served) as base, pytest.raises(RemoteError, match=message) as caught:
        read_metadata_url(f"{base}/m.gguf")
    assert caught.value.path == f"{base}/m.gguf"


def test_an_html_page_is_no_model() -> None:
    with serving(Served({"/m.gguf": b"<!DOCTYPE html>" * 10})) as base, pytest.raises(NotGguf, match="HTML page"):
        read_metadata_url(f"{base}/m.gguf")


def test_a_file_that_changes_between_requests_is_noticed() -> None:
    served = Served({"/m.gguf": _big_header()}, claimed=HUGE, tags=('"v1"', '"v2"'))
    with serving(served) as base:
        meta = read_metadata_url(f"{base}/m.gguf")
        with pytest.raises(GgufChanged, match="changed"):
            _ = meta.tensors


def test_a_hostile_header_cannot_make_it_fetch_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("blazar_gguf.remote.source.MAX_HEADER_BYTES", 3 << 20)
    writer = GgufWriter("llama").add("tokens", ["x" * 1000] * 5000)
    served = Served({"/m.gguf": writer.header()}, claimed=HUGE)
    with serving(served) as base, pytest.raises(RemoteError, match="takes more than"):
        read_metadata_url(f"{base}/m.gguf", complete=True)


def test_a_server_that_never_answers_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/m.gguf"
        with pytest.raises(RemoteError, match=r"did not answer within 0\.2 s"):
            read_metadata_url(url, timeout_s=0.2)


def test_nobody_listening_is_said_in_words() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(RemoteError, match="cannot read from"):
        read_metadata_url(f"http://127.0.0.1:{port}/m.gguf")


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "ftp://x/y", "m.gguf", "http://", "http://[::1", "https://h:99999/x"]
)
def test_only_http_urls_are_opened(url: str) -> None:
    with pytest.raises(RemoteError):
        read_metadata_url(url)


class TestRedirects:
    def test_are_followed(self) -> None:
        data = tiny_model("llama", shape=TinyShape(layers=1)).to_bytes()
        served = Served({"/real.gguf": data}, redirects={"/m.gguf": "/step", "/step": "/real.gguf?x=1"})
        with serving(served) as base:
            assert read_metadata_url(f"{base}/m.gguf").architecture == "llama"

    def test_do_not_go_round_for_ever(self) -> None:
        served = Served({}, redirects={"/a": "/b", "/b": "/a"})
        with serving(served) as base, pytest.raises(RemoteError, match="more than 5 redirects"):
            read_metadata_url(f"{base}/a")
        assert len(served.asked) == 6

    @pytest.mark.parametrize("target", ["file:///etc/passwd", "ftp://127.0.0.1/x", "gopher://x"])
    def test_do_not_leave_http(self, target: str) -> None:
        served = Served({}, redirects={"/m.gguf": target})
        with serving(served) as base, pytest.raises(RemoteError, match="only http"):
            read_metadata_url(f"{base}/m.gguf")

    def test_are_shown_to_the_check_each_time(self) -> None:
        seen: list[str] = []

        def check(url: str) -> bool:
            seen.append(url)
            return "forbidden" not in url

        canary = Served({"/forbidden.gguf": b"GGUF"})
        with serving(canary) as other:
            served = Served({}, redirects={"/m.gguf": f"{other}/forbidden.gguf"})
            with serving(served) as base, pytest.raises(RemoteError, match="not an allowed source"):
                read_metadata_url(f"{base}/m.gguf", check=check)
        assert len(seen) == 2
        assert canary.asked == []

    def test_take_credentials_along_only_on_the_same_host(self) -> None:
        data = tiny_model("llama", shape=TinyShape(layers=1)).to_bytes()
        elsewhere = Served({"/m.gguf": data})
        with serving(elsewhere) as other:
            served = Served({}, redirects={"/m.gguf": "/again", "/again": f"{other}/m.gguf"})
            with serving(served) as base:
                read_metadata_url(f"{base}/m.gguf", headers={"Authorization": "Bearer t", "X-Plain": "p"})
        assert [h.get("authorization") for h in served.headers] == ["Bearer t", "Bearer t"]
        assert elsewhere.headers[0].get("authorization") is None
        assert elsewhere.headers[0]["x-plain"] == "p"

    def test_from_a_public_address_to_a_private_one_are_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answers = iter([True, False])
        monkeypatch.setattr("blazar_gguf.remote.client._is_public", lambda _: next(answers))
        served = Served({"/inside": b"secret"}, redirects={"/m.gguf": "/inside"})
        with serving(served) as base, pytest.raises(RemoteError, match="from a public address"):
            read_metadata_url(f"{base}/m.gguf")
        assert served.asked == [("/m.gguf", f"bytes=0-{FIRST_BLOCK - 1}")]

    def test_do_not_leave_encryption(self) -> None:
        with pytest.raises(RemoteError, match="leave encryption"):
            RangeClient._redirected(urlsplit("https://h/x"), "http://h/x")


@pytest.mark.parametrize(
    ("address", "public"),
    [
        ("8.8.8.8", True),
        ("2001:4860:4860::8888", True),
        ("127.0.0.1", False),
        ("169.254.169.254", False),
        ("10.0.0.1", False),
        ("100.64.0.1", False),
        ("::1", False),
        ("fe80::1%eth0", False),
        ("/run/x.sock", False),
        ("", False),
    ],
)
def test_which_addresses_are_public(address: str, *, public: bool) -> None:
    from blazar_gguf.remote.client import _is_public

    assert _is_public(address) is public


class TestShards:
    def test_sizes_of_all_parts_cost_a_byte_each(self) -> None:
        served = Served({f"/d/m-0000{n}-of-00003.gguf": bytes(1000 * n) for n in (1, 2, 3)})
        with serving(served) as base:
            found = remote_shards(f"{base}/d/m-00002-of-00003.gguf?t=1")
        assert found.sizes == (1000, 2000, 3000)
        assert found.total_bytes == 6000
        assert found.urls[0] == f"{base}/d/m-00001-of-00003.gguf?t=1"
        assert served.sent == 3

    def test_a_missing_part_is_named(self) -> None:
        served = Served({"/m-00001-of-00002.gguf": b"x"})
        with serving(served) as base, pytest.raises(RemoteError, match=r"m-00002-of-00002\.gguf.*no such file"):
            remote_shards(f"{base}/m-00001-of-00002.gguf")

    def test_a_model_in_one_file(self) -> None:
        with serving(Served({"/m.gguf": bytes(77)})) as base:
            assert remote_shards(f"{base}/m.gguf").sizes == (77,)


def test_a_proxy_is_used_where_one_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    data = tiny_model("llama", shape=TinyShape(layers=1)).to_bytes()
    url = "http://models.example/m.gguf"
    proxy = Served({url: data})
    with serving(proxy) as base:
        monkeypatch.setenv("http_proxy", base)
        monkeypatch.setenv("no_proxy", "")
        assert read_metadata_url(url).architecture == "llama"
    assert [path for path, _ in proxy.asked] == [url]


def test_a_source_counts_its_requests_and_serves_ranges_from_what_it_has() -> None:
    data = bytes(range(256)) * 8192
    with serving(Served({"/x": data})) as base:
        source = RemoteSource(f"{base}/x")
        assert source.read_at(10, 5) == data[10:15]
        assert source.read_at(FIRST_BLOCK - 2, 4) == data[FIRST_BLOCK - 2 : FIRST_BLOCK + 2]
        assert source.read_at(len(data) - 3, 99) == data[-3:]
        assert (source.requests, source.size) == (3, len(data))


@pytest.mark.parametrize("cut", [3, 20, 200, 5000])
def test_a_header_that_ends_early_on_the_server_is_a_gguf_error(cut: int, tmp_path: Path) -> None:
    data = tiny_model("llama", shape=TinyShape(layers=1)).header()[:cut]
    with serving(Served({"/m.gguf": data})) as base, pytest.raises(GgufError):
        read_metadata_url(f"{base}/m.gguf", complete=True)
