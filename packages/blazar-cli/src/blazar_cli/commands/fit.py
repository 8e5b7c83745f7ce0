"""``blazar fit``: the memory verdict as a picture. Works with the daemon down and without an engine."""

import os

import rich_click as click

from blazar_budget import CacheType, Refuse, verdict_facts
from blazar_budget.shape import read_context_length
from blazar_cli.commands.options import complete_model, json_option
from blazar_cli.exit_codes import ExitCode
from blazar_cli.local import here
from blazar_cli.memory_picture import picture, verdict_words
from blazar_cli.memory_question import Answered, Wish, ask_about_row, ask_about_url
from blazar_cli.output import show_json
from blazar_cli.own_settings import own_settings
from blazar_store.store import Store
from blazar_supervisor.pulls.short_names import find_known


@click.command()
@click.argument("model", metavar="MODEL|FILE|URL|OWNER/REPOSITORY", shell_complete=complete_model)
@click.option("--ctx", type=click.IntRange(1), help="For this context, in tokens; else the largest that fits.")
@click.option("--cache-type", type=click.Choice([str(kind) for kind in CacheType]), help="Type of the K and V cache.")
@click.option("--parallel", type=click.IntRange(1, 256), help="Slots; else what the settings say.")
@click.option("--gpu-layers", type=click.IntRange(0), help="Layers on accelerators; else as many as there are.")
@click.option("--gpu", "gpus", multiple=True, type=click.FloatRange(0.1), help="An accelerator of so many GiB instead.")
@json_option
def fit(
    *,
    model: str,
    ctx: int | None,
    cache_type: str | None,
    parallel: int | None,
    gpu_layers: int | None,
    gpus: tuple[float, ...],
    as_json: bool,
) -> None:
    """Say whether a model fits into memory, before loading it.

    MODEL is a registered model, FILE one that need not be, URL an https address of which only the header is read;
    OWNER/REPOSITORY shows a table of what the hub has. Nothing is loaded. The exit status is 8 if it does not fit;
    the text then names the ways out.
    """
    if _names_repository(model):
        # Asynchronous HTTP, which a verdict on a file of this machine need not wait for.
        from blazar_cli.repository_fit import show_repository_fit

        show_repository_fit(model, as_json=as_json)
        return
    wish = Wish(ctx=ctx, cache_type=cache_type, parallel=parallel, gpu_layers=gpu_layers, gpus_gib=gpus)
    if model.startswith(("https://", "http://")):
        answered = ask_about_url(model, wish)
    else:
        directories, layout = here()
        with Store(layout) as store:
            answered = ask_about_row(store, own_settings(directories.config_file), model, wish)
    if as_json:
        show_json({"model": answered.name, "ctx_tokens": answered.launch.ctx, **verdict_facts(answered.verdict)})
    else:
        _show(answered)
    if isinstance(answered.verdict, Refuse):
        raise SystemExit(ExitCode.DOES_NOT_FIT)


def _show(answered: Answered) -> None:
    trained = read_context_length(answered.meta)
    about = f" (trained for {trained:,})" if trained else ""
    slots = answered.launch.parallel or 1
    click.echo(
        f"{answered.name}: {answered.launch.ctx:,} tokens of context{about}, {slots} slot{'s' * (slots > 1)}, "
        f"cache {answered.launch.type_k}"
    )
    if answered.verdict.footprint is not None:
        for line in picture(answered.verdict.footprint):
            click.echo(line)
    for words in verdict_words(answered.verdict):
        click.echo(words)


def _names_repository(model: str) -> bool:
    """Return whether ``model`` is neither a row nor a file nor an address, and looks like a repository of the hub."""
    # Also a link that leads nowhere is a file's name.
    if "://" in model or os.path.lexists(model) or model.startswith((".", "/", "~")):
        return False
    if "/" not in model and find_known(model) is None:
        return False
    _, layout = here()
    with Store(layout) as store:
        return store.find_model(model) is None
