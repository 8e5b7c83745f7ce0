import subprocess
import sys
import tracemalloc
from pathlib import Path

import pytest

import blazar_gguf
from blazar_gguf import GgufWriter, errors, peek_header, read_metadata_file

IMPORTED = "import blazar_gguf, sys; print(' '.join(sorted(sys.modules)))"


def test_importing_it_opens_no_door_to_the_network() -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTED], capture_output=True, text=True, check=True)
    loaded = set(done.stdout.split())
    assert not loaded & {"socket", "ssl", "http.client", "urllib.request", "asyncio", "blazar_gguf.remote"}


def test_everything_promised_is_there() -> None:
    assert sorted(blazar_gguf.__all__) == sorted(set(blazar_gguf.__all__))
    for name in blazar_gguf.__all__:
        assert getattr(blazar_gguf, name) is not None


def test_every_error_has_a_code_of_its_own() -> None:
    found = [e for e in vars(errors).values() if isinstance(e, type) and issubclass(e, Exception)]
    codes = [e.code for e in found]  # type: ignore[attr-defined]  # all derive from GgufError
    assert len(set(codes)) == len(codes) == 12
    assert all(issubclass(e, errors.GgufError) for e in found)


def test_a_vocabulary_of_262144_tokens_takes_little_memory_and_a_peek_nearly_none(tmp_path: Path) -> None:
    tokens = (f"▁token{n}" for n in range(262_144))
    writer = GgufWriter("gemma3").add("gemma3.block_count", 18).add("tokenizer.ggml.tokens", list(tokens))
    writer.add("tokenizer.ggml.scores", [0.0] * 262_144)
    path = writer.write(tmp_path / "m.gguf")
    del writer
    peaks = []
    for read in (read_metadata_file, peek_header):
        tracemalloc.start()
        meta = read(path)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert meta.vocab_size == 262_144
    assert peaks[0] < 5 << 20
    assert peaks[1] < 1 << 20


def test_a_hostile_file_takes_no_memory_to_speak_of(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(
        b"GGUF\3\0\0\0" + bytes(8) + (1).to_bytes(8, "little") + b"\1\0\0\0\0\0\0\0a\x09\0\0\0\x08\0\0\0" + b"\xff" * 8
    )
    tracemalloc.start()
    with pytest.raises(errors.GgufTooLarge, match="elements"):
        read_metadata_file(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
