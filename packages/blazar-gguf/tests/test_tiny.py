import struct
from pathlib import Path

import pytest

from blazar_gguf import PoolingType, parse_metadata, read_metadata_file, would_load
from blazar_gguf.testing import ARCHITECTURES, DEFAULT_ANSWER, TinyShape, tiny_model, tiny_vocabulary, write_tiny_model


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_tiny_model_is_one_the_engine_would_load(architecture: str, tmp_path: Path) -> None:
    path = write_tiny_model(tmp_path / "m.gguf", architecture, context_length=2048, layers=3, name="n", seed=5)
    meta = read_metadata_file(path)
    assert would_load(meta).loads
    assert meta.warnings == ()
    assert (meta.architecture, meta.context_length, meta.block_count, meta.name) == (architecture, 2048, 3, "n")
    assert meta.key_length % 32 == 0
    assert "im_start" in meta.chat_template
    assert path.stat().st_size < 1 << 20


def test_options_show_in_the_header(tmp_path: Path) -> None:
    path = write_tiny_model(
        tmp_path / "m.gguf", "gemma3", chat_template=None, pooling_type=PoolingType.MEAN, sliding_window=64
    )
    meta = read_metadata_file(path)
    assert (meta.chat_template, meta.pooling_type, meta.sliding_window) == ("", PoolingType.MEAN, 64)


def test_the_seed_changes_weights_and_nothing_else(tmp_path: Path) -> None:
    one, two = (write_tiny_model(tmp_path / f"{n}.gguf", seed=n) for n in (1, 2))
    again = write_tiny_model(tmp_path / "again.gguf", seed=1)
    assert one.read_bytes() == again.read_bytes() != two.read_bytes()
    assert dict(read_metadata_file(one).fields) == dict(read_metadata_file(two).fields)


@pytest.mark.parametrize("endless", [False, True])
def test_the_output_matrix_leads_from_word_to_word(*, endless: bool) -> None:
    """Follow the chain as the engine would: the token whose row agrees most with the code of the one before."""
    shape = TinyShape(layers=1)
    data = tiny_model("llama", shape=shape, endless=endless).to_bytes()
    meta, _ = parse_metadata(data)
    vocabulary = tiny_vocabulary()

    def rows(name: str) -> list[tuple[float, ...]]:
        tensor = next(t for t in meta.tensors if t.name == name)
        start = meta.data_offset + tensor.offset
        return list(struct.iter_unpack(f"<{shape.embedding}e", data[start : start + tensor.n_bytes]))

    codes, output = rows("token_embd.weight"), rows("output.weight")
    token, said = vocabulary.tokens.index("x"), []
    for _ in range(12):
        scores = [sum(a * b for a, b in zip(row, codes[token], strict=True)) for row in output]
        token = max(range(len(scores)), key=scores.__getitem__)
        assert sorted(scores)[-1] - sorted(scores)[-2] > 20
        if token == vocabulary.end_of_turn:
            break
        said.append(vocabulary.tokens[token].replace("\u2581", " "))
    expected = " ".join(DEFAULT_ANSWER)
    assert "".join(said) == (f"{expected} one two" if endless else expected)


@pytest.mark.parametrize("answer", [(), ("a", "a"), ("a", "")], ids=["none", "repeated", "empty word"])
def test_an_impossible_answer_is_refused(answer: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="different, non-empty words"):
        tiny_model(answer=answer)


def test_an_architecture_that_is_not_built_is_named() -> None:
    with pytest.raises(ValueError, match="no tiny 'qwen2' model"):
        tiny_model("qwen2")
