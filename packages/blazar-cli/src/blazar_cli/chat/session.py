"""The chat loop: read a message, show the answer, remember both."""

from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import replace

import click

from blazar_cli.chat.answer import Event
from blazar_cli.chat.screen import Screen, describe_speed
from blazar_cli.chat.settings import SETTABLE, ChatSettings, SettingRefused, change_setting, describe
from blazar_cli.chat.typed import Command, Lines, Message, Verb
from blazar_cli.errors import CliError

Ask = Callable[[list[dict[str, str]], ChatSettings], Generator[Event]]
"""Sends the conversation and yields the answer's events; closing the generator cancels the answer."""

ReadLine = Callable[[str], str]
"""Shows a prompt and returns the line typed; raises ``EOFError`` at the end, ``KeyboardInterrupt`` on Ctrl-C."""

HELP = """\
  /set NAME VALUE   change a setting; without a name, list them
  /show             show the model, the settings and how long the conversation is
  /clear            forget the conversation
  /help, /?         this list
  /bye              leave (also Ctrl-D)

  \"\"\" begins and ends a message of several lines. Ctrl-C stops an answer."""


class ChatSession:
    """One conversation with one model.

    Args:
        model: Its name, for the screen.
        ask: How to reach it.
        read_line: How to read what is typed.
        screen: Where answers go.
        settings: To begin with.
    """

    def __init__(
        self, model: str, *, ask: Ask, read_line: ReadLine, screen: Screen, settings: ChatSettings | None = None
    ) -> None:
        self.model = model
        self.settings = settings or ChatSettings()
        self.turns: list[dict[str, str]] = []
        self._ask = ask
        self._read_line = read_line
        self._screen = screen

    def run(self) -> None:
        """Talk until the person leaves."""
        lines = Lines()
        while True:
            try:
                typed = lines.feed(self._read_line("... " if lines.is_open else ">>> "))
            except EOFError:
                return
            except KeyboardInterrupt:
                lines.drop()
                click.echo("Type /bye or press Ctrl-D to leave.")
                continue
            match typed:
                case None:
                    continue
                case Message(text):
                    self._exchange(text)
                case Command():
                    if typed.verb is Verb.BYE:
                        return
                    self._obey(typed)

    def _exchange(self, text: str) -> None:
        self.turns.append({"role": "user", "content": text})
        self._screen.show_thinking = self.settings.show_thinking
        try:
            with closing(self._ask(self.turns, self.settings)) as events:
                shown = self._screen.show(self.model, events)
        except KeyboardInterrupt:
            self._keep_answer(self._screen.partial_text)
            return
        except CliError as error:
            click.echo(str(error), err=True)
            self._keep_answer(self._screen.partial_text)
            return
        self._keep_answer(shown.text)
        if self.settings.verbose:
            click.echo(describe_speed(shown), err=True)

    def _keep_answer(self, text: str) -> None:
        # A question without an answer would make the next request end in two user turns, which templates refuse.
        if text:
            self.turns.append({"role": "assistant", "content": text})
        else:
            self.turns.pop()

    def _obey(self, command: Command) -> None:
        match command.verb:
            case Verb.CLEAR:
                self.turns.clear()
                click.echo("The conversation is forgotten.")
            case Verb.SET:
                self._set(command.rest)
            case Verb.SHOW:
                self._show()
            case Verb.HELP | Verb.BYE:
                click.echo(HELP)
            case None:
                click.echo(f"There is no command /{command.word}. Type /help for those there are.")

    def _set(self, rest: str) -> None:
        name, _, value = rest.partition(" ")
        if not name:
            width = max(map(len, SETTABLE))
            click.echo("\n".join(f"  {setting.ljust(width)}  {wants}" for setting, wants in SETTABLE.items()))
            return
        try:
            self.settings = change_setting(self.settings, name.replace("-", "_"), value.strip().strip('"'))
        except SettingRefused as error:
            click.echo(str(error))

    def _show(self) -> None:
        click.echo(f"  model  {self.model}")
        for name, value in describe(replace(self.settings, keep_alive=None)):
            click.echo(f"  {name}  {value}")
        click.echo(f"  turns  {len(self.turns)}")
