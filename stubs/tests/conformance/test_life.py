"""llamacpp.md, sections 1.2, 2, 3.8 and 7: starting, listening, keys, keep-alive, sleep, windows and log lines."""

import os
import re
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blazar_stubs import StubModel, write_stub_model
from blazar_stubs.testing import Dialog, Engine, Launched, Reply, free_port, launched, wait_until

LINE = re.compile(r"^(\d+)\.(\d{2})\.(\d{3})\.(\d{3}) ([DIWEC]) (.*)$")


@pytest.fixture(scope="module")
def keyed(engine: Engine, home: Path, tiny: StubModel) -> Iterator[Launched]:
    """A server on a UNIX socket that wants keys and has nothing optional on."""
    argv = ["-m", tiny.path, "-c", "256", "--host", home / f"{engine.kind}-k.sock", "--api-key", "K1,K2", "--no-slots"]
    with launched(engine, home / f"{engine.kind}-k.log", *argv, "--no-ui") as running:
        yield running


def test_healthy_start_is_told_on_stderr_in_the_known_format(server: Launched, tiny: StubModel) -> None:
    rows = [row for row in server.stderr.splitlines() if LINE.match(row)]
    said = [found[6] for row in rows if (found := LINE.match(row))]
    expected = [
        "common_params_print_info: verbosity = 3 (adjust with the `-lv N` CLI arg)",
        "CORS is set to allow all origins ('*') and no API key is set",
        f"srv    load_model: loading model '{tiny.path}'",
        "srv    load_model: initializing, n_slots = 4, n_ctx_slot = 2048, kv_unified = 'true'",
        "srv  llama_server: model loaded",
        "srv  llama_server: listening on http://127.0.0.1:",
    ]
    places = [next(place for place, text in enumerate(said) if wanted in text) for wanted in expected]
    assert places == sorted(places)
    assert sum(row.split()[1] == "W" and "llama_server:" in row for row in rows) == 5


def test_request_lines_tell_time_and_tokens(server: Launched) -> None:
    server.post("/completion", {"prompt": "hello", "n_predict": 3, "ignore_eos": True})
    wait_until(lambda: "stop processing" in server.stderr, "the request is told")
    for pattern in (
        r"slot print_timing: id +\d+ \| task \d+ \| prompt eval time = +[\d.]+ ms / +\d+ tokens",
        r"slot print_timing: id +\d+ \| task \d+ \| +eval time = +[\d.]+ ms / +3 tokens",
        r"slot print_timing: id +\d+ \| task \d+ \| +total time = +[\d.]+ ms / +\d+ tokens",
        r"slot +release: id +\d+ \| task \d+ \| stop processing: n_tokens = \d+, truncated = 0",
    ):
        assert re.search(pattern, server.stderr), pattern


def test_every_path_is_503_while_loading_with_or_without_a_key(engine: Engine, home: Path) -> None:
    model = write_stub_model(home / "loading.gguf", block_count=48, script={"load_delay_s": 1.0})
    port = free_port()
    argv = ["-m", model.path, "-c", "32768", "-np", "1", "--port", str(port), "--api-key", "K"]
    answer = {"error": {"message": "Loading model", "type": "unavailable_error", "code": 503}}
    seen: list[Reply] = []
    with launched(engine, home / f"{engine.kind}-loading.log", *argv, ready=False) as server:
        while "listening on" not in server.stderr:
            assert server.process.poll() is None
            for path in ("/health", "/nope", "/v1/models"):
                try:
                    with Dialog(("127.0.0.1", port)) as dialog:
                        dialog.send("GET", path)
                        reply = dialog.reply()
                except ConnectionRefusedError:
                    continue
                if reply.status == 503:
                    seen.append(reply)
    assert len(seen) >= 3
    assert all(reply.json() == answer for reply in seen)


@pytest.mark.parametrize(
    ("headers", "enters"),
    [
        pytest.param({"Authorization": "Bearer K1"}, True, id="bearer"),
        pytest.param({"Authorization": "K2"}, True, id="bare"),
        pytest.param({"X-Api-Key": "K1"}, True, id="x-api-key"),
        pytest.param({"X-Api-Key": "Bearer K1"}, True, id="x-api-key-bearer"),
        pytest.param({"Authorization": "", "X-Api-Key": "K1"}, True, id="empty-authorization"),
        pytest.param({}, False, id="none"),
        pytest.param({"Authorization": "bearer K1"}, False, id="lower-case"),
        pytest.param({"Authorization": "Bearer  K1"}, False, id="two-blanks"),
        pytest.param({"api-key": "K1"}, False, id="api-key"),
        pytest.param({"Authorization": "nope", "X-Api-Key": "K1"}, False, id="authorization-wins"),
    ],
)
def test_keys(keyed: Launched, headers: dict[str, str], enters: bool) -> None:
    reply = keyed.request("POST", "/tokenize", {"content": "a"}, headers)
    if enters:
        assert reply.status == 200
        return
    assert (reply.status, reply.header("Connection")) == (401, "close")
    assert reply.json() == {"error": {"message": "Invalid API Key", "type": "authentication_error", "code": 401}}


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/health", 200),
        ("/v1/health", 200),
        ("/models", 200),
        ("/v1/models", 200),
        ("/", 404),
        ("/props", 401),
        ("/slots", 401),
        ("/metrics", 401),
        ("/nope", 401),
    ],
)
def test_public_paths_need_no_key(keyed: Launched, path: str, status: int) -> None:
    assert keyed.request("GET", path).status == status


@pytest.mark.parametrize(
    ("method", "path", "message"),
    [
        ("GET", "/slots", "This server does not support slots endpoint. Start it with `--slots`"),
        ("GET", "/metrics", "This server does not support metrics endpoint. Start it with `--metrics`"),
        ("POST", "/props", "This server does not support changing global properties. Start it with `--props`"),
        ("POST", "/slots/0?action=save", "This server does not support slots action. Start it with `--slot-save-path`"),
    ],
)
def test_what_is_switched_off_is_501(keyed: Launched, method: str, path: str, message: str) -> None:
    reply = keyed.request(method, path, {} if method == "POST" else None, {"Authorization": "K1"})
    assert (reply.status, reply.json()) == (
        501,
        {"error": {"code": 501, "message": message, "type": "not_supported_error"}},
    )


def test_without_alias_the_model_is_its_path(keyed: Launched, tiny: StubModel) -> None:
    assert keyed.get("/v1/models")["data"][0]["id"] == str(tiny.path)


def test_socket_file_is_made_by_umask_and_never_removed(engine: Engine, home: Path, tiny: StubModel) -> None:
    path = home / f"{engine.kind}-u.sock"
    before = os.umask(0o077)
    try:
        with launched(engine, home / f"{engine.kind}-u.log", "-m", tiny.path, "-c", "256", "--host", path) as server:
            assert server.address == str(path)
            assert stat.S_IMODE(path.stat().st_mode) == 0o700
            server.terminate()
            assert server.exit_code() == 0
    finally:
        os.umask(before)
    assert path.is_socket()


def test_aliases_are_a_sorted_set(engine: Engine, home: Path, tiny: StubModel) -> None:
    argv = ["-m", tiny.path, "-c", "256", "-a", "gemma,alias2"]
    with launched(engine, home / f"{engine.kind}-alias.log", *argv) as server:
        (entry,) = server.get("/v1/models")["data"]
        assert (entry["id"], entry["aliases"]) == ("alias2", ["alias2", "gemma"])


# connections -----------------------------------------------------------------------------------------------------


def test_idle_connection_is_closed_after_five_seconds_also_after_an_error(server: Launched) -> None:
    closed: dict[str, float] = {}

    def idle(path: str) -> None:
        with server.dialog() as dialog:
            dialog.send("GET", path)
            dialog.reply()
            started_s = time.monotonic()
            assert dialog.is_closed(within_s=30)
            closed[path] = time.monotonic() - started_s

    threads = [threading.Thread(target=idle, args=(path,)) for path in ("/health", "/nope")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(closed) == ["/health", "/nope"]
    assert all(elapsed_s > 4 for elapsed_s in closed.values())


def test_hundredth_answer_is_the_last(server: Launched) -> None:
    with server.dialog() as dialog:
        last: list[str | None] = []
        for _ in range(100):
            dialog.send("GET", "/health")
            last.append(dialog.reply().header("Connection"))
        assert last == [None] * 99 + ["close"]
        assert dialog.is_closed(within_s=4)


def test_client_that_asks_to_close_is_closed(server: Launched) -> None:
    with server.dialog() as dialog:
        dialog.send("GET", "/health", headers={"Connection": "close"})
        assert dialog.reply().header("Connection") == "close"
        assert dialog.is_closed(within_s=4)


def test_expectation_is_met_and_chunked_bodies_are_read(server: Launched) -> None:
    body = b'{"content":"x"}'
    with server.dialog() as dialog:
        head = f"POST /tokenize HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n"
        dialog.socket.sendall(head.encode())
        assert dialog.head().status == 100
        dialog.socket.sendall(body)
        one = dialog.reply()
        start = b"POST /tokenize HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
        dialog.socket.sendall(start + b'8\r\n{"conten\r\n7\r\nt":"x"}\r\n0\r\n\r\n')
        two = dialog.reply()
    assert one.json() == two.json()
    assert len(one.json()["tokens"]) == 1


def test_garbage_is_a_400(server: Launched) -> None:
    with server.dialog() as dialog:
        dialog.socket.sendall(b"GARBAGE\r\n\r\n")
        assert dialog.reply().status == 400


# windows and memory ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("argv", "slots", "window"),
    [
        pytest.param(["-c", "4096"], 4, 4096, id="auto-slots-share"),
        pytest.param(["-c", "4096", "-np", "4"], 4, 1024, id="four-slots"),
        pytest.param(["-c", "1000", "-np", "3"], 3, 512, id="rounded-up"),
        pytest.param(["-c", "100", "-np", "4"], 4, 256, id="at-least-256"),
        pytest.param(["-c", "0", "-np", "1"], 1, 4096, id="zero-is-training-context"),
        pytest.param(["-c", "65536", "-np", "1"], 1, 4096, id="capped"),
    ],
)
def test_window_of_each_slot(
    engine: Engine, home: Path, tiny: StubModel, argv: list[str], slots: int, window: int
) -> None:
    with launched(engine, home / f"{engine.kind}-w.log", "-m", tiny.path, "--fit", "off", *argv) as server:
        assert [slot["n_ctx"] for slot in server.get("/slots")] == [window] * slots
        props = server.get("/props")
        assert (props["total_slots"], props["default_generation_settings"]["n_ctx"]) == (slots, window)
        capped = "exceeds the training context of the model (4096) - capping" in server.stderr
        assert capped is (argv[1] == "65536")


def figures(text: str, what: str) -> list[float]:
    pattern = rf"(\S+)\s+{what} buffer size =\s+([\d.]+) MiB"
    return [float(found[2]) for found in re.finditer(pattern, text)]


@pytest.mark.parametrize("kind", ["f16", "f32"])
def test_memory_lines_at_level_four(engine: Engine, home: Path, tiny: StubModel, kind: str) -> None:
    argv = ["-m", tiny.path, "-c", "4096", "-np", "4", "-kvu", "-lv", "4", "-ctk", kind, "-ctv", kind, "--fit", "off"]
    with launched(engine, home / f"{engine.kind}-m.log", *argv) as server:
        text = server.stderr
        server.terminate()
        assert server.exit_code() == 0
        # Two layers of two heads of 16 numbers, keys and values, for 4096 tokens.
        kv_mib = 4096 * 2 * 2 * 32 * {"f16": 2, "f32": 4}[kind] / 2**20
        assert sum(figures(text, "KV")) == pytest.approx(kv_mib, abs=0.01)
        assert sum(figures(text, "model")) == pytest.approx(0.14, abs=0.01)
        assert figures(text, "output")
        assert figures(text, "compute")
        size = re.search(
            r"llama_kv_cache: size = +([\d.]+) MiB \( +4096 cells, +2 layers, +4/1 seqs\), K \((\w+)\): +([\d.]+) MiB, V",
            text,
        )
        assert size is not None
        assert float(size[1]) == pytest.approx(kv_mib, abs=0.01)
        assert size[2] == kind
        assert "load_tensors: offloaded 3/3 layers to GPU" in text
        # The real engine's log thread loses its last lines on a busy machine (observed).
        assert "| memory breakdown [MiB] |" in server.stderr or engine.kind == "real"


# sleep -----------------------------------------------------------------------------------------------------------


def test_sleep_and_wake(engine: Engine, home: Path, tiny: StubModel) -> None:
    argv = ["-m", tiny.path, "-c", "256", "-np", "1", "--sleep-idle-seconds", "1", "--metrics"]
    with launched(engine, home / f"{engine.kind}-sleep.log", *argv) as server:
        before = server.post("/completion", {"prompt": "hello", "n_predict": 2, "ignore_eos": True}).json()

        def asleep() -> Any:
            return server.get("/props")["is_sleeping"]

        for method, path, body in [
            ("POST", "/tokenize", {"content": "x"}),
            ("GET", "/metrics", None),
            ("GET", "/slots", None),
            ("GET", "/lora-adapters", None),
        ]:
            wait_until(asleep, "it sleeps")
            assert server.get("/health") == {"status": "ok"}
            assert server.get("/v1/models")["object"] == "list"
            assert asleep()
            assert server.request(method, path, body).status == 200
            assert not asleep()
        assert server.stderr.count("entering sleeping state") >= 8
        assert server.stderr.count("server is exiting sleeping state") >= 4
        assert server.metrics()["llamacpp:tokens_predicted_total"] == before["tokens_predicted"]
        wait_until(asleep, "it sleeps")
        server.terminate()
        assert server.exit_code() == 0


def test_failed_wake_closes_the_connection_and_aborts(engine: Engine, home: Path) -> None:
    model = write_stub_model(home / f"{engine.kind}-gone.gguf")
    argv = ["-m", model.path, "-c", "256", "-np", "1", "--sleep-idle-seconds", "1"]
    with launched(engine, home / f"{engine.kind}-gone.log", *argv) as server:
        wait_until(lambda: server.get("/props")["is_sleeping"], "it sleeps")
        model.path.unlink()
        with server.dialog() as dialog:
            dialog.send("POST", "/tokenize", {"content": "x"})
            assert dialog.is_closed(within_s=60)
        assert server.exit_code() == -signal.SIGABRT
        assert "failed to reload model after sleeping" in server.stderr
        # The real engine's log thread loses its last lines on a busy machine (observed).
        assert "No such file or directory" in server.stderr or engine.kind == "real"


# embeddings ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def embedder(engine: Engine, home: Path, tiny: StubModel) -> Iterator[Launched]:
    argv = ["-m", tiny.path, "-c", "256", "--embeddings", "--pooling", "mean", "-a", "tiny"]
    with launched(engine, home / f"{engine.kind}-e.log", *argv) as running:
        yield running


@pytest.mark.parametrize(
    ("value", "count"),
    [
        pytest.param("hi", 1, id="text"),
        pytest.param(["hi", "there"], 2, id="texts"),
        pytest.param([5, 6], 1, id="tokens"),
        pytest.param([[5, 6], [7]], 2, id="lists-of-tokens"),
    ],
)
def test_embeddings_of_every_kind_of_input(embedder: Launched, value: Any, count: int) -> None:
    body = embedder.post("/v1/embeddings", {"input": value, "model": "echoed"}).json()
    assert list(body) == ["model", "object", "usage", "data"]
    assert (body["model"], body["object"]) == ("echoed", "list")
    assert list(body["usage"]) == ["prompt_tokens", "total_tokens"]
    assert [row["index"] for row in body["data"]] == list(range(count))
    assert all(len(row["embedding"]) == 64 and row["object"] == "embedding" for row in body["data"])


def test_embeddings_in_base64_say_so(embedder: Launched) -> None:
    (row,) = embedder.post("/v1/embeddings", {"input": "hi", "encoding_format": "base64"}).json()["data"]
    assert row["encoding_format"] == "base64"
    assert len(row["embedding"]) == 344


@pytest.mark.parametrize("path", ["/embedding", "/embeddings"])
def test_native_embeddings(embedder: Launched, path: str) -> None:
    (row,) = embedder.post(path, {"content": "hi"}).json()
    assert list(row) == ["index", "embedding"]
    assert [len(vector) for vector in row["embedding"]] == [64]


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        pytest.param({"input": ""}, 400, "Input content cannot be empty", id="empty-text"),
        pytest.param({"input": []}, 500, '"prompt" must not be empty', id="empty-list"),
        pytest.param({}, 400, '"input" or "content" must be provided', id="nothing"),
        pytest.param(
            {"input": "hi", "encoding_format": "int8"}, 400,
            "The format to return the embeddings in. Can be either float or base64", id="unknown-format",
        ),
    ],
)  # fmt: skip
def test_embeddings_refusals(embedder: Launched, body: dict[str, Any], status: int, message: str) -> None:
    reply = embedder.post("/v1/embeddings", body)
    assert (reply.status, reply.json()["error"]["message"]) == (status, message)


def test_unpooled_vectors_are_for_the_native_form_only(engine: Engine, home: Path, tiny: StubModel) -> None:
    argv = ["-m", tiny.path, "-c", "256", "--embeddings", "--pooling", "none"]
    with launched(engine, home / f"{engine.kind}-n.log", *argv) as server:
        refused = server.post("/v1/embeddings", {"input": "hi"})
        message = "Pooling type 'none' is not OAI compatible. Please use a different pooling type"
        assert (refused.status, refused.json()["error"]["message"]) == (400, message)
        (row,) = server.post("/embedding", {"content": [5, 6, 7]}).json()
        assert [len(vector) for vector in row["embedding"]] == [64, 64, 64]


def test_rerank_sorts_and_cuts(engine: Engine, home: Path, tiny: StubModel) -> None:
    with launched(engine, home / f"{engine.kind}-r.log", "-m", tiny.path, "-c", "256", "--reranking") as server:
        body = server.post("/v1/rerank", {"query": "a", "documents": ["b", "a c"], "model": "q"}).json()
        assert list(body) == ["model", "object", "usage", "results"]
        assert body["model"] == "q"
        assert sorted(row["index"] for row in body["results"]) == [0, 1]
        scores = [row["relevance_score"] for row in body["results"]]
        assert scores == sorted(scores, reverse=True)
        cut = server.post("/rerank", {"query": "a", "documents": ["b", "a c"], "top_n": 1}).json()
        assert len(cut["results"]) == 1
        tei = server.post("/reranking", {"query": "a", "texts": ["b"], "return_text": True}).json()
        assert [list(row) for row in tei] == [["index", "score", "text"]]
        for broken, message in [
            ({"documents": ["b"]}, '"query" must be provided'),
            ({"query": "a"}, '"documents" must be a non-empty string array'),
            ({"query": 5, "documents": ["a"]}, '"query" must be a string'),
        ]:
            reply = server.post("/v1/rerank", broken)
            assert (reply.status, reply.json()["error"]["message"]) == (400, message)


# the binary itself -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("b10434")
def test_help_is_the_same_text(engine: Engine, stub_engine: Engine) -> None:
    asked = engine.run("--help")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout == stub_engine.run("--help").stdout
    assert len(asked.stdout.encode()) == 56461


@pytest.mark.usefixtures("b10434")
def test_version_goes_to_stderr(engine: Engine) -> None:
    asked = engine.run("--version")
    assert (asked.returncode, asked.stdout) == (0, "")
    assert asked.stderr == "version: 0.1.0-dev (build 1, commit 7e4c0a9)\nbuilt with GNU 11.4.0 for Linux x86_64\n"


def test_devices_go_to_stdout(engine: Engine) -> None:
    asked = engine.run("--list-devices")
    assert (asked.returncode, asked.stderr) == (0, "")
    assert asked.stdout.startswith("Available devices:\n")


def test_scrubbing_matters_environment_is_heard(engine: Engine, home: Path, tiny: StubModel) -> None:
    heard = Engine(
        engine.kind, engine.executable, {**engine.environ, "LLAMA_ARG_CTX_SIZE": "512", "LLAMA_API_KEY": "K"}
    )
    with launched(heard, home / f"{engine.kind}-env.log", "-m", tiny.path, "-np", "1") as server:
        assert server.request("GET", "/slots").status == 401
        slots = server.request("GET", "/slots", headers={"X-Api-Key": "K"}).json()
        assert [slot["n_ctx"] for slot in slots] == [512]


@pytest.mark.real
def test_real_weights_are_counted_alike(real_engine: Engine, stub_engine: Engine, home: Path, chat_model: Path) -> None:
    seen = []
    for engine in (real_engine, stub_engine):
        with launched(engine, home / f"{engine.kind}-smol.log", "-m", chat_model, "-c", "512", "-lv", "4") as server:
            seen.append((server.get("/v1/models")["data"][0]["meta"], figures(server.stderr, "KV")[-1]))
    assert seen[0] == seen[1]
    assert seen[0][0]["n_params"] == 134_515_008
