"""The stub's own machinery, without a process."""

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from blazar_stubs import StubModel, install_stub, write_stub_model
from blazar_stubs.llama_server.flags import CommandLine, UsageError, parse_help
from blazar_stubs.llama_server.gguf_header import LoadError, read_header
from blazar_stubs.llama_server.knobs import KnobError
from blazar_stubs.llama_server.probes import help_text
from blazar_stubs.llama_server.reactor import Flag, Reactor
from blazar_stubs.llama_server.scripts import Playbook, find_directive, without_directives
from blazar_stubs.llama_server.tokenizer import detokenize, piece_of, pieces_of, tokenize
from blazar_stubs.llama_server.wire import BadRequest, RequestParser, unquote

FLAGS = parse_help(help_text({}))


# command line ----------------------------------------------------------------------------------------------------


def test_help_text_has_the_known_counts() -> None:
    assert len(FLAGS) == 248
    spellings = [spelling for flag in FLAGS for spelling in flag.spellings]
    assert (len(spellings), len(set(spellings))) == (405, 405)
    assert sum(spelling.startswith("--") for spelling in spellings) == 322
    assert sum(not flag.placeholder for flag in FLAGS) == 64
    assert sum(len(flag.spellings) for flag in FLAGS if flag.removed) == 8


@pytest.mark.parametrize(
    ("argv", "environ", "value"),
    [
        pytest.param(["-kvu"], {}, True, id="positive"),
        pytest.param(["--no-kv-unified"], {}, False, id="negative"),
        pytest.param(["-no-kvu"], {}, False, id="short-negative"),
        pytest.param(["-kvu", "-no-kvu"], {}, False, id="later-wins"),
        pytest.param([], {"LLAMA_ARG_KV_UNIFIED": "0"}, False, id="environment"),
        pytest.param(["-kvu"], {"LLAMA_ARG_KV_UNIFIED": "0"}, True, id="flag-beats-environment"),
        pytest.param([], {}, None, id="absent"),
    ],
)
def test_switches(argv: list[str], environ: dict[str, str], value: bool | None) -> None:
    assert CommandLine(FLAGS, argv, environ).switch("-kvu") is value


def test_numbers_are_read_as_stoi_does() -> None:
    line = CommandLine(FLAGS, ["-c", "12abc", "--sleep-idle-seconds", "-1", "-ngl", "auto"], {})
    assert (line.number("--ctx-size", 0), line.number("--sleep-idle-seconds", 5), line.number("-ngl", 7)) == (12, -1, 7)


def test_overridden_environment_is_warned_of() -> None:
    line = CommandLine(FLAGS, ["-c", "1"], {"LLAMA_ARG_CTX_SIZE": "2"})
    assert line.warnings == [
        "warn: LLAMA_ARG_CTX_SIZE environment variable is set, but will be overwritten by command line argument -c"
    ]


@pytest.mark.parametrize(
    "argv", [["--prio", "7"], ["--pooling", "x"], ["--temp", "warm"], ["-fa", "maybe"], ["-sm", "x"]]
)
def test_values_upstream_refuses(argv: list[str]) -> None:
    with pytest.raises(UsageError, match="error while handling argument"):
        CommandLine(FLAGS, argv, {})


# models ----------------------------------------------------------------------------------------------------------


def test_stub_model_is_a_complete_small_llama(tmp_path: Path) -> None:
    model = write_stub_model(tmp_path / "a.gguf", context_length=8192, block_count=3, tools=True, thinking=True)
    header = read_header(str(model.path))
    assert (header.architecture, header.number("context_length"), header.number("block_count")) == ("llama", 8192, 3)
    assert len(header.tensors) == 2 + 9 * 3
    assert header.text("general.name") == "a"
    template = header.text("tokenizer.chat_template")
    assert "tools" in template
    assert "<think>" in template
    assert model.path.stat().st_blocks * 512 < 64 * 1024


def test_heavy_model_costs_nothing_on_disk(tmp_path: Path) -> None:
    model = write_stub_model(tmp_path / "heavy.gguf", weights_bytes=14 << 30)
    header = read_header(str(model.path))
    weights = sum(tensor.size_bytes for tensor in header.tensors)
    assert weights == pytest.approx(14 << 30, rel=0.01)
    assert model.path.stat().st_size > weights
    assert model.path.stat().st_blocks * 512 < 64 * 1024


@pytest.mark.parametrize("kind", ["F32", "F16", "Q4_0", "Q8_0"])
def test_weight_types(tmp_path: Path, kind: str) -> None:
    header = read_header(str(write_stub_model(tmp_path / "a.gguf", weight_type=kind).path))
    assert header.file_type.replace("all ", "") == kind


def test_every_cut_of_the_header_is_refused(tmp_path: Path) -> None:
    whole = write_stub_model(tmp_path / "whole.gguf").path.read_bytes()
    cut = tmp_path / "cut.gguf"
    for length in (0, 3, 4, 10, 24, 100, 4000, 8000, len(whole) - 1):
        cut.write_bytes(whole[:length])
        with pytest.raises(LoadError):
            read_header(str(cut))


def test_array_that_claims_to_be_endless_is_refused_quickly(tmp_path: Path) -> None:
    path = tmp_path / "endless.gguf"
    key = struct.pack("<Q", 1) + b"k"
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key + struct.pack("<IIQ", 9, 4, 2**60))
    with pytest.raises(LoadError) as caught:
        read_header(str(path))
    assert caught.value.reader_line == "gguf_init_from_reader: failed to read key-value pairs"


def test_waiting_for_events_gives_up_with_what_there_is(tmp_path: Path) -> None:
    model = StubModel(tmp_path / "m.gguf")
    with pytest.raises(TimeoutError, match="events: \\[\\]"):
        model.wait_for(lambda events: bool(events), timeout_s=0.05)


# tokens ----------------------------------------------------------------------------------------------------------


@given(st.text())
def test_tokens_and_text_are_inverse(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    assert detokenize(tokenize(text)) == text
    assert "".join(pieces_of(text)) == text


@given(st.text(), st.text())
def test_pieces_never_cut_a_character(left: str, right: str) -> None:
    assert all(len(piece_of(token).encode("utf-8", "replace")) <= 17 for token in tokenize(left + right, special=False))
    assert "\ufffd" not in "".join(pieces_of((left + right).replace("\ufffd", "")))


def test_marks_are_single_tokens_where_special() -> None:
    assert tokenize("<|im_start|>a") == [3, 353]
    assert len(tokenize("<|im_start|>a", special=False)) > 2


# scripts ---------------------------------------------------------------------------------------------------------


def directive(**script: Any) -> str:
    return f"[[stub: {json.dumps(script)}]]"


@pytest.mark.parametrize(
    ("body", "found"),
    [
        pytest.param({"prompt": directive(text="a")}, {"text": "a"}, id="text"),
        pytest.param({"prompt": f"x {directive(text='a')} y {directive(text=']]')}"}, {"text": "]]"}, id="last-wins"),
        pytest.param({"messages": [{"content": directive(text="old")}, {"content": directive(text="new")}]}, {"text": "new"}, id="last-message"),
        pytest.param({"messages": [{"content": [{"type": "text", "text": directive(n_tokens=2)}]}]}, {"n_tokens": 2}, id="part"),
        pytest.param({"prompt": "plain"}, None, id="none"),
    ],
)  # fmt: skip
def test_directives_are_found(body: Any, found: Any) -> None:
    assert find_directive(body) == found


def test_broken_directive_is_an_error() -> None:
    with pytest.raises(KnobError, match="directive is not JSON"):
        find_directive("[[stub: {text: a}]]")


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"hello {directive(text=']]')} there", "hello  there"),
        (directive(text="a"), ""),
        ("[[stub: broken", "[[stub: broken"),
        ("plain", "plain"),
    ],
)
def test_directives_are_cut_out(text: str, left: str) -> None:
    assert without_directives(text) == left


def test_model_sidecar_wins_over_the_executables(tmp_path: Path) -> None:
    engine = install_stub(tmp_path, knobs={"load_delay_s": 1, "bind_delay_s": 2})
    model = write_stub_model(tmp_path / "m.gguf", script={"load_delay_s": 3})
    playbook = Playbook(str(engine), str(model.path), {"BLAZAR_STUB": '{"token_delay_s": 4}'})
    assert playbook.knobs == {"load_delay_s": 3, "bind_delay_s": 2, "token_delay_s": 4}


def test_scripts_without_a_path_are_for_generating_requests(tmp_path: Path) -> None:
    model = write_stub_model(
        tmp_path / "m.gguf", script={"requests": [{"text": "x"}, {"path": "/props", "status": 500}]}
    )
    playbook = Playbook("", str(model.path), {})
    assert playbook.take("/props", b"", generates=False) == {"path": "/props", "status": 500}
    assert playbook.take("/health", b"", generates=False) == {}
    assert playbook.take("/v1/completions", b"{}", generates=True) == {"text": "x"}


# HTTP ------------------------------------------------------------------------------------------------------------

STREAM = (
    b"POST /a%20b?x=1+2&y=%C3%A9 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc"
    b"POST /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nde\r\n1;x=y\r\nf\r\n0\r\n\r\n"
    b"GET /d HTTP/1.1\r\nX: 1\r\nX: 2\r\n\r\n"
)


@given(st.lists(st.integers(1, len(STREAM) - 1)))
def test_requests_are_the_same_however_the_bytes_are_cut(cuts: list[int]) -> None:
    parser = RequestParser()
    edges = [0, *sorted(cuts), len(STREAM)]
    found = []
    for start, end in pairwise(edges):
        parser.feed(STREAM[start:end])
        while (request := parser.next_request()) is not None:
            found.append((request.path, request.query, request.body, request.headers))
    assert found == [
        ("/a b", {"x": "1 2", "y": "é"}, b"abc", [("Host", "h"), ("Content-Length", "3")]),
        ("/c", {}, b"def", [("Transfer-Encoding", "chunked")]),
        ("/d", {}, b"", [("X", "1"), ("X", "2")]),
    ]
    assert parser.is_empty


@pytest.mark.parametrize(
    "data",
    [
        b"GARBAGE\r\n\r\n",
        b"GET / HTTP/2\r\n\r\n",
        b"GET / HTTP/1.1\r\nno colon\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
    ],
)
def test_what_is_not_http_is_refused(data: bytes) -> None:
    parser = RequestParser()
    parser.feed(data)
    with pytest.raises(BadRequest):
        parser.next_request()


@pytest.mark.parametrize(("text", "plain"), [("a%2Fb", "a/b"), ("%zz", "%zz"), ("%C3%A9", "é"), ("", "")])
def test_percent_encoding(text: str, plain: str) -> None:
    assert unquote(text) == plain


# reactor ---------------------------------------------------------------------------------------------------------


def test_timers_run_in_order_of_their_time_and_cancelled_ones_do_not() -> None:
    reactor = Reactor()
    seen: list[str] = []
    reactor.call_later(0.02, lambda: seen.append("later"))
    reactor.call_later(0.01, lambda: seen.append("sooner"))
    reactor.call_later(0.015, lambda: seen.append("never")).cancel()
    reactor.call_later(0.03, reactor.stop)
    reactor.run()
    assert seen == ["sooner", "later"]
    reactor.close()


def test_flag_wakes_all_who_wait_or_times_out() -> None:
    reactor = Reactor()
    flag = Flag(reactor)
    seen: list[tuple[str, bool]] = []

    async def wait(name: str, timeout_s: float | None) -> None:
        seen.append((name, await flag.wait(timeout_s)))

    async def conduct() -> None:
        await reactor.sleep(0.05)
        flag.set()
        await reactor.sleep(0.01)
        reactor.stop()

    for name, timeout_s in (("impatient", 0.01), ("patient", 5.0), ("endless", None)):
        reactor.spawn(wait(name, timeout_s))
    reactor.spawn(conduct())
    reactor.run()
    assert seen == [("impatient", False), ("patient", True), ("endless", True)]
    reactor.close()


def test_exception_in_a_coroutine_ends_the_loop() -> None:
    reactor = Reactor()

    async def fail() -> None:
        await reactor.pause()
        raise ZeroDivisionError

    reactor.spawn(fail())
    with pytest.raises(ZeroDivisionError):
        reactor.run()
    reactor.close()
