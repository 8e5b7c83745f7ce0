"""The sizes that tensor shapes are made of, worked out from the keys as the engine does.

Names are short because the table of tensors (``tensors.txt``) uses them: ``e`` embedding length, ``V`` vocabulary,
``q``/``k``/``v`` widths of the projections, ``h``/``hkv`` heads, ``hk``/``hv`` head sizes, ``f`` feed-forward, ``x``
experts, and so on.
"""

from functools import cached_property

from blazar_gguf.meta import GgufMeta


class Sizes:
    """Sizes of one model; a block's own where the architecture has sizes per block.

    Args:
        meta: the header.
        per_block: when False every block has the sizes of block 0, which is how the engine treats most
            architectures even if the file has an array.
    """

    def __init__(self, meta: GgufMeta, *, per_block: bool) -> None:
        self.meta = meta
        self.per_block = per_block
        self._blocks: dict[int, dict[str, int]] = {}

    @cached_property
    def trunk_layers(self) -> int:
        """Blocks before the next-token-prediction ones."""
        return max(0, self.meta.layer_count - self.meta.nextn_predict_layers)

    @cached_property
    def whole(self) -> dict[str, int]:
        """Sizes that are the same for every block."""
        m = self.meta
        e = m.embedding_length
        inner, state, group, rank = (
            m.arch_int("ssm.inner_size"),
            m.arch_int("ssm.state_size"),
            m.arch_int("ssm.group_count"),
            m.arch_int("ssm.time_step_rank"),
        )
        ff_exp, shared = m.arch_int("expert_feed_forward_length"), m.arch_int("expert_shared_count")
        ff0 = self._layer(m.feed_forward_lengths, 0)
        used = m.expert_used_count
        default_exp = ff_exp or (ff0 // used if used else 0)
        ff_shared = m.arch_int("expert_shared_feed_forward_length")
        rot = m.arch_int("rope.dimension_count", m.key_length) if self._layer(m.head_counts, 0) else 0
        wkv, kda = m.arch_int("wkv.head_size"), m.arch_int("kda.head_dim")
        is_mla = m.is_latent
        key_mla = m.arch_int("attention.key_length_mla") if is_mla else m.key_length
        value_mla = m.arch_int("attention.value_length_mla") if is_mla else m.value_length
        heads0 = self._layer(m.head_counts, 0)
        return {
            "e": e,
            "V": self.vocabulary,
            "n": self.trunk_layers,
            "c": m.context_length,
            "x": m.expert_count,
            "f0": ff0,
            "hk0": m.key_length,
            "hd": e // heads0 if heads0 else 0,
            "hd2": e // heads0 // 2 if heads0 else 0,
            "rot": rot,
            "r2": rot // 2,
            "r2full": m.key_length // 2,
            "fx": ff_exp,
            "fxd": default_exp,
            "fxs": ff_exp * shared,
            "fxs1": ff_exp * max(shared, 1),
            "fxds": default_exp * shared,
            "fs": ff_shared,
            "fsd": ff_shared or ff0,
            "lat": m.arch_int("moe_latent_size") or e,
            "di": inner,
            "ds": state,
            "dr": rank,
            "ng": group,
            "dig": inner // group if group else 0,
            "dc": m.arch_int("ssm.conv_kernel"),
            "cd": inner + 2 * group * state,
            "pd": 2 * inner + 2 * group * state + rank,
            "dtd": max(64, e // 16),
            "kd": state * group,
            "vd": state * rank,
            "kda": kda,
            "wkv": wkv,
            "ewkv": e // wkv if wkv else 0,
            "tm": m.arch_int("time_mix_extra_dim"),
            "td": m.arch_int("time_decay_extra_dim"),
            "ld": m.arch_int("attention.decay_lora_rank"),
            "li": m.arch_int("attention.iclr_lora_rank"),
            "lv": m.arch_int("attention.value_residual_mix_lora_rank"),
            "lg": m.arch_int("attention.gate_lora_rank"),
            "lc": m.arch_int("shortconv.l_cache"),
            "ql": m.q_lora_rank,
            "kvl": m.kv_lora_rank,
            "km": key_mla,
            "vm": value_mla,
            "nope": m.key_length - rot,
            "nopem": key_mla - rot,
            "ik": m.arch_int("attention.indexer.key_length"),
            "ih": m.arch_int("attention.indexer.head_count"),
            "ar": m.arch_int("adapters.lora_rank"),
            "as": m.arch_int("adapters.count") + 1,
            "pl": m.arch_int("embedding_length_per_layer_input"),
            "eo": m.arch_int("embedding_length_out") or e,
            "d2": m.arch_int("dense_2_feat_out"),
            "d3": m.arch_int("dense_3_feat_in"),
            "rb": m.arch_int("attention.relative_buckets_count"),
            "cls": self._labels(),
            "tt": self._token_types(),
        }

    @cached_property
    def vocabulary(self) -> int:
        """Number of tokens the tokenizer will have."""
        m = self.meta
        if m.text("tokenizer.ggml.model") in {"none", "no_vocab"}:
            return m.arch_int("vocab_size")
        return m.vocab_size

    def _labels(self) -> int:
        field = self.meta.fields.find(f"{self.meta.architecture}.classifier.output_labels")
        return field.count if field is not None and field.element_type is not None else 1

    def _token_types(self) -> int:
        value = self.meta.get("tokenizer.ggml.token_type_count")
        return value if isinstance(value, int) else 0

    @staticmethod
    def _layer(values: tuple[int, ...], i: int) -> int:
        return values[i] if i < len(values) else 0

    def block(self, i: int) -> dict[str, int]:
        """Sizes for block ``i``."""
        i = i if self.per_block else 0
        if i not in self._blocks:
            m = self.meta
            swa = m.window_layers[i] if i < len(m.window_layers) else False
            hk, hv = (m.key_length_swa, m.value_length_swa) if swa else (m.key_length, m.value_length)
            h, hkv = self._layer(m.head_counts, i), self._layer(m.head_counts_kv, i)
            own = {"h": h, "hkv": hkv, "hk": hk, "hv": hv, "q": h * hk, "k": hkv * hk, "v": hkv * hv}
            self._blocks[i] = self.whole | own | {"f": self._layer(m.feed_forward_lengths, i)}
        return self._blocks[i]
