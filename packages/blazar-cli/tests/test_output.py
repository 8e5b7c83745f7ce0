import pytest

from blazar_cli.output import Column, human_bytes, human_count, human_seconds, plain_table, show_table


def test_columns_are_aligned_and_lines_have_no_spaces_at_the_end() -> None:
    lines = plain_table(
        (Column("NAME"), Column("SIZE", right=True), Column("X")), [("a", "1", ""), ("long", "100", "")]
    )
    assert lines == ["NAME  SIZE  X", "a        1", "long   100"]


def test_a_pipe_gets_plain_text_and_an_empty_listing_says_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    show_table((Column("NAME"),), [("[red]x[/red]",)], empty="none")
    assert capsys.readouterr().out == "NAME\n[red]x[/red]\n"
    show_table((Column("NAME"),), [], empty="Add one.")
    captured = capsys.readouterr()
    assert (captured.out, captured.err) == ("", "Add one.\n")


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0.0 MiB"), (98_362_432, "93.8 MiB"), (1 << 30, "1.0 GiB"), (5_046_586_573, "4.7 GiB")]
)
def test_sizes_are_for_people(size: int, text: str) -> None:
    assert human_bytes(size) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [(None, "-"), (12, "12"), (134_515_008, "134.5M"), (7_241_732_096, "7.2B"), (10**12, "1.0T"), (2_000, "2.0K")],
)
def test_counts_are_for_people(count: int | None, text: str) -> None:
    assert human_count(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(None, "forever"), (-1, "0s"), (59.4, "59s"), (90, "1m 30s"), (7_500, "2h 5m"), (90_000, "1d 1h")],
)
def test_spans_are_for_people(seconds: float | None, text: str) -> None:
    assert human_seconds(seconds) == text
