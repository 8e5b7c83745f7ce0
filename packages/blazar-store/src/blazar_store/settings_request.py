"""What the owner of a model decides about requests: ``[models."NAME".request]``, or ``[defaults.request]`` for all.

The words are those of OpenAI's chat requests, whatever a client speaks: every dialect is translated to them first.
"""

from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, Strict, model_validator

from blazar_store.settings_values import JsonTable, Samplers, Table, sampler_chain

Texts = Annotated[tuple[str, ...], Strict(strict=False)]

_MORE_TO_STRIP: Final = (
    "tools", "tool_choice", "response_format", "grammar", "json_schema", "logprobs", "top_logprobs", "logit_bias",
    "n", "think", "user", "metadata", "cache_prompt",
)  # fmt: skip


class RequestParameters(Table):
    """Parameters of a request that have one right type and range."""

    temperature: float | None = Field(default=None, examples=[0.7], ge=0, le=10, description="How freely it chooses.")
    top_p: float | None = Field(default=None, examples=[0.95], ge=0, le=1, description="Nucleus sampling.")
    top_k: int | None = Field(
        default=None, examples=[40], ge=0, le=1_000_000, description="Only the likeliest so many tokens; 0 is all."
    )
    min_p: float | None = Field(
        default=None, examples=[0.05], ge=0, le=1, description="Only tokens at least so likely beside the likeliest."
    )
    typical_p: float | None = Field(default=None, examples=[1.0], ge=0, le=1, description="Locally typical sampling.")
    top_n_sigma: float | None = Field(
        default=None, examples=[1.0], ge=-1, le=1000, description="Only tokens within so many deviations; -1 is all."
    )
    presence_penalty: float | None = Field(
        default=None, examples=[0.0], ge=-10, le=10, description="Against tokens that occurred."
    )
    frequency_penalty: float | None = Field(
        default=None, examples=[0.0], ge=-10, le=10, description="Against tokens by how often they occurred."
    )
    repeat_penalty: float | None = Field(
        default=None, examples=[1.1], ge=0, le=10, description="Against tokens that occurred lately; 1 is none."
    )
    repeat_last_n: int | None = Field(
        default=None, examples=[64], ge=-1, le=16_777_216, description="How many tokens are lately; -1 is the context."
    )
    xtc_probability: float | None = Field(
        default=None, examples=[0.0], ge=0, le=1, description="How often the likeliest tokens are left out."
    )
    xtc_threshold: float | None = Field(
        default=None, examples=[0.1], ge=0, le=1, description="From what probability on they are."
    )
    dry_multiplier: float | None = Field(
        default=None, examples=[0.8], ge=0, le=100, description="Against repeated runs of tokens; 0 is none."
    )
    dry_base: float | None = Field(
        default=None, examples=[1.75], ge=0, le=100, description="How that grows with the run's length."
    )
    dry_allowed_length: int | None = Field(
        default=None, examples=[2], ge=0, le=65_536, description="The longest run that is not held against it."
    )
    mirostat: int | None = Field(default=None, examples=[0], ge=0, le=2, description="Mirostat's version; 0 is off.")
    mirostat_tau: float | None = Field(default=None, examples=[5.0], ge=0, le=100, description="Its target entropy.")
    mirostat_eta: float | None = Field(default=None, examples=[0.1], ge=0, le=100, description="Its learning rate.")
    samplers: Samplers | None = Field(
        default=None, examples=["top_k;top_p;temperature"], description="The samplers and their order."
    )
    seed: int | None = Field(
        default=None, examples=[42], ge=-1, le=4_294_967_295, description="The same one draws the same; -1 draws anew."
    )
    max_tokens: int | None = Field(
        default=None, examples=[2048], ge=1, le=16_777_216, description="Tokens of an answer at most."
    )
    stop: Texts | None = Field(default=None, examples=[["###"]], description="Texts at which an answer ends.")
    reasoning_effort: Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"] | None = Field(
        default=None, examples=["low"], description="How hard it thinks; chats only."
    )
    chat_template_kwargs: JsonTable | None = Field(
        default=None, examples=[{"enable_thinking": False}], description="Arguments for the chat template, one by one."
    )
    parallel_tool_calls: bool | None = Field(
        default=None, examples=[False], description="Whether a message may have several tool calls; chats only."
    )

    def fields(self) -> dict[str, object]:
        """Return what is set, as fields of a chat request."""
        found: dict[str, object] = {}
        for name in RequestParameters.model_fields:
            value = getattr(self, name)
            if value is not None:
                found[name] = list(value) if isinstance(value, tuple) else value
        if self.samplers is not None:
            found["samplers"] = list(sampler_chain(self.samplers))
        return found


STRIPPABLE: Final = frozenset({*RequestParameters.model_fields, *_MORE_TO_STRIP})
"""What can be taken out of a request without making it another."""


def _strippable(value: str) -> str:
    if value in STRIPPABLE:
        return value
    raise ValueError(f"the name of a parameter that can be left out: one of {', '.join(sorted(STRIPPABLE))}")


Names = Annotated[tuple[Annotated[str, AfterValidator(_strippable)], ...], Strict(strict=False)]


class RequestSettings(Table):
    """The three ways to decide about a parameter."""

    default: RequestParameters = Field(default=RequestParameters(), description="Used where a request does not say.")
    force: RequestParameters = Field(default=RequestParameters(), description="Used whatever a request says.")
    strip: Names = Field(
        default=(),
        examples=[["logit_bias"]],
        description="Parameters that are taken out of every request. All three are about writing text: calls for "
        "embeddings and reranking know none of these parameters and stay as they are.",
    )

    @model_validator(mode="after")
    def _each_once(self) -> "RequestSettings":
        places: dict[str, str] = {}
        for place, names in (
            ("default", self.default.fields()),
            ("force", self.force.fields()),
            ("strip", dict.fromkeys(self.strip)),
        ):
            for name in names:
                other = places.setdefault(name, place)
                if other != place:
                    raise ValueError(
                        f"a table that says one thing of each parameter; `{name}` is in `{other}` and in `{place}`"
                    )
        return self

    def over(self, general: "RequestSettings") -> "RequestSettings":
        """Return what holds with these before ``general``: what is said of a parameter here is all that is."""
        decided = {*self.default.fields(), *self.force.fields(), *self.strip}
        return RequestSettings(
            default=_merged(self.default, general.default, decided),
            force=_merged(self.force, general.force, decided),
            strip=(*self.strip, *(name for name in general.strip if name not in decided)),
        )


def _merged(own: RequestParameters, general: RequestParameters, decided: set[str]) -> RequestParameters:
    rest = {
        name: value
        for name in RequestParameters.model_fields
        if name not in decided and (value := getattr(general, name)) is not None
    }
    return own.model_copy(update=rest)
