"""Which instance of a model does which work. Pure."""

from blazar_routing.errors import InvalidRequest
from blazar_routing.instances import Role, instance_name
from blazar_store.settings_models import ModelKnobs
from blazar_store.types import ModelRow

_OF_VECTORS = frozenset({"embedding", "rerank"})
_PROJECTOR_FLAGS = frozenset({"-mm", "--mmproj", "-mmu", "--mmproj-url"})


def instance_for(row: ModelRow, role: Role, chosen: ModelKnobs) -> str:
    """Return the name of the instance of a model that does some work: a companion, or the plain one.

    Args:
        row: The model.
        role: The work.
        chosen: The model's settings.

    Raises:
        InvalidRequest: It is to see, and the settings keep its projector away.
    """
    match role:
        case Role.PLAIN:
            return row.name
        case Role.EMBED:
            return row.name if _OF_VECTORS & set(row.capabilities) else instance_name(row.name, Role.EMBED)
        case Role.VISION:
            return _instance_that_sees(row, chosen)


def _instance_that_sees(row: ModelRow, chosen: ModelKnobs) -> str:
    # A projector that is named in the arguments is there, whatever the policy; one within the file always is.
    if row.mmproj_path is None or any(word.split("=")[0] in _PROJECTOR_FLAGS for word in chosen.extra_args):
        return row.name
    match chosen.mmproj_policy:
        case "attach":
            return row.name
        case "lazy":
            return instance_name(row.name, Role.VISION)
        case "skip":
            raise InvalidRequest(
                f"model '{row.name}' has a projector, and its settings keep it away: it cannot see. "
                f'Set `mmproj_policy = "lazy"` (or "attach") under [models."{row.name}"] in config.toml, '
                "or send the request without images.",
                param="messages",
            )
