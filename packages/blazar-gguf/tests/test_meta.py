from collections.abc import Mapping

import pytest

from blazar_gguf import (
    AttentionClass,
    FileKind,
    GgufMeta,
    GgufWriter,
    PoolingType,
    TensorInfo,
    parse_metadata,
)
from blazar_gguf.hparams import MAX_LAYERS
from blazar_gguf.testing import RawFile, TinyShape, tiny_model
from blazar_gguf.types import ValueType as T

LFM2_HEADS = [0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0]


def _meta(arch: str, tensors: tuple[TensorInfo, ...] = (), path: str | None = None, **keys: object) -> GgufMeta:
    """Metadata from ``<arch>.`` keys; two underscores stand for a dot."""
    return GgufMeta.from_fields({f"{arch}.{k.replace('__', '.')}": v for k, v in keys.items()}, tensors, path=path)


class TestShape:
    def test_scalars(self) -> None:
        meta = _meta(
            "llama",
            block_count=32,
            context_length=8192,
            embedding_length=4096,
            attention__head_count=32,
            attention__head_count_kv=8,
            feed_forward_length=14336,
        )
        assert meta.architecture == "llama"
        assert (meta.block_count, meta.context_length, meta.embedding_length) == (32, 8192, 4096)
        assert meta.head_counts == (32,) * 32
        assert meta.head_counts_kv == (8,) * 32
        assert meta.feed_forward_lengths == (14336,) * 32
        assert (meta.key_length, meta.value_length) == (128, 128)
        assert meta.warnings == ()

    def test_what_a_file_does_not_say_is_zero(self) -> None:
        meta = GgufMeta.from_fields({})
        assert (meta.architecture, meta.block_count, meta.context_length, meta.vocab_size) == ("", 0, 0, 0)
        assert (meta.head_counts, meta.key_length, meta.n_params, meta.bits_per_weight) == ((), 0, 0, 0.0)
        assert meta.num_loops == 1
        assert meta.file_type is None
        assert meta.pooling_type is None

    def test_arrays_of_head_counts_are_kept_layer_by_layer(self) -> None:
        meta = _meta(
            "lfm2",
            block_count=16,
            embedding_length=1024,
            attention__head_count=16,
            attention__head_count_kv=LFM2_HEADS,
        )
        assert meta.head_counts_kv == tuple(LFM2_HEADS)
        assert sum(meta.head_counts_kv) * (meta.key_length + meta.value_length) * 32768 * 2 == 384 << 20
        assert meta.kv_layers == tuple(n > 0 for n in LFM2_HEADS)
        assert meta.recurrent_layers == tuple(n == 0 for n in LFM2_HEADS)
        assert meta.attention_class is AttentionClass.HYBRID

    def test_head_counts_and_feed_forward_may_be_arrays_too(self) -> None:
        meta = _meta(
            "openelm",
            block_count=3,
            embedding_length=1280,
            attention__head_count=[12, 16, 20],
            attention__head_count_kv=[3, 4, 5],
            attention__key_length=64,
            feed_forward_length=[768, 1024, 1280],
        )
        assert meta.head_counts == (12, 16, 20)
        assert meta.feed_forward_lengths == (768, 1024, 1280)
        assert (meta.key_length, meta.value_length) == (64, 106)

    @pytest.mark.parametrize(
        ("stored", "expected"),
        [
            pytest.param([2, 2], (2, 2, 2, 2), id="short: the last goes on"),
            pytest.param([1, 2, 3, 4, 5, 6], (1, 2, 3, 4), id="long: cut"),
            pytest.param([], (4, 4, 4, 4), id="empty: as if absent"),
            pytest.param("4", (4, 4, 4, 4), id="text: as if absent"),
            pytest.param(2.0, (2, 2, 2, 2), id="a float that is a whole number"),
        ],
    )
    def test_arrays_of_the_wrong_length_do_not_break_anything(self, stored: object, expected: tuple[int, ...]) -> None:
        meta = _meta("llama", block_count=4, attention__head_count=4, attention__head_count_kv=stored)
        assert meta.head_counts_kv == expected
        assert len(meta.warnings) == 1

    def test_head_count_kv_is_head_count_where_absent(self) -> None:
        assert _meta("llama", block_count=2, attention__head_count=[4, 8]).head_counts_kv == (4, 8)

    def test_a_first_head_count_of_zero_makes_all_head_sizes_zero(self) -> None:
        meta = _meta("deci", block_count=2, embedding_length=128, attention__head_count=[0, 4])
        assert (meta.key_length, meta.value_length) == (0, 0)

    @pytest.mark.parametrize(
        ("stored", "expected"),
        [(None, 1), (1, 1), (2, 2), (8, 8), (0, 1), (9, 8), (-3, 1), (4_000_000_000, 8), ("2", 1)],
    )
    def test_loops_are_clamped(self, stored: object, expected: int) -> None:
        keys: dict[str, object] = {"nanbeige.block_count": 22}
        if stored is not None:
            keys["nanbeige.num_loops"] = stored
        assert GgufMeta.from_fields(keys).num_loops == expected

    @pytest.mark.parametrize("count", [513, 1 << 32, (1 << 64) - 1])
    def test_an_absurd_block_count_does_not_make_absurd_tuples(self, count: int) -> None:
        meta = _meta("llama", block_count=count, attention__head_count=4)
        assert meta.block_count == count
        assert len(meta.head_counts) == len(meta.window_layers) == len(meta.recurrent_layers) == MAX_LAYERS
        assert any("aborts" in warning for warning in meta.warnings)

    @pytest.mark.parametrize(
        ("kind", "value"),
        [(T.I32, 4), (T.U64, 4), (T.U8, 4), (T.F32, 4.0)],
        ids=lambda v: v.label if isinstance(v, T) else "",
    )
    def test_numbers_of_another_type_are_read_with_a_warning(self, raw: RawFile, kind: T, value: float) -> None:
        raw.put("llama.block_count", kind, value)
        meta, _ = parse_metadata(raw.to_bytes())
        assert meta.block_count == 4
        assert meta.warnings == (
            f"llama.block_count is stored as {kind.label} instead of u32; the engine refuses that",
        )

    def test_text_where_a_number_is_due_counts_as_absent(self, raw: RawFile) -> None:
        raw.put("llama.block_count", T.STRING, b"4")
        meta, _ = parse_metadata(raw.to_bytes())
        assert meta.block_count == 0
        assert "stored as str" in meta.warnings[0]

    def test_vocabulary_is_the_token_list_before_the_key(self) -> None:
        both = {"llama.block_count": 1, "llama.vocab_size": 7, "tokenizer.ggml.tokens": ["a", "b"]}
        assert GgufMeta.from_fields(both).vocab_size == 2
        assert GgufMeta.from_fields({"llama.block_count": 1, "llama.vocab_size": 7}).vocab_size == 7


class TestWindows:
    @pytest.mark.parametrize(
        ("keys", "window", "layers"),
        [
            pytest.param({"arch": "gemma3", "attention.sliding_window": 1024}, 1024, "SSSSSFSSSSSF", id="gemma3"),
            pytest.param(
                {"arch": "gemma3", "attention.sliding_window": 1024, "attention.sliding_window_pattern": 4},
                1024,
                "SSSFSSSFSSSF",
                id="gemma3, its own period",
            ),
            pytest.param(
                {
                    "arch": "gemma3",
                    "attention.sliding_window": 8,
                    "attention.sliding_window_pattern": [True, False] * 6,
                },
                8,
                "SSSSSFSSSSSF",
                id="gemma3 ignores an array",
            ),
            pytest.param({"arch": "gemma3"}, 0, "F" * 12, id="gemma3 without a window"),
            pytest.param({"arch": "gemma2"}, 4096, "SF" * 6, id="gemma2, default window"),
            pytest.param(
                {
                    "arch": "gemma4",
                    "attention.sliding_window": 512,
                    "attention.sliding_window_pattern": [True] * 5 + [False],
                },
                512,
                "SSSSSFFFFFFF",
                id="gemma4, short array",
            ),
            pytest.param({"arch": "gpt-oss", "attention.sliding_window": 128}, 128, "SF" * 6, id="gpt-oss"),
            pytest.param({"arch": "llama4"}, 8192, "SSSF" * 3, id="llama4, fixed window"),
            pytest.param({"arch": "llama4", "attention.sliding_window": 0}, 0, "F" * 12, id="llama4 switched off"),
            pytest.param({"arch": "smallthinker", "attention.sliding_window": 1}, 4096, "FSSS" * 3, id="smallthinker"),
            pytest.param({"arch": "exaone4", "attention.sliding_window": 4096}, 0, "F" * 12, id="exaone4, small"),
            pytest.param({"arch": "phi3", "attention.sliding_window": 2047}, 0, "F" * 12, id="phi3 ignores the key"),
            pytest.param({"arch": "qwen2", "attention.sliding_window": 32768}, 0, "F" * 12, id="qwen2 ignores the key"),
            pytest.param(
                {"arch": "cohere2", "attention.sliding_window": 9, "attention.sliding_window_pattern": 0},
                9,
                "S" * 12,
                id="period 0: all slide",
            ),
            pytest.param(
                {"arch": "cohere2", "attention.sliding_window": 9, "attention.sliding_window_pattern": 1},
                9,
                "F" * 12,
                id="period 1: none slides",
            ),
            pytest.param(
                {
                    "arch": "mellum",
                    "attention.sliding_window": 9,
                    "attention.sliding_window_pattern": [False, True] * 6,
                },
                9,
                "FS" * 6,
                id="mellum, array",
            ),
        ],
    )
    def test_layers_slide_as_the_engine_lays_them_out(
        self, keys: Mapping[str, object], window: int, layers: str
    ) -> None:
        arch = keys["arch"]
        values = {f"{arch}.{k}": v for k, v in keys.items() if k != "arch"}
        meta = GgufMeta.from_fields({f"{arch}.block_count": 12, f"{arch}.attention.head_count": 8} | values)
        assert meta.sliding_window == window
        assert "".join("S" if slides else "F" for slides in meta.window_layers) == layers
        assert (meta.attention_class is AttentionClass.WINDOW) == ("S" in layers)

    def test_25_of_30_layers_slide_with_a_pattern_as_array(self) -> None:
        pattern = ([True] * 5 + [False]) * 5
        meta = _meta(
            "gemma4",
            block_count=30,
            attention__head_count=8,
            attention__sliding_window=1024,
            attention__sliding_window_pattern=pattern,
        )
        assert sum(meta.window_layers) == 25
        assert meta.sliding_window_pattern == tuple(pattern)

    def test_lfm2_slides_in_its_attention_layers(self) -> None:
        meta = _meta("lfm2", block_count=4, attention__head_count_kv=[0, 2, 0, 2], attention__sliding_window=64)
        assert meta.window_layers == (False, True, False, True)


class TestAttention:
    @pytest.mark.parametrize(
        ("arch", "keys", "expected"),
        [
            ("llama", {}, AttentionClass.FULL),
            ("some-new-thing", {}, AttentionClass.FULL),
            ("bert", {}, AttentionClass.NONE),
            ("mamba2", {}, AttentionClass.RECURRENT),
            ("rwkv7", {}, AttentionClass.RECURRENT),
            ("falcon-h1", {}, AttentionClass.HYBRID),
            ("qwen3next", {}, AttentionClass.HYBRID),
            ("jamba", {"attention.head_count_kv": [0, 2, 0, 2, 0, 2, 0, 2]}, AttentionClass.HYBRID),
            ("deepseek2", {}, AttentionClass.FULL),
            (
                "deepseek2",
                {"attention.key_length_mla": 192, "attention.value_length_mla": 128},
                AttentionClass.LATENT,
            ),
            ("deepseek32", {}, AttentionClass.SPARSE),
        ],
    )
    def test_class(self, arch: str, keys: Mapping[str, object], expected: AttentionClass) -> None:
        base = {f"{arch}.block_count": 8, f"{arch}.attention.head_count": 4}
        meta = GgufMeta.from_fields(base | {f"{arch}.{k}": v for k, v in keys.items()})
        assert meta.attention_class is expected

    @pytest.mark.parametrize(
        ("keys", "recurrent"),
        [
            ({}, "RRRFRRRF"),
            ({"full_attention_interval": 2}, "RFRFRFRF"),
            ({"attention.recurrent_layers": [True] * 7 + [False]}, "RRRRRRRF"),
            ({"nextn_predict_layers": 2}, "RRRFRRFF"),
        ],
    )
    def test_interval_hybrids(self, keys: Mapping[str, object], recurrent: str) -> None:
        meta = GgufMeta.from_fields({"qwen35.block_count": 8} | {f"qwen35.{k}": v for k, v in keys.items()})
        assert "".join("R" if r else "F" for r in meta.recurrent_layers) == recurrent

    def test_nemotron_has_three_kinds_of_layers(self) -> None:
        meta = _meta(
            "nemotron_h",
            block_count=4,
            attention__head_count=4,
            attention__head_count_kv=[0, 2, 0, 0],
            feed_forward_length=[0, 0, 64, 0],
        )
        assert meta.recurrent_layers == (True, False, False, True)
        assert meta.kv_layers == (False, True, False, False)

    def test_latent_ranks_and_recurrent_sizes_are_read(self) -> None:
        meta = _meta("deepseek2", block_count=1, attention__kv_lora_rank=512, attention__q_lora_rank=1536)
        assert (meta.kv_lora_rank, meta.q_lora_rank, meta.is_latent) == (512, 1536, False)
        mamba = _meta("mamba", block_count=1, ssm__conv_kernel=4, ssm__inner_size=256, ssm__state_size=16)
        dims = mamba.recurrent_dims
        assert (dims.conv_kernel, dims.inner_size, dims.state_size, dims.token_shift_count) == (4, 256, 16, 0)
        assert _meta("rwkv6", block_count=1, wkv__head_size=64).recurrent_dims.token_shift_count == 2

    @pytest.mark.parametrize(
        ("stored", "expected"),
        [(0, PoolingType.NONE), (1, PoolingType.MEAN), (4, PoolingType.RANK), (9, None), ("1", None)],
    )
    def test_pooling(self, stored: object, expected: PoolingType | None) -> None:
        assert _meta("bert", block_count=1, pooling_type=stored).pooling_type is expected


def _tensor(name: str, *dims: int, type_id: int = 1) -> TensorInfo:
    return TensorInfo(name, dims, type_id, 0)


class TestSize:
    def test_parameters_count_every_tensor_and_experts_by_share(self) -> None:
        tensors = (
            _tensor("token_embd.weight", 64, 100),
            _tensor("blk.0.ffn_up_exps.weight", 64, 32, 8),
            _tensor("blk.0.ffn_norm.weight", 64, type_id=0),
        )
        meta = _meta("qwen3moe", tensors, block_count=1, expert_count=8, expert_used_count=2)
        assert meta.n_params == 6400 + 16384 + 64
        assert meta.active_params == 6400 + 16384 // 4 + 64
        assert meta.tensor_bytes == 2 * (6400 + 16384) + 4 * 64
        assert meta.bits_per_weight == pytest.approx(8 * meta.tensor_bytes / meta.n_params)

    @pytest.mark.parametrize(
        ("path", "file_type", "expected"),
        [
            pytest.param("/m/Model-UD-Q4_K_XL.gguf", 15, "UD-Q4_K_XL", id="the name says more than the type"),
            pytest.param("model.q4_k_m.gguf", None, "Q4_K_M", id="lower case"),
            pytest.param("a-IQ2_XXS-00001-of-00003.gguf", None, "IQ2_XXS", id="split"),
            pytest.param("gpt-oss-20b-mxfp4.gguf", None, "MXFP4", id="mxfp4"),
            pytest.param("model-F16.gguf", 15, "F16", id="f16"),
            pytest.param("Qwen3-8B.gguf", 18, "Q6_K", id="recorded type"),
            pytest.param("Qwen3-8B.gguf", 15 | 1024, "Q4_K_M", id="guessed type"),
            pytest.param("Qwen3-8B.gguf", 77, "Q8_0", id="unknown type: what weighs most"),
            pytest.param("xQ4_0x.gguf", None, "Q8_0", id="not a word of its own"),
            pytest.param(None, None, "Q8_0", id="no name"),
        ],
    )
    def test_quant_label(self, path: str | None, file_type: int | None, expected: str) -> None:
        keys: dict[str, object] = {"llama.block_count": 1}
        if file_type is not None:
            keys["general.file_type"] = file_type
        tensors = (_tensor("a", 64, 64, type_id=8), _tensor("b", 64, 8, type_id=1), _tensor("n", 1 << 20, type_id=0))
        assert GgufMeta.from_fields(keys, tensors, path=path).quant_label == expected


class TestKind:
    @pytest.mark.parametrize(
        ("keys", "kind"),
        [
            ({"general.architecture": "llama"}, FileKind.MODEL),
            ({"general.architecture": "llama", "general.type": "model"}, FileKind.MODEL),
            ({"general.architecture": "clip"}, FileKind.PROJECTOR),
            ({"general.architecture": "clip", "general.type": "mmproj"}, FileKind.PROJECTOR),
            ({"general.architecture": "llama", "general.type": "adapter"}, FileKind.ADAPTER),
            ({"general.architecture": "llama", "adapter.type": "lora"}, FileKind.ADAPTER),
            ({"general.type": "imatrix"}, FileKind.IMATRIX),
        ],
    )
    def test_kind(self, keys: Mapping[str, object], kind: FileKind) -> None:
        meta = GgufMeta.from_fields(keys)
        assert meta.kind is kind
        assert (meta.is_projector, meta.is_adapter) == (kind is FileKind.PROJECTOR, kind is FileKind.ADAPTER)

    def test_what_a_projector_encodes(self) -> None:
        meta = GgufMeta.from_fields(
            {
                "general.architecture": "clip",
                "clip.has_vision_encoder": True,
                "clip.has_audio_encoder": False,
                "clip.vision.projector_type": "gemma3",
            }
        )
        assert (meta.has_vision, meta.has_audio, meta.modalities.speech) == (True, False, False)
        assert meta.modalities.projector_type == "gemma3"

    def test_a_text_model_with_an_encoder_inside(self) -> None:
        meta = _meta(
            "qwen2vl", (_tensor("v.blk.0.attn_q.weight", 8, 8), _tensor("token_embd.weight", 8, 8)), block_count=1
        )
        assert meta.kind is FileKind.MODEL
        assert (meta.has_vision, meta.has_audio) == (True, False)


class TestTemplates:
    def test_all_are_found_by_name(self) -> None:
        meta = GgufMeta.from_fields(
            {
                "tokenizer.chat_template": "{{ a }}",
                "tokenizer.chat_templates": ["tool_use", "missing"],
                "tokenizer.chat_template.tool_use": "{{ b }}",
                "tokenizer.chat_template.unlisted": "{{ c }}",
            }
        )
        assert dict(meta.chat_templates) == {"default": "{{ a }}", "tool_use": "{{ b }}", "unlisted": "{{ c }}"}
        assert meta.chat_template == "{{ a }}"

    def test_a_long_one_is_read_from_the_file(self) -> None:
        template = "{% for m in messages %}" + "x" * 200_000 + "{% endfor %}"
        meta, _ = parse_metadata(GgufWriter("llama").add("tokenizer.chat_template", template).to_bytes())
        assert meta.chat_template == template

    def test_none(self) -> None:
        assert GgufMeta.from_fields({}).chat_template == ""


def test_made_metadata_takes_its_architecture_from_the_keys() -> None:
    assert GgufMeta.from_fields({"gemma3.block_count": 2}).architecture == "gemma3"
    with pytest.raises(TypeError, match="dict is no GGUF value"):
        GgufMeta.from_fields({"a": {}})
    with pytest.raises(TypeError, match="of one kind"):
        GgufMeta.from_fields({"a": [1, "b"]})


def test_a_tiny_gemma_reads_as_one() -> None:
    meta, _ = parse_metadata(tiny_model("gemma3", shape=TinyShape(layers=6)).to_bytes())
    assert meta.attention_class is AttentionClass.WINDOW
    assert sum(meta.window_layers) == 5
    assert repr(meta) == "<GgufMeta: gemma3, 25 keys>"
