"""What a row's overlay asks of its load, as settings; they stand beneath the model's own table. Pure."""

from blazar_store.overlays import load_defaults
from blazar_store.settings_engine import LoraAdapter
from blazar_store.settings_models import ModelSettings
from blazar_store.types import RowOverlay


def overlay_settings(overlay: RowOverlay) -> ModelSettings:
    """Return an overlay as a table of settings, for ``Settings.for_model``."""
    asked = load_defaults(overlay)
    return ModelSettings(
        ctx=asked.ctx_tokens,
        gpu_layers=asked.gpu_layers,
        threads=asked.threads,
        chat_template=asked.chat_template,
        lora=tuple(LoraAdapter(path=str(path)) for path in asked.adapters) or None,
    )
