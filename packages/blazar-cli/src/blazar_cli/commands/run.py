"""``blazar run``: ask once, or chat."""

import sys
from collections.abc import Generator
from contextlib import closing

import rich_click as click

from blazar_cli.chat.answer import Event, read_answer
from blazar_cli.chat.screen import Screen, describe_speed
from blazar_cli.chat.session import ChatSession, ReadLine
from blazar_cli.chat.settings import ChatSettings, chat_body
from blazar_cli.client import CHAT, DaemonClient
from blazar_cli.commands.options import complete_model, host_option
from blazar_cli.errors import NotText
from blazar_cli.local import connect
from blazar_cli.pull_client import ensure_model


@click.command()
@click.argument("model", shell_complete=complete_model)
@click.argument("prompt", nargs=-1)
@click.option("--system", metavar="TEXT", help="The system message.")
@click.option(
    "--temperature", type=click.FloatRange(min=0), help="How freely words are chosen; 0 always the likeliest."
)
@click.option("--seed", type=int, help="Makes an answer repeatable.")
@click.option("--max-tokens", type=click.IntRange(min=1), help="The most tokens to generate, thinking included.")
@click.option("--think/--no-think", default=None, help="Let the model think first, where its template knows how.")
@click.option("--hide-thinking", is_flag=True, help="Do not show thinking; a pipe never gets it.")
@click.option("--format", "answer_format", type=click.Choice(["json"]), help="The answer must be a JSON object.")
@click.option("--keep-alive", metavar="DURATION", help="How long the model stays loaded: 5m, 1h, 0, -1 (for ever).")
@click.option("-v", "--verbose", is_flag=True, help="Show tokens and speed after the answer.")
@host_option
def run(
    *,
    model: str,
    prompt: tuple[str, ...],
    system: str | None,
    temperature: float | None,
    seed: int | None,
    max_tokens: int | None,
    think: bool | None,
    hide_thinking: bool,
    answer_format: str | None,
    keep_alive: str | None,
    verbose: bool,
    host: str | None,
) -> None:
    """Ask a model, or chat with it.

    A model that is not here is pulled first if MODEL is owner/repository[:QUANT] or a short name. With PROMPT, or
    with text on standard input, it answers once; standard input comes before PROMPT. On a terminal without PROMPT it
    starts a chat: Ctrl-C stops an answer, /bye leaves, /help tells the rest.
    """
    settings = ChatSettings(
        system=system,
        temperature=temperature,
        seed=seed,
        max_tokens=max_tokens,
        think=think,
        show_thinking=not hide_thinking,
        verbose=verbose,
        json_answer=answer_format is not None,
        keep_alive=keep_alive,
    )
    client = connect(host)
    text = _question(prompt)
    model = ensure_model(client, model)
    if not client.address.names_a_daemon and sys.stdin.isatty():
        from blazar_cli.engine_offer import offer_engine

        offer_engine()
    if text is None:
        _chat(client, model, settings)
    else:
        _ask_once(client, model, text, settings)


def _question(prompt: tuple[str, ...]) -> str | None:
    """Return what to ask, or ``None`` when a person sits at the terminal and gave no prompt."""
    parts = []
    if not sys.stdin.isatty():
        parts.append(_piped().strip())
    parts.append(" ".join(prompt).strip())
    text = "\n\n".join(part for part in parts if part)
    if text:
        return text
    if sys.stdin.isatty() and not prompt:
        return None
    raise click.UsageError("there is nothing to ask: standard input is empty and no PROMPT was given.")


def _piped() -> str:
    try:
        text = sys.stdin.read()
        # Some locales let any byte pass, as lone surrogates, and only this finds them.
        text.encode()
    except UnicodeError as error:
        raise NotText(what="standard input") from error
    return text


def _events(client: DaemonClient, model: str, turns: list[dict[str, str]], settings: ChatSettings) -> Generator[Event]:
    lines = client.lines("POST", CHAT, chat_body(model, turns, settings))
    # Closing on every way out drops the connection, and with it the work behind it.
    with closing(lines):
        yield from read_answer(lines)


def _ask_once(client: DaemonClient, model: str, text: str, settings: ChatSettings) -> None:
    screen = Screen(sys.stdout, is_terminal=sys.stdout.isatty(), show_thinking=settings.show_thinking)
    with closing(_events(client, model, [{"role": "user", "content": text}], settings)) as events:
        shown = screen.show(model, events)
    if settings.verbose:
        click.echo(describe_speed(shown), err=True)


def _chat(client: DaemonClient, model: str, settings: ChatSettings) -> None:
    client.require_model(model)
    click.echo(f"Chatting with {model}. /help lists the commands, /bye leaves.")
    screen = Screen(sys.stdout, is_terminal=sys.stdout.isatty(), show_thinking=settings.show_thinking)
    ChatSession(
        model,
        ask=lambda turns, now: _events(client, model, turns, now),
        read_line=_line_reader(),
        screen=screen,
        settings=settings,
    ).run()


def _line_reader() -> ReadLine:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import InMemoryHistory

    # Kept in memory only: what people ask is nobody else's business, a file in their home included.
    session: PromptSession[str] = PromptSession(history=InMemoryHistory())
    return lambda prompt: session.prompt(prompt)
