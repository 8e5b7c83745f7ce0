"""Pulling on this machine: settings into a puller, and files that have come into rows.

The daemon and the command (while the daemon is down) both use this, under the same locks beside the files.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from blazar_budget import Launch, Memory
from blazar_budget.probe import probe_memory
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
        yield Puller(hub, Downloader(session, policy), layout.models_dir, machine_memory, launch)


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
    return await asyncio.to_thread(register_pulled, layout, pulled)


def register_pulled(layout: Layout, pulled: Pulled) -> ModelRow:
    """Make files that were pulled a row, or renew the row that they have. Blocks.

    Raises:
        PullFailed: They are not a model, or the name is somebody else's. The files stay.
    """
    first = pulled.files[0]
    try:
        row = describe_model(first.path, name=pulled.plan.name, mmproj=pulled.plan.projector)
        row = replace(row, pulled=True, digest=first.sha256)
        with Store(layout) as store:
            rows = store.list_models()
            known = next((one for one in rows if one.path == row.path and pulled.plan.name in {None, one.name}), None)
            if known is None:
                store.add_model(row)
            else:
                row = replace(row, name=known.name, engine=known.engine, added_at=known.added_at)
                row = replace(row, overlay=known.overlay)
                store.replace_model(row)
    except (CliError, StoreError) as error:
        raise PullFailed(f"the file is at {first.path}, and it could not be added: {error}") from error
    return row
