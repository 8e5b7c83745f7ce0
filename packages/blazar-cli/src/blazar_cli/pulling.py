"""Pulling on this machine: settings into a puller, and files that have come into rows.

The daemon and the command (while the daemon is down) both use this, under the same locks beside the files.
"""

import asyncio
import hashlib
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from blazar_budget import Launch, Memory
from blazar_budget.probe import probe_memory
from blazar_cli.catalogue import check_no_alias
from blazar_cli.directory_rows import describe_components, describe_directory
from blazar_cli.errors import CliError
from blazar_cli.registration import describe_model
from blazar_routing.errors import PullFailed
from blazar_store.errors import StoreError
from blazar_store.layout import Layout
from blazar_store.settings import Settings
from blazar_store.store import Store
from blazar_store.types import ModelRow
from blazar_supervisor.pulls.addresses import AddressPolicy
from blazar_supervisor.pulls.connection import open_session
from blazar_supervisor.pulls.download import Downloader
from blazar_supervisor.pulls.hub import find_hub
from blazar_supervisor.pulls.jobs import Telling
from blazar_supervisor.pulls.pulling import Pulled, Puller


@asynccontextmanager
async def open_puller(layout: Layout, settings: Settings) -> AsyncIterator[Puller]:
    """Yield a puller for this data directory by the settings and the environment (``HF_ENDPOINT``, ``HF_TOKEN``)."""
    hub = find_hub(settings.sources.hub, os.environ)
    named = (settings.sources.hub, os.environ.get("HF_ENDPOINT"), *settings.sources.trusted)
    policy = AddressPolicy.of_sources([url for url in named if url])
    defaults = settings.defaults
    launch = Launch(
        ctx=0,
        parallel=defaults.slots or 4,
        unified=(defaults.slots or 4) > 1,
        type_k=defaults.cache_type_k or "f16",
        type_v=defaults.cache_type_v or "f16",
    )
    async with open_session(policy) as session:
        installed = await asyncio.to_thread(_installed, layout)
        downloader = Downloader(session, policy)
        yield Puller(hub, downloader, layout.models_dir, machine_memory, launch, installed=installed)


def _installed(layout: Layout) -> frozenset[str]:
    if not layout.database.exists():
        return frozenset()
    with Store(layout) as store:
        return frozenset(engine.kind for engine in store.list_engines())


def machine_memory() -> Memory:
    """Return what this machine has when nothing is loaded. Blocks."""
    return probe_memory().capacity()


async def pull_and_register(
    layout: Layout, settings: Callable[[], Settings], reference: str, telling: Telling
) -> ModelRow:
    """Pull a reference and make it a row.

    Raises:
        LaneError: It was refused or failed.
    """
    async with open_puller(layout, settings()) as puller:
        plan = await puller.plan(reference)
        telling.planned(plan)
        pulled = await puller.pull(plan, telling.progress)
    return await asyncio.to_thread(register_pulled, layout, settings(), pulled)


def _describe(pulled: Pulled) -> ModelRow:
    plan = pulled.plan
    if plan.components:
        return describe_components(plan.components, name=plan.name or plan.wanted[0].target.stem)
    if plan.directory is not None:
        return describe_directory(plan.directory, name=plan.name)
    return describe_model(pulled.files[0].path, name=plan.name, mmproj=plan.projector)


def _digest_of(pulled: Pulled) -> str:
    """Return the first file's hash for a GGUF, and one over all files for a model that all of them make."""
    plan = pulled.plan
    if plan.directory is None and not plan.components:
        return pulled.files[0].sha256
    lines = sorted(f"{one.sha256} {one.path.name}\n" for one in pulled.files)
    return hashlib.sha256("".join(lines).encode(errors="surrogateescape")).hexdigest()


def register_pulled(layout: Layout, settings: Settings, pulled: Pulled) -> ModelRow:
    """Make files that were pulled a row, or renew the row that they have. Blocks.

    Raises:
        PullFailed: They are not a model, or the name is somebody else's. The files stay.
    """
    first = pulled.files[0]
    try:
        row = _describe(pulled)
        row = replace(row, pulled=True, digest=_digest_of(pulled))
        with Store(layout) as store:
            rows = store.list_models()
            known = next((one for one in rows if one.path == row.path and pulled.plan.name in {None, one.name}), None)
            if known is None:
                check_no_alias(settings, row.name)
                store.add_model(row)
            else:
                row = replace(row, name=known.name, engine=known.engine, added_at=known.added_at)
                row = replace(row, overlay=known.overlay)
                store.replace_model(row)
    except (CliError, StoreError) as error:
        raise PullFailed(f"the file is at {first.path}, and it could not be added: {error}") from error
    return row
