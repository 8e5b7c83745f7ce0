"""Registering a binary: what is an engine, what is not, and why."""

import struct
from pathlib import Path

import pytest

from blazar_routing.errors import NotAnEngine
from blazar_store.types import EngineRow
from blazar_stubs import Variant, install_stub
from blazar_stubs.testing import wait_until
from blazar_supervisor.builds import add_local, probe_binary
from blazar_supervisor.builds.executable import foreign_format
from blazar_supervisor.children.identity import is_running
from blazar_supervisor.engines.versions import parse_version


class Register:
    """Keeps rows as the store does."""

    def __init__(self) -> None:
        self.rows: list[EngineRow] = []

    def add_local_engine(self, row: EngineRow) -> EngineRow:
        self.rows.append(row)
        return row


def script(path: Path, body: str, *, mode: int = 0o755) -> Path:
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(mode)
    return path


def elf(path: Path, *, machine: int) -> Path:
    path.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HH", 2, machine) + bytes(44))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("variant", "version", "commit", "devices"),
    [
        pytest.param(Variant.B10434, "0.1.0-dev", "7e4c0a9", 0, id="semantic"),
        pytest.param(Variant.CLASSIC, "9760", "6ee0f6579", 0, id="counted"),
        pytest.param(Variant.ONE_GPU, None, None, 1, id="one-gpu"),
        pytest.param(Variant.SEVERAL_GPUS, None, None, 3, id="several-gpus"),
        pytest.param(Variant.ZERO_MEMORY, None, None, 1, id="devices-without-memory-do-not-count"),
        pytest.param(Variant.UNDERSCORE, None, None, 0, id="underscores"),
    ],
)
def test_a_server_is_registered_with_what_it_says_of_itself(
    tmp_path: Path, variant: Variant, version: str | None, commit: str | None, devices: int
) -> None:
    path = install_stub(tmp_path / "bin", variant=variant)
    register = Register()
    row = add_local(register, path, now_s=lambda: 1234.4)
    assert (row.kind, row.server_path, row.local, row.installed_at) == ("llamacpp", path, True, 1234)
    assert register.rows == [row]
    if version is not None:
        assert (row.version, row.commit) == (version, commit)
    binary = probe_binary(path)
    assert len(binary.devices) == devices
    assert binary.version is not None
    assert binary.manifest.find("--kv-unified") is not None


def test_a_relative_path_becomes_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_stub(tmp_path / "bin")
    monkeypatch.chdir(tmp_path)
    assert add_local(Register(), Path("bin/llama-server")).server_path == tmp_path / "bin" / "llama-server"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(
            'echo "llama-server: error while loading shared libraries: libgomp.so.1: cannot open" >&2; exit 127',
            "it needs the shared library libgomp.so.1, which is missing: Debian and Ubuntu have it in the package libgomp1",
            id="missing-library",
        ),
        pytest.param("echo hello", "its --help does not list llama-server's flags", id="something-else"),
        pytest.param(
            "printf -- '-m,    --model FNAME                    the model\\n'",
            "it is another program of llama.cpp",
            id="llama-cli",
        ),
        pytest.param(
            "printf -- '--models-dir PATH                       models of the router\\n'",
            "it is a router without a model of its own",
            id="router",
        ),
        pytest.param("echo 'Usage: ollama serve, run, pull'", "it is Ollama", id="ollama"),
        pytest.param("echo 'llama-swap [options]'", "it is llama-swap", id="llama-swap"),
        pytest.param("kill -ILL $$", "SIGILL: it uses processor instructions that this machine lacks", id="sigill"),
        pytest.param("sleep 600", "it did not answer `--help` within", id="hangs"),
    ],
)
def test_what_is_no_engine_is_refused_with_the_reason(tmp_path: Path, body: str, reason: str) -> None:
    register = Register()
    with pytest.raises(NotAnEngine) as caught:
        add_local(register, script(tmp_path / "llama-server", body), timeout_s=2.0 if "sleep" in body else 60.0)
    assert reason in caught.value.reason
    assert "add-local" in str(caught.value)
    assert register.rows == []


def test_a_hanging_binary_leaves_no_process(tmp_path: Path) -> None:
    marker = tmp_path / "pid"
    body = f"sleep 600 & echo $! > {marker}; wait"
    with pytest.raises(NotAnEngine):
        probe_binary(script(tmp_path / "llama-server", body), timeout_s=3.0)
    pid = int(marker.read_text())
    wait_until(lambda: not is_running(pid), "the helper of the hanging binary ends")


def test_a_file_that_is_not_executable_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(NotAnEngine, match="chmod"):
        probe_binary(script(tmp_path / "llama-server", "echo", mode=0o644))


def test_a_missing_file_a_directory_and_what_lies_in_it(tmp_path: Path) -> None:
    with pytest.raises(NotAnEngine, match="no such file"):
        probe_binary(tmp_path / "nothing")
    with pytest.raises(NotAnEngine, match="it is a directory"):
        probe_binary(tmp_path)
    inside = install_stub(tmp_path / "build" / "bin")
    with pytest.raises(NotAnEngine, match=f"it holds {inside}"):
        probe_binary(tmp_path)


def test_a_missing_interpreter_is_told(tmp_path: Path) -> None:
    path = tmp_path / "llama-server"
    path.write_text("#!/nonexistent/python\n")
    path.chmod(0o755)
    with pytest.raises(NotAnEngine, match="interpreter or loader that it names is missing"):
        probe_binary(path)


@pytest.mark.parametrize(
    ("system", "machine", "built_for", "reason"),
    [
        pytest.param("linux", "x86_64", 62, None, id="same"),
        pytest.param("linux", "aarch64", 183, None, id="same-arm"),
        pytest.param("linux", "x86_64", 183, "it is built for ARM64, and this machine is x86_64", id="arm-on-x86"),
        pytest.param("linux", "aarch64", 62, "it is built for x86-64, and this machine is aarch64", id="x86-on-arm"),
        pytest.param(
            "linux", "x86_64", 9999, "it is built for another processor, and this machine is x86_64", id="odd"
        ),
        pytest.param("linux", "unheard-of", 62, None, id="a-machine-we-do-not-know"),
        pytest.param("darwin", "arm64", 62, "it is a program for Linux", id="linux-on-macos"),
    ],
)
def test_the_machine_a_program_is_built_for(
    tmp_path: Path, system: str, machine: str, built_for: int, reason: str | None
) -> None:
    assert foreign_format(elf(tmp_path / "x", machine=built_for), system=system, machine=machine) == reason


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        pytest.param(b"MZ\x90", "it is a program for Windows", id="windows"),
        pytest.param(b"\xcf\xfa\xed\xfe", "it is a program for macOS", id="macos"),
        pytest.param(b"GGUF\x03", "it is a model file; add it with `blazar models add PATH`", id="model"),
        pytest.param(
            b"\x1f\x8b\x08", "it is an archive; unpack it and give the path of llama-server inside", id="gzip"
        ),
        pytest.param(b"hello", "it is neither a program nor a script", id="text"),
        pytest.param(b"\x7fELF", "it is an executable that was cut short", id="cut"),
    ],
)
def test_what_a_file_is_if_it_is_no_program_for_here(tmp_path: Path, head: bytes, reason: str) -> None:
    path = tmp_path / "x"
    path.write_bytes(head)
    assert foreign_format(path, system="linux", machine="x86_64") == reason


@pytest.mark.parametrize(
    ("text", "version", "build", "commit"),
    [
        pytest.param("version: 9760 (6ee0f6579)\nbuilt with cc", "9760", 9760, "6ee0f6579", id="counted"),
        pytest.param("version: 0.1.0-dev (build 1, commit 7e4c0a9)", "0.1.0-dev", 1, "7e4c0a9", id="semantic"),
        pytest.param("ggml_cuda_init: found 1\nversion: 0.4.1-dev (build 11026, commit b49650adb)", "0.4.1-dev", 11026,
                     "b49650adb", id="after-gpu-lines"),
        pytest.param("version: 1 (unknown)", "1", 1, "", id="no-commit"),
    ],
)  # fmt: skip
def test_versions_are_found_wherever_they_stand(text: str, version: str, build: int, commit: str) -> None:
    found = parse_version(text)
    assert found is not None
    assert (found.version, found.build, found.commit) == (version, build, commit)


def test_a_text_without_a_version_has_none() -> None:
    assert parse_version("llama") is None
