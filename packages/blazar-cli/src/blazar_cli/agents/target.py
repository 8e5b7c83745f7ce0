"""Which daemon, model and key an agent gets, and what is to be said about them first."""

import os
import shlex
import time
from dataclasses import dataclass
from pathlib import Path

from blazar_cli.address import Address, AddressSource, parse_address
from blazar_cli.agents.plans import Agent
from blazar_cli.client import MODELS, STATUS, DaemonClient, JsonObject, path_segment
from blazar_cli.errors import AgentKeyMissing, AgentModelUnclear, ApiRefused
from blazar_cli.keys import keys_in_force
from blazar_store.env_keys import VARIABLE, parse_env_keys
from blazar_store.names import fold_name
from blazar_store.settings_files import load_settings
from blazar_store.settings_keys import KeyEntry

_LOAD = "/api/generate"


@dataclass(frozen=True, slots=True)
class Model:
    """A model as the daemon describes it.

    Attributes:
        name: The row's.
        ctx_tokens: The context it is served with; before it is loaded, the one it was trained for. ``None``: unknown.
        trained_ctx: The context it was trained for, or ``None``.
        loaded: Whether ``ctx_tokens`` is what is served.
        capabilities: Ollama's words.
    """

    name: str
    ctx_tokens: int | None
    trained_ctx: int | None
    loaded: bool
    capabilities: tuple[str, ...]


def describe(entry: JsonObject) -> Model:
    """Return the model that an entry of ``/v1/models`` describes."""
    ctx, trained, capabilities = entry.get("context_length"), entry.get("max_context_length"), entry.get("capabilities")
    return Model(
        name=str(entry.get("id")),
        ctx_tokens=ctx if isinstance(ctx, int) else None,
        trained_ctx=trained if isinstance(trained, int) else None,
        loaded=entry.get("state") in {"ready", "sleeping"},
        capabilities=tuple(map(str, capabilities)) if isinstance(capabilities, list) else (),
    )


def find_model(client: DaemonClient, name: str) -> Model:
    """Return the model that ``name`` means.

    Raises:
        ApiRefused: There is none; the text suggests similar names.
    """
    return describe(client.get(f"{MODELS}/{path_segment(name)}"))


def choose_model(client: DaemonClient, agent: Agent) -> Model:
    """Return the model for an agent when none was named: the only one that suits, or the one of those that is loaded.

    Raises:
        AgentModelUnclear: None suits, or several do; the text says what to type.
    """
    listed = client.get(MODELS).get("data")
    models = [describe(one) for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
    answering = [model for model in models if "completion" in model.capabilities]
    suited = [model for model in answering if not agent.needs_tools or "tools" in model.capabilities] or answering
    for candidates in (suited, [model for model in suited if model.loaded]):
        if len(candidates) == 1:
            return candidates[0]
    if not suited:
        raise AgentModelUnclear(
            "no model is registered that could answer. Add one with `blazar models add PATH`, or name one to be "
            f"pulled: `blazar launch {agent.name} --model owner/repository`."
        )
    names = ", ".join(model.name for model in suited[:5]) + (", …" if len(suited) > 5 else "")
    raise AgentModelUnclear(
        f"there are several models to choose from ({names}). Say which: "
        f"`blazar launch {agent.name} --model {shlex.quote(suited[0].name)}`."
    )


def load(client: DaemonClient, model: Model) -> Model:
    """Load a model and return what is known of it then: only now is it certain which context it is served with."""
    client.post(_LOAD, {"model": model.name, "stream": False}, read_timeout_s=None)
    return find_model(client, model.name)


def find_public_address(client: DaemonClient) -> Address:
    """Return where an agent reaches the daemon: over TCP, whichever way this command did."""
    if client.address.names_a_daemon:
        return client.address
    # The daemon itself knows best: its port may be one that the system chose.
    address = str(client.get(STATUS).get("address"))
    return parse_address(address, source=AddressSource.CONFIG)


def find_key(client: DaemonClient, address: Address, model: str, config_file: Path) -> str | None:
    """Return the key that lets an agent use ``model``, or ``None`` where none is asked for.

    It is ``BLAZAR_API_KEY``, or for this machine's daemon one whose secret stands in ``BLAZAR_KEYS`` or, written by
    hand, in ``config.toml``; the narrowest that is allowed the model goes first, as an agent need not manage.

    Raises:
        AgentKeyMissing: One is asked for, and none that is readable here opens.
    """
    given = os.environ.get("BLAZAR_API_KEY") or None
    candidates: list[str | None] = [given] if given is not None else [None, *_readable_keys(model, config_file)]
    said = ""
    for secret in candidates:
        try:
            find_model(client.over_tcp(address, api_key=secret), model)
        except ApiRefused as refusal:
            if refusal.http_status not in {401, 403}:
                raise
            said = str(refusal)
        else:
            return secret
    raise AgentKeyMissing(url=address.base_url, said=said)


def _readable_keys(model: str, config_file: Path) -> list[str]:
    env_keys = parse_env_keys(os.environ.get(VARIABLE, ""))
    entries = keys_in_force(load_settings(config_file), env_keys)
    usable = [entry for entry in entries if entry.key is not None and _may_use(entry, model)]
    usable.sort(key=lambda entry: not entry.models)
    return [entry.key.get_secret_value() for entry in usable if entry.key is not None]


def _may_use(entry: KeyEntry, model: str) -> bool:
    if entry.expires is not None and entry.expires.timestamp() <= time.time():
        return False
    return not entry.models or fold_name(model) in map(fold_name, entry.models)


def doubts(agent: Agent, model: Model) -> list[str]:
    """Return what may keep an agent from working with a model, each with what to change."""
    found = []
    if model.loaded and model.ctx_tokens is not None and model.ctx_tokens < agent.least_ctx:
        found.append(_short_context(agent, model, model.ctx_tokens))
    if agent.needs_tools and "tools" not in model.capabilities:
        found.append(
            f"the chat template of '{model.name}' has no tools, and {agent.title} works through them. Choose a model "
            "whose capabilities list `tools` (`blazar models list`)."
        )
    return found


def _short_context(agent: Agent, model: Model, ctx_tokens: int) -> str:
    text = (
        f"'{model.name}' is served with a context of {ctx_tokens} tokens, and {agent.title} wants at least "
        f"{agent.least_ctx}: its own instructions fill most of less."
    )
    if model.trained_ctx is not None and model.trained_ctx < agent.least_ctx:
        return f"{text} The model was trained for {model.trained_ctx}: choose one with a longer context."
    name = shlex.quote(model.name)
    return (
        f'{text} Set `ctx = {agent.least_ctx}` under [models."{model.name}"] in config.toml '
        f"(`blazar fit {name}` says whether that fits), then `blazar stop {name}` and launch again."
    )
