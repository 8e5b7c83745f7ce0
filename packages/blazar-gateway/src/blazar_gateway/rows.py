"""Which model row a request means, and whether its key may use it."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from aiohttp import web

from blazar_gateway.context import GATEWAY, KEY, METERED
from blazar_gateway.ports import ModelCard
from blazar_routing.errors import InvalidRequest, ModelNotFound


def get_card(request: web.Request, name: str) -> ModelCard:
    """Return the row that a client's spelling means; work for an engine is counted against the key's limits here.

    Raises:
        ModelNotFound: There is none; the text names what resembles it.
        ModelNotAllowed: The request's key is for other models.
        RateLimited: The key's minute is used up.
        DailyQuotaSpent: The key's day is used up.
    """
    gateway = request.app[GATEWAY]
    card = gateway.catalogue.find(name)
    key = request.get(KEY)
    if card is None:
        near = gateway.catalogue.near(name)
        if key is not None and key.models:
            near = tuple(known for known in near if _may_know(request, known))
        raise ModelNotFound(model=name[:300], near=near)
    return _admitted(request, card)


def get_card_or_only(request: web.Request, name: object) -> ModelCard:
    """Return the row that ``name`` means; without a name, the one that is loaded, or the only one there is.

    Raises:
        InvalidRequest: No name was given, and more than one model (or none) could be meant.
        LaneError: As :func:`get_card`.
    """
    if name is not None:
        if not isinstance(name, str) or not name:
            raise InvalidRequest("model must be a string that names a model.", param="model")
        return get_card(request, name)
    cards = cards_in_scope(request)
    known = {card.name for card in cards}
    loaded = {resident.model for resident in request.app[GATEWAY].host.residents()} & known
    if len(loaded) == 1:
        return get_card(request, loaded.pop())
    if len(cards) == 1:
        return _admitted(request, cards[0])
    if not cards:
        raise InvalidRequest(
            "model is missing, and there is no model yet: add one with `blazar models add PATH`.", param="model"
        )
    examples = ", ".join(f"'{card.name}'" for card in cards[:5])
    raise InvalidRequest(
        f"model is missing, and there are several to choose from: say which in the body's `model`, such as {examples}.",
        param="model",
    )


def cards_in_scope(request: web.Request) -> Sequence[ModelCard]:
    """Return the rows that a request may know of, newest first."""
    cards = request.app[GATEWAY].catalogue.cards()
    key = request.get(KEY)
    return cards if key is None else [card for card in cards if key.may_use(card.name, card.aliases)]


def listed(cards: Iterable[ModelCard]) -> tuple[ModelCard, ...]:
    """Return what listings show: each row, and after it an entry for each of its aliases.

    Clients look a name up in the list before they use it, so an alias that is not in it could not be used.
    """
    return tuple(entry for card in cards for entry in (card, *(_as_alias(card, alias) for alias in card.aliases)))


def listed_as(card: ModelCard, name: str) -> ModelCard:
    """Return the entry of a row under the name that was asked for."""
    return _as_alias(card, name) if name in card.aliases else card


def _as_alias(card: ModelCard, alias: str) -> ModelCard:
    return replace(card, name=alias, aliases=(), alias_of=card.name)


def _may_know(request: web.Request, name: str) -> bool:
    card = request.app[GATEWAY].catalogue.find(name)
    return card is not None and request[KEY].may_use(card.name, card.aliases)


def _admitted(request: web.Request, card: ModelCard) -> ModelCard:
    key = request.get(KEY)
    if key is not None:
        key.check_model(card.name, card.aliases)
    if METERED in request:
        request.app[GATEWAY].admission.admit(key, card.name)
    return card
