"""Which model row a request means."""

from blazar_gateway.context import Gateway
from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest, ModelNotFound


def get_card(gateway: Gateway, name: str) -> ModelCard:
    """Return the row that a client's spelling means.

    Raises:
        ModelNotFound: There is none; the text names what resembles it.
    """
    card = gateway.catalogue.find(name)
    if card is None:
        raise ModelNotFound(model=name[:300], near=gateway.catalogue.near(name))
    return card


def get_card_or_only(gateway: Gateway, name: object) -> ModelCard:
    """Return the row that ``name`` means; without a name, the one that is loaded, or the only one there is.

    Raises:
        ModelNotFound: There is no such row.
        InvalidRequest: No name was given, and more than one model (or none) could be meant.
    """
    if name is not None:
        if not isinstance(name, str) or not name:
            raise InvalidRequest("model must be a string that names a model.", param="model")
        return get_card(gateway, name)
    loaded = {resident.model for resident in gateway.host.residents()}
    if len(loaded) == 1:
        return get_card(gateway, loaded.pop())
    cards = gateway.catalogue.cards()
    if len(cards) == 1:
        return cards[0]
    if not cards:
        raise InvalidRequest(
            "model is missing, and there is no model yet: add one with `blazar models add PATH`.", param="model"
        )
    examples = ", ".join(f"'{card.name}'" for card in cards[:5])
    raise InvalidRequest(
        f"model is missing, and there are several to choose from: say which in the body's `model`, such as {examples}.",
        param="model",
    )
