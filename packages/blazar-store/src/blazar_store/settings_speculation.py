"""Settings of speculative decoding: what guesses tokens ahead, and how far.

The ranges are those that the engine enforces, or should: it takes a probability of 1.5, or more tokens at least
than at most, without a word.
"""

from pydantic import Field

from blazar_store.settings_values import CacheType, DeviceNames, FilePath, SpecChoice, Table


class SpeculationSettings(Table):
    """The part of a model's settings that is about speculation."""

    spec: SpecChoice | None = Field(
        default=None,
        examples=["auto"],
        description="Guessing tokens ahead, which never changes the answer: `auto` uses what the file or a draft model "
        "offers, `off` nothing; else kinds separated by commas (`ngram-mod`).",
    )
    spec_draft_model: FilePath | None = Field(
        default=None, examples=["~/models/draft.gguf"], description="The GGUF of a small model that guesses ahead."
    )
    spec_draft_n_max: int | None = Field(
        default=None, examples=[3], ge=1, le=1024, description="Tokens guessed at a time at most."
    )
    spec_draft_n_min: int | None = Field(
        default=None, examples=[0], ge=0, le=1024, description="Fewer guessed tokens than this are not used."
    )
    spec_draft_p_min: float | None = Field(
        default=None, examples=[0.0], ge=0, le=1, description="Guessing stops at a token less probable than this."
    )
    spec_draft_p_split: float | None = Field(
        default=None, examples=[0.1], ge=0, le=1, description="The probability at which a guess is split in two."
    )
    spec_draft_gpu_layers: int | None = Field(
        default=None, examples=[99], ge=0, le=10_000, description="Layers of the draft model on the accelerator."
    )
    spec_draft_devices: DeviceNames | None = Field(
        default=None, examples=[["CUDA0"]], description="The accelerators that the draft model may use."
    )
    spec_draft_cache_type_k: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the keys in the draft model's cache."
    )
    spec_draft_cache_type_v: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the values in the draft model's cache."
    )
    spec_draft_threads: int | None = Field(
        default=None, examples=[4], ge=1, le=1024, description="Processor threads of the draft model."
    )
    spec_draft_threads_batch: int | None = Field(
        default=None, examples=[4], ge=1, le=1024, description="Processor threads of the draft model on prompts."
    )
    spec_draft_poll: int | None = Field(
        default=None, examples=[50], ge=0, le=100, description="How eagerly the draft model's threads poll; 0 is never."
    )
    spec_draft_prio: int | None = Field(
        default=None,
        examples=[0],
        ge=-1,
        le=3,
        description="Priority of the draft model's threads, 0 (normal) to 3 (real time); -1 leaves it to the engine.",
    )
    spec_draft_n_cpu_moe: int | None = Field(
        default=None,
        examples=[10],
        ge=1,
        le=10_000,
        description="Layers of the draft model whose experts stay in main memory.",
    )
    spec_ngram_mod_n_match: int | None = Field(
        default=None, examples=[24], ge=1, le=1024, description="`ngram-mod`: tokens that must match."
    )
    spec_ngram_mod_n_min: int | None = Field(
        default=None, examples=[48], ge=0, le=1024, description="`ngram-mod`: tokens guessed at least."
    )
    spec_ngram_mod_n_max: int | None = Field(
        default=None, examples=[64], ge=0, le=1024, description="`ngram-mod`: tokens guessed at most."
    )
    spec_ngram_simple_size_n: int | None = Field(
        default=None, examples=[12], ge=1, le=1024, description="`ngram-simple`: tokens looked up."
    )
    spec_ngram_simple_size_m: int | None = Field(
        default=None, examples=[48], ge=1, le=1024, description="`ngram-simple`: tokens guessed."
    )
    spec_ngram_simple_min_hits: int | None = Field(
        default=None, examples=[1], ge=1, le=1024, description="`ngram-simple`: times that a run must have been seen."
    )
    spec_ngram_map_k_size_n: int | None = Field(
        default=None, examples=[12], ge=1, le=1024, description="`ngram-map-k`: tokens looked up."
    )
    spec_ngram_map_k_size_m: int | None = Field(
        default=None, examples=[48], ge=1, le=1024, description="`ngram-map-k`: tokens guessed."
    )
    spec_ngram_map_k_min_hits: int | None = Field(
        default=None, examples=[1], ge=1, le=1024, description="`ngram-map-k`: times that a run must have been seen."
    )
    spec_ngram_map_k4v_size_n: int | None = Field(
        default=None, examples=[12], ge=1, le=1024, description="`ngram-map-k4v`: tokens looked up."
    )
    spec_ngram_map_k4v_size_m: int | None = Field(
        default=None, examples=[48], ge=1, le=1024, description="`ngram-map-k4v`: tokens guessed."
    )
    spec_ngram_map_k4v_min_hits: int | None = Field(
        default=None, examples=[1], ge=1, le=1024, description="`ngram-map-k4v`: times that a run must have been seen."
    )
