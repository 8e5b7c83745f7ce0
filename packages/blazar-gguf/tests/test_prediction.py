import json
from collections.abc import Callable
from pathlib import Path

import pytest

from blazar_gguf import GgufMeta, GgufWriter, Prediction, parse_metadata, would_load, would_load_file
from blazar_gguf.engine.keys import architectures
from blazar_gguf.engine.plans import plans
from blazar_gguf.testing import ODD_FILES, RawField, RawFile, RawTensor, TinyShape, mutants, odd_file, tiny_model
from blazar_gguf.types import ValueType as T

LOADS, REFUSES, ABORTS = Prediction.LOADS, Prediction.REFUSES, Prediction.ABORTS


@pytest.mark.parametrize("name", ODD_FILES)
def test_odd_file_is_predicted_as_the_engine_behaves(name: str, tmp_path: Path) -> None:
    verdict = would_load_file(odd_file(name, tmp_path))
    assert verdict.outcome is ODD_FILES[name].outcome, verdict.reason
    assert bool(verdict.reason) == bool(verdict.rule) == (verdict.outcome is not LOADS)
    assert verdict.loads == (verdict.outcome is LOADS)


def test_there_are_all_89_of_them() -> None:
    assert len(ODD_FILES) == 89
    assert sum(odd.outcome is ABORTS for odd in ODD_FILES.values()) == 3


def _recorded(base: str) -> dict[str, Prediction]:
    """What the real engine did, recorded with ``scripts/fuzz_engine.py --record``."""
    lines = (Path(__file__).parent / "data" / "engine_verdicts.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    return {row["case"]: Prediction(row["outcome"]) for row in rows if row["base"] == base}


@pytest.mark.parametrize(
    ("base", "layers", "cases"),
    [pytest.param("llama", 2, 268, id="llama"), pytest.param("gemma3", 6, 328, id="gemma3")],
)
def test_every_bent_tiny_model_is_predicted_as_the_engine_was_seen_to_behave(
    base: str, layers: int, cases: int, tmp_path: Path
) -> None:
    recorded = _recorded(base)
    assert len(recorded) == cases
    path = tmp_path / "bent.gguf"
    wrong = []
    for name, bent in mutants(RawFile.from_writer(tiny_model(base, shape=TinyShape(layers=layers)))):
        verdict = would_load_file(bent.write(path))
        if verdict.outcome is not recorded.pop(name):
            wrong.append((name, verdict))
    assert wrong == []
    assert recorded == {}


def _put(
    key: str, kind: T, value: int | float | str | bytes | list[int | float | str | bytes], **rest: int
) -> Callable[[RawFile], None]:
    return lambda raw: raw.put(key, kind, value, **rest)


def _experts(count: int, used: int, groups: int = 0) -> Callable[[RawFile], None]:
    def bend(raw: RawFile) -> None:
        raw.put("llama.expert_count", T.U32, count)
        raw.put("llama.expert_used_count", T.U32, used)
        raw.put("llama.expert_group_count", T.U32, groups)

    return bend


def _merges(kind: T) -> Callable[[RawFile], None]:
    def bend(raw: RawFile) -> None:
        raw.put("tokenizer.ggml.model", T.STRING, b"gpt2")
        raw.put("tokenizer.ggml.merges", T.ARRAY, ["a b"] if kind is T.STRING else [1], element_type=kind)

    return bend


def _pre(name: bytes) -> Callable[[RawFile], None]:
    def bend(raw: RawFile) -> None:
        _merges(T.STRING)(raw)
        raw.put("tokenizer.ggml.pre", T.STRING, name)

    return bend


def _low_alignment(shift: int) -> Callable[[RawFile], None]:
    """Alignment 8, with a key that moves the data section by ``shift`` bytes."""

    def bend(raw: RawFile) -> None:
        raw.put("general.alignment", T.U32, 8)
        raw.put("pad", T.STRING, b"x" * shift)
        raw.lay_out(8)

    return bend


@pytest.mark.parametrize(
    ("bend", "outcome", "rule"),
    [
        pytest.param(_put("llama.rope.scaling.type", T.STRING, b"linear"), LOADS, "", id="known rope scaling"),
        pytest.param(_put("llama.rope.scaling.type", T.STRING, b"dynamic"), ABORTS, "rope-scaling", id="rope scaling"),
        pytest.param(_experts(513, 2), ABORTS, "expert-count", id="too many experts"),
        pytest.param(_experts(4, 5), ABORTS, "expert-count", id="more experts used than there are"),
        pytest.param(_experts(4, 0), ABORTS, "expert-count", id="no experts used"),
        pytest.param(_experts(0, 1), ABORTS, "expert-count", id="experts used and none there"),
        pytest.param(_experts(4, 2, groups=4), ABORTS, "expert-groups", id="as many groups as experts"),
        pytest.param(_experts(4, 2), REFUSES, "tensor-missing", id="experts without their tensors"),
        pytest.param(_pre(b"qwen2"), LOADS, "", id="known pre-tokenizer"),
        pytest.param(_pre(b"brand-new"), REFUSES, "tokenizer-unknown", id="unknown pre-tokenizer"),
        pytest.param(_merges(T.U32), ABORTS, "tokenizer-merges", id="merges that are no strings"),
        pytest.param(
            _put("tokenizer.ggml.suppress_tokens", T.ARRAY, ["a"], element_type=T.STRING),
            ABORTS,
            "tokenizer-array",
            id="suppressed tokens as text",
        ),
        pytest.param(_put("tokenizer.ggml.eos_token_id", T.I32, 2), REFUSES, "key-type", id="token id as i32"),
        pytest.param(_put("tokenizer.ggml.eos_token_id", T.U32, 10**6), LOADS, "", id="token id beyond the vocabulary"),
        pytest.param(_put("general.file_type", T.U64, 1), REFUSES, "key-type", id="file type as u64"),
        pytest.param(_put("general.name", T.U32, 1), REFUSES, "key-type", id="name as number"),
        pytest.param(
            _put("llama.classifier.output_labels", T.ARRAY, [1, 2]), ABORTS, "key-array-type", id="labels as numbers"
        ),
        pytest.param(_put("split.count", T.U32, 1), REFUSES, "key-type", id="split count as u32"),
        pytest.param(
            _put("tokenizer.chat_template.tool_use", T.STRING, b"{% if %}"), LOADS, "", id="broken tool template"
        ),
        pytest.param(_put("tokenizer.chat_template", T.STRING, b"fine\0{% if %}"), LOADS, "", id="broken behind a NUL"),
        pytest.param(_put("tokenizer.chat_template", T.U32, 5), LOADS, "", id="template that is a number"),
        pytest.param(_put("llama.embedding_length", T.U32, 64), REFUSES, "rope-dimensions", id="width"),
    ],
)
def test_similar_files_that_are_not_in_the_list(
    raw: RawFile, bend: Callable[[RawFile], None], outcome: Prediction, rule: str
) -> None:
    bend(raw)
    verdict = would_load(parse_metadata(raw.to_bytes())[0])
    assert (verdict.outcome, verdict.rule) == (outcome, rule), verdict.reason


def test_low_alignment_aborts_unless_the_data_happen_to_start_well(raw: RawFile) -> None:
    base = raw
    outcomes = set()
    for shift in range(0, 32, 8):
        _low_alignment(8 + shift)(base)
        meta, _ = parse_metadata(base.to_bytes())
        verdict = would_load(meta)
        outcomes.add(verdict.outcome)
        assert (verdict.outcome is LOADS) == (meta.data_offset % 32 == 0)
    assert outcomes == {LOADS, ABORTS}


@pytest.mark.parametrize(
    ("keys", "rule"),
    [
        pytest.param({"general.architecture": "clip"}, "file-kind", id="projector"),
        pytest.param({"general.architecture": "llama", "general.type": "adapter"}, "file-kind", id="adapter"),
        pytest.param({"general.type": "imatrix"}, "file-kind", id="imatrix"),
        pytest.param({}, "architecture-unknown", id="nothing"),
        pytest.param({"general.architecture": "gptj"}, "architecture-unknown", id="named but not built"),
    ],
)
def test_files_that_are_no_servable_models_are_refused(keys: dict[str, object], rule: str) -> None:
    verdict = would_load(GgufMeta.from_fields(keys))
    assert (verdict.outcome, verdict.rule) == (REFUSES, rule)


@pytest.mark.parametrize(
    ("bend", "specific"),
    [
        pytest.param(_put("general.architecture", T.STRING, b"llama9"), True, id="unknown architecture"),
        pytest.param(_put("llama.context_length", T.I32, 1), False, id="wrong type"),
        pytest.param(lambda raw: setattr(raw.tensors[0], "type_id", 77), True, id="future tensor type"),
        pytest.param(lambda raw: setattr(raw.tensors[0], "type_id", 31), False, id="removed tensor type"),
        pytest.param(
            lambda raw: raw.tensors.append(
                RawTensor(b"new", [8], 0, raw.tensors[-1].offset + len(raw.tensors[-1].data), bytes(32))
            ),
            True,
            id="extra tensor",
        ),
    ],
)
def test_objections_that_another_build_may_not_share_say_so(
    raw: RawFile, bend: Callable[[RawFile], None], *, specific: bool
) -> None:
    bend(raw)
    verdict = would_load(parse_metadata(raw.to_bytes())[0])
    assert (verdict.outcome, verdict.build_specific) == (REFUSES, specific)


def test_a_repeated_token_aborts(raw: RawFile) -> None:
    tokens = raw.find("tokenizer.ggml.tokens").value
    assert isinstance(tokens, list)
    tokens[300] = tokens[301]
    verdict = would_load(parse_metadata(raw.to_bytes())[0])
    assert (verdict.outcome, verdict.rule) == (ABORTS, "tokenizer-tokens")


def test_two_empty_tokens_do_not_count_as_repeated(raw: RawFile) -> None:
    tokens = raw.find("tokenizer.ggml.tokens").value
    assert isinstance(tokens, list)
    tokens[300] = tokens[301] = b""
    assert would_load(parse_metadata(raw.to_bytes())[0]).loads


def test_a_peeked_header_is_read_on_for_a_verdict(raw: RawFile, tmp_path: Path) -> None:
    raw.fields.append(RawField(b"late", T.ARRAY, [1] * 5000))
    raw.put("llama.attention.layer_norm_rms_epsilon", T.U32, 1)
    assert would_load_file(raw.write(tmp_path / "m.gguf")).rule == "key-type"


def test_a_file_that_vanishes_while_it_is_judged_is_refused(tmp_path: Path) -> None:
    writer = tiny_model("llama", shape=TinyShape(layers=1))
    writer.add("tokenizer.chat_template", "x" * 100_000)
    path = writer.write(tmp_path / "m.gguf")
    meta = would_load_file(path)
    assert meta.loads
    path.unlink()
    assert would_load_file(path).rule == "gguf-file-unreadable"


class TestTables:
    def test_every_planned_architecture_is_one_the_engine_knows(self) -> None:
        assert set(plans()) <= set(architectures())

    @pytest.mark.parametrize("name", plans())
    def test_a_plan_can_be_applied_to_any_sizes(self, name: str) -> None:
        keys = {f"{name}.block_count": 3, f"{name}.embedding_length": 64, f"{name}.attention.head_count": 4}
        verdict = would_load(GgufMeta.from_fields(keys | {"tokenizer.ggml.model": "none"}))
        assert verdict.outcome in set(Prediction)
        from blazar_gguf.engine.plans import expectation

        wanted = expectation(GgufMeta.from_fields(keys))
        assert wanted is not None
        assert "token_embd.weight" in {one.name for one in wanted.tensors()}

    @pytest.mark.parametrize("name", architectures())
    def test_an_empty_model_of_any_architecture_gets_a_verdict(self, name: str) -> None:
        verdict = would_load(GgufMeta.from_fields({"general.architecture": name}))
        assert (verdict.outcome, verdict.rule) == (REFUSES, "key-missing")


def test_an_architecture_without_a_plan_gets_general_checks() -> None:
    def model(blocks: int, names: list[str]) -> GgufMeta:
        writer = GgufWriter("grok")
        for suffix, value in {
            "context_length": 8,
            "embedding_length": 8,
            "block_count": blocks,
            "attention.head_count": 1,
            "attention.layer_norm_rms_epsilon": 1e-5,
        }.items():
            writer.add(f"grok.{suffix}", value)
        writer.add("tokenizer.ggml.model", "none")
        for name in names:
            writer.add_tensor(name, (8,), "F32", bytes(32))
        return parse_metadata(writer.to_bytes())[0]

    assert "grok" not in plans()
    assert would_load(model(1, ["token_embd.weight", "blk.0.x.weight"])).loads
    assert would_load(model(2, ["token_embd.weight", "blk.0.x.weight"])).rule == "tensor-missing"
    assert would_load(model(1, ["blk.0.x.weight"])).rule == "tensor-missing"
    assert would_load(model(1, ["token_embd.weight", "blk.0.x.weight", "blk.1.x.weight"])).rule == "tensor-unexpected"
