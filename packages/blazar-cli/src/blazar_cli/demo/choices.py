"""The models that the demo can show."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DemoModel:
    """A model that the demo can show.

    Attributes:
        part: Its name among the real parts.
        name: As served.
        as_chat: Whether it was trained to chat.
        prompt: Asked when nobody says otherwise.
    """

    part: str
    name: str
    as_chat: bool
    prompt: str


DEMO_MODELS: dict[str, DemoModel] = {
    "smollm2": DemoModel("smollm2", "smollm2", as_chat=True, prompt="In two sentences: why is the sky blue?"),
    "gemma": DemoModel("gemma", "gemma", as_chat=False, prompt="The three primary colours are"),
}
