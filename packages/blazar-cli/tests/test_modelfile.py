"""Modelfiles: the grammar as a table, mistakes with their line, and what is written is read back."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from blazar_cli.modelfile.parameters import PARAMETERS, Effect, check_parameters, check_value
from blazar_cli.modelfile.parsing import BadModelfile, decode_modelfile, parse_modelfile
from blazar_cli.modelfile.recipe import Recipe, recipe_of, write_modelfile
from blazar_gateway.dialects.ollama.options import translate_options
from blazar_routing.errors import InvalidRequest
from blazar_store.overlays import LOAD_PARAMETERS
from blazar_store.settings_request import RequestParameters
from blazar_store.testing import make_model
from blazar_store.types import RowOverlay

WHOLE = '''# made by hand
FROM llama3.2:3b
from ./mmproj.gguf

ParaMeter temperature 0.25
PARAMETER stop "<|im end|>"
PARAMETER stop <|eot|>
PARAMETER num_ctx 8192
   # an indented comment
TEMPLATE """{{ if .System }}{{ .System }}
{{ end }}# not a comment
{{ .Prompt }}"""
SYSTEM You are "Bob".
ADAPTER ./lora.gguf
LICENSE """
MIT
"""
LICENSE Apache
MESSAGE user 1+1
MESSAGE assistant """two
2"""
RENDERER qwen3
'''


def read(text: str) -> Recipe:
    return recipe_of(parse_modelfile(text))


def test_every_instruction() -> None:
    assert read(WHOLE) == Recipe(
        source="llama3.2:3b",
        files=("./mmproj.gguf",),
        adapters=("./lora.gguf",),
        template="{{ if .System }}{{ .System }}\n{{ end }}# not a comment\n{{ .Prompt }}",
        system='You are "Bob".',
        parameters={"temperature": 0.25, "stop": ["<|im end|>", "<|eot|>"], "num_ctx": 8192},
        messages=({"role": "user", "content": "1+1"}, {"role": "assistant", "content": "two\n2"}),
        license="\nMIT\n\nApache",
        notes=("line 22: RENDERER is for what is inside Ollama and is left out",),
    )


@pytest.mark.parametrize(
    ("line", "value"),
    [
        pytest.param("SYSTEM plain words", "plain words", id="plain"),
        pytest.param("system\t tabs", "tabs", id="a tab separates"),
        pytest.param('SYSTEM "in quotes"', "in quotes", id="one quote"),
        pytest.param('SYSTEM "over\ntwo lines"', "over\ntwo lines", id="one quote over lines"),
        pytest.param('SYSTEM """three"""', "three", id="three quotes"),
        pytest.param('SYSTEM """\nA\n\n  B\n"""', "\nA\n\n  B\n", id="blank lines and indents stay"),
        pytest.param('SYSTEM """say "hi" """', 'say "hi" ', id="quotes inside"),
        pytest.param('SYSTEM """a"""   ', "a", id="blanks behind the end"),
        pytest.param('SYSTEM ""', "", id="nothing"),
        pytest.param('SYSTEM """a\r\nb"""', "a\nb", id="lines of Windows"),
        pytest.param("SYSTEM a # b", "a # b", id="a comment is a whole line"),
        pytest.param('SYSTEM """\nFROM x\n"""', "\nFROM x\n", id="instructions in a text are text"),
    ],
)
def test_values(line: str, value: str) -> None:
    assert read(f"FROM m\n{line}\nPARAMETER seed 1\n").system == value


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        pytest.param("FROM m\n\nSYSTM hi", 3, "'SYSTM' is no instruction. Did you mean SYSTEM?", id="unknown"),
        pytest.param("FROM m\nYou are", 2, "'You' is no instruction. There are FROM, PARAMETER", id="loose text"),
        pytest.param("FROM", 1, "FROM has no value. Write FROM and", id="no value"),
        pytest.param("FROM m\nPARAMETER", 2, "PARAMETER has no value", id="no parameter"),
        pytest.param("PARAMETER top_k", 1, "PARAMETER has no value", id="no value of a parameter"),
        pytest.param("# c\nPARAMETER top_k many", 2, "top_k is 'many'; it must be a whole number", id="no number"),
        pytest.param("PARAMETER num_ctx 16", 1, "a whole number from 256 to 16777216", id="out of range"),
        pytest.param(
            "PARAMETER seed 99999999999999999999", 1, "from -2147483648 to 4294967295", id="more than an engine takes"
        ),
        pytest.param("PARAMETER repeat_last_n -5", 1, "from -1 to 16777216", id="less than an engine takes"),
        pytest.param("PARAMETER mirostat 7", 1, "from 0 to 2", id="a version there is not"),
        pytest.param("PARAMETER num_predict -3", 1, "from -2 to 16777216", id="below"),
        pytest.param("PARAMETER temperature nan", 1, "temperature is 'nan'", id="not a number"),
        pytest.param("PARAMETER top_p 1.5", 1, "top_p is '1.5'; it must be a number from 0 to 1.", id="no share"),
        pytest.param("PARAMETER temperature -1", 1, "a number from 0 to 10", id="below nothing"),
        pytest.param("PARAMETER presence_penalty 11", 1, "a number from -10 to 10", id="too strict"),
        pytest.param("PARAMETER use_mmap yes", 1, "true or false", id="no truth value"),
        pytest.param("PARAMETER temprature 1", 1, "unknown parameter 'temprature'. Did you mean 'temp", id="misspelt"),
        pytest.param("PARAMETER seed 1\n\nPARAMETER seed 2", 3, "the first is in line 1", id="twice"),
        pytest.param("SYSTEM a\nSYSTEM b", 2, "a second SYSTEM; the first is in line 1", id="two systems"),
        pytest.param('FROM m\nSYSTEM """a\nb\n', 2, "does not end", id="three quotes open"),
        pytest.param('SYSTEM "a\nb', 1, 'put " at its end', id="one quote open"),
        pytest.param("MESSAGE bot hi", 1, "'bot' is no role of a MESSAGE", id="role"),
        pytest.param("MESSAGE", 1, "MESSAGE has no value", id="no role"),
    ],
)
def test_mistakes_are_told_with_their_line(text: str, line: int, words: str) -> None:
    with pytest.raises(BadModelfile) as caught:
        read(text)
    assert caught.value.line == line
    assert words in caught.value.reason


@pytest.mark.parametrize(
    ("data", "line"),
    [
        pytest.param(b"FROM m\nSYSTEM \xff\n", 2, id="not UTF-8"),
        pytest.param(b"GGUF\0\0\0", 1, id="a model file"),
        pytest.param(b"F" * ((4 << 20) + 1), 1, id="far too long"),
    ],
)
def test_what_is_no_text_is_refused(data: bytes, line: int) -> None:
    with pytest.raises(BadModelfile) as caught:
        decode_modelfile(data)
    assert caught.value.line == line


def test_a_file_that_is_too_long_is_told_the_limit() -> None:
    with pytest.raises(BadModelfile, match="has 5000000 bytes, and a Modelfile has 4194304 at most"):
        decode_modelfile(b"F" * 5_000_000)


@pytest.mark.parametrize(
    "name", [name for name, one in PARAMETERS.items() if one.kind is float and one.effect is Effect.REQUEST]
)
def test_what_config_refuses_as_a_parameter_a_modelfile_refuses_too(name: str) -> None:
    for value in (-10.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 10.0, 10.5, 100.0, 100.5):
        try:
            RequestParameters.model_validate({name: value})
        except ValidationError:
            with pytest.raises(InvalidRequest, match=f"{name} is .* a number from "):
                check_value(name, value)
        else:
            assert check_value(name, value) == value


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_texts_of_every_editor_are_read(encoding: str) -> None:
    assert decode_modelfile("FROM m\nSYSTEM é".encode(encoding)) == "FROM m\nSYSTEM é"


def writable(text: str) -> bool:
    return '"""' not in text and "\r\n" not in text


texts = st.text(st.characters(exclude_categories=["Cs", "Cc"], include_characters="\n\t "), max_size=40).filter(
    writable
)


@given(
    system=texts,
    template=texts,
    licence=texts,
    turns=st.lists(st.tuples(st.sampled_from(["user", "assistant", "system"]), texts), max_size=3),
    stops=st.lists(texts.filter(bool), max_size=3),
    temperature=st.floats(0, 2),
    seed=st.integers(-1, 2**31),
)
def test_a_row_that_is_written_is_read_back(
    system: str,
    template: str,
    licence: str,
    turns: list[tuple[str, str]],
    stops: list[str],
    temperature: float,
    seed: int,
) -> None:
    overlay = RowOverlay(
        system=system,
        template=template,
        license=licence,
        messages=tuple({"role": role, "content": text} for role, text in turns),
        parameters={"temperature": temperature, "seed": seed, **({"stop": stops} if stops else {})},
        adapters=(Path("/weights/lora.gguf"),),
    )
    recipe = read(write_modelfile(make_model(overlay=overlay, mmproj_path=Path("/weights/mmproj.gguf"))))
    assert (recipe.source, recipe.files) == ("/weights/model.gguf", ("/weights/mmproj.gguf",))
    assert recipe.adapters == ("/weights/lora.gguf",)
    assert (recipe.system, recipe.template, recipe.license) == (system, template, licence)
    assert recipe.messages == overlay.messages
    assert recipe.parameters == overlay.parameters


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    line = 1
    try:
        read(text)
    except BadModelfile as error:
        line = error.line
    assert 1 <= line <= text.count("\n") + 1


def test_the_table_of_parameters_is_that_of_requests_and_loads() -> None:
    load = {name for name, one in PARAMETERS.items() if one.effect is Effect.LOAD}
    assert load == set(LOAD_PARAMETERS)
    for name, one in PARAMETERS.items():
        value: object = {int: 300, float: 0.5, bool: True, str: ["x"]}[one.kind]
        fields = translate_options({name: value}).fields
        assert bool(fields) is (one.effect is Effect.REQUEST), name


@pytest.mark.parametrize(
    ("given_", "kept"),
    [
        pytest.param({"temperature": 1}, {"temperature": 1.0}, id="a whole number is a number"),
        pytest.param({"top_k": 4.0}, {"top_k": 4}, id="JSON knows one kind of number"),
        pytest.param({"stop": "x"}, {"stop": ["x"]}, id="one stop is a list"),
        pytest.param({"seed": None}, {}, id="null is nothing"),
    ],
)
def test_parameters_of_the_api_are_made_regular(given_: dict[str, object], kept: dict[str, object]) -> None:
    assert check_parameters(given_) == kept


@pytest.mark.parametrize(
    "parameters",
    [{"top_k": True}, {"top_k": 1.5}, {"stop": [1]}, {"stop": [""]}, {"use_mmap": 1}, {"x": 1}, {"top_p": "1"}],
    ids=str,
)
def test_wrong_parameters_of_the_api_are_refused(parameters: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest):
        check_parameters(parameters)
