"""Settings that shape the engine of one model: context, cache, placement, template."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, Strict

from blazar_store.settings_values import (
    Arguments,
    CacheType,
    DeviceNames,
    FilePath,
    JsonTable,
    JsonText,
    Samplers,
    Table,
    TensorPreset,
    Word,
)

Effort = Literal["minimal", "low", "medium", "high", "xhigh", "max"]
"""The levels of ``reasoning_effort``."""

ProjectorPolicy = Literal["lazy", "attach", "skip"]


class LoraAdapter(Table):
    """An adapter with its strength."""

    path: FilePath = Field(description="The adapter's GGUF.")
    scale: Annotated[float, Field(ge=-100, le=100)] = Field(default=1.0, description="How strongly it is applied.")


def _adapter(value: object) -> object:
    return {"path": value} if isinstance(value, str) else value


Adapter = Annotated[LoraAdapter, BeforeValidator(_adapter, json_schema_input_type=FilePath | LoraAdapter)]
Adapters = Annotated[tuple[Adapter, ...], Strict(strict=False)]


class EngineSettings(Table):
    """The part of a model's settings that shapes its engine, speculation apart."""

    ctx: Literal["auto"] | Annotated[int, Field(ge=256, le=16_777_216)] | None = Field(
        default=None,
        examples=["auto"],
        description="Context in tokens, honoured or refused, never cut; in [defaults] for each model at most "
        "what it was trained for; `auto` is the largest that plainly fits.",
    )
    slots: int | None = Field(
        default=None,
        examples=[4],
        ge=1,
        le=256,
        description="Requests one instance serves at the same time; 4 if not set.",
    )
    deterministic: bool | None = Field(
        default=None,
        examples=[True],
        description="Whether the same request always gets the same answer: that takes one slot, whatever `slots` says.",
    )
    cache_type_k: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the keys in the KV cache; f16 if not set."
    )
    cache_type_v: CacheType | None = Field(
        default=None, examples=["f16"], description="Element type of the values in the KV cache; f16 if not set."
    )
    cache_ram_mb: int | None = Field(
        default=None,
        examples=[8192],
        ge=0,
        le=16_777_216,
        description="MiB of memory for its prompt cache, at most 30 % of the machine's; 0 is none.",
    )
    context_shift: bool | None = Field(
        default=None,
        examples=[False],
        description="Whether an answer may run past the context by forgetting its beginning; not if not set.",
    )
    slot_prompt_similarity: float | None = Field(
        default=None,
        examples=[0.1],
        ge=0,
        le=1,
        description="How much of a prompt must be like a slot's last one to get that slot; 0 is the engine's own 0.1.",
    )
    gpu_layers: Literal["auto", "all"] | Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None,
        examples=["auto"],
        description="Layers kept on the accelerator; the engine decides if `auto` or not set.",
    )
    devices: DeviceNames | None = Field(
        default=None,
        examples=[["CUDA0"]],
        description='The accelerators it may use, as the engine\'s --list-devices names them; ["none"] for none.',
    )
    tensor_preset: TensorPreset | None = Field(
        default=None,
        examples=["cpu-moe"],
        description="Weights kept in main memory: `cpu-moe` the experts, `cpu-moe:N` those of the first N layers, "
        "`ffn-cpu` every feed-forward matrix.",
    )
    threads: int | None = Field(default=None, examples=[8], ge=1, le=1024, description="Processor threads.")
    threads_batch: int | None = Field(
        default=None, examples=[8], ge=1, le=1024, description="Processor threads for prompts; as `threads` if not set."
    )
    ubatch: int | None = Field(
        default=None,
        examples=[512],
        ge=1,
        le=65_536,
        description="Tokens of a prompt computed at once; 512 if not set, and more costs memory.",
    )
    lora: Adapters | None = Field(
        default=None,
        examples=[["~/adapters/style.gguf"]],
        description='LoRA adapters: paths, or tables such as { path = "~/a.gguf", scale = 0.5 }.',
    )
    mmproj_policy: ProjectorPolicy | bool | None = Field(
        default=None,
        examples=["attach"],
        description="The projector for images: `attach` (true) loads it with the model, `skip` (false) never, "
        "`lazy` when an image comes.",
    )
    samplers: Samplers | None = Field(
        default=None,
        examples=["top_k;top_p;typical"],
        description="The samplers and their order, separated by semicolons; the engine's own if not set.",
    )
    engine: Word | None = Field(
        default=None,
        examples=["llamacpp"],
        description="The engine kind (`llamacpp`) or the build's tag that must serve the model.",
    )
    chat_template: str | None = Field(
        default=None,
        examples=["chatml"],
        min_length=1,
        description="The name of a chat template that the engine has built in, or Jinja text, instead of the model's.",
    )
    chat_template_file: FilePath | None = Field(
        default=None,
        examples=["~/templates/chat.jinja"],
        description="A Jinja file used instead of the chat template in the model.",
    )
    chat_template_kwargs: JsonTable | None = Field(
        default=None,
        examples=[{"enable_thinking": True}],
        description="Arguments for the chat template; a request's own go first.",
    )
    reasoning_effort: Effort | None = Field(
        default=None,
        examples=["medium"],
        description="How hard a thinking model thinks where a request does not say.",
    )
    mcp_servers_config: FilePath | None = Field(
        default=None,
        examples=["~/mcp.json"],
        description="A JSON file of MCP servers that the engine may start; only for people you trust.",
    )
    mcp_servers_json: JsonText | None = Field(
        default=None,
        examples=['{"mcpServers": {}}'],
        description="The same as `mcp_servers_config`, as JSON text.",
    )
    extra_args: Arguments | None = Field(
        default=None,
        examples=[["--threads", "8"]],
        description="Further arguments for the engine, checked against the build's own --help.",
    )
