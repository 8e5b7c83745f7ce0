"""What may be written after ``blazar pull``, and what may not."""

import pytest

from blazar_supervisor.pulls.reference import (
    HubReference,
    MalformedReference,
    Reference,
    ShortName,
    UrlReference,
    parse_reference,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("owner/repo", HubReference("owner/repo"), id="repository"),
        pytest.param("owner/repo:Q4_K_M", HubReference("owner/repo", "Q4_K_M"), id="with-a-quant"),
        pytest.param("owner/repo:sub/model.gguf", HubReference("owner/repo", "sub/model.gguf"), id="with-a-file"),
        pytest.param("owner/repo@v1:Q8_0", HubReference("owner/repo", "Q8_0", "v1"), id="with-a-revision"),
        pytest.param("hf.co/owner/repo:q4_k_m", HubReference("owner/repo", "q4_k_m"), id="ollamas-spelling"),
        pytest.param("https://huggingface.co/owner/repo", HubReference("owner/repo"), id="the-page"),
        pytest.param("https://huggingface.co/owner/repo/tree/main", HubReference("owner/repo"), id="the-files-page"),
        pytest.param(
            "https://huggingface.co/owner/repo/resolve/main/a/b.gguf",
            HubReference("owner/repo", "a/b.gguf"),
            id="a-files-address",
        ),
        pytest.param(
            "https://x.example/a/m.gguf?t=1", UrlReference("https://x.example/a/m.gguf?t=1", "m.gguf"), id="url"
        ),
        pytest.param(
            "https://x.example/my%20m.gguf",
            UrlReference("https://x.example/my%20m.gguf", "my m.gguf"),
            id="url-encoded",
        ),
        pytest.param("gemma3:270m", ShortName("gemma3:270m"), id="short-name"),
        pytest.param(" Gemma3 ", ShortName("gemma3"), id="short-name-loosely"),
    ],
)
def test_references(text: str, expected: Reference) -> None:
    assert parse_reference(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a/b/c",
        "../etc/passwd",
        "owner/..",
        "owner/re po",
        "owner/repo:../x",
        "owner/repo:/x",
        "owner/repo:a:b",
        "owner/repo@../x",
        "-owner/repo",
        "file:///etc/passwd",
        "http://x.example/m.gguf",
        "ftp://x.example/m.gguf",
        "https://x.example/",
        "https://x.example/page.html",
        "https://x.example/a%2Fb%00.gguf",
        "10.0.0.1:8080/owner/repo",
        "a b",
        "x:y:z",
    ],
)
def test_what_names_nothing(text: str) -> None:
    with pytest.raises(MalformedReference, match=r"cannot be pulled|can be pulled"):
        parse_reference(text)


def test_a_file_name_never_leaves_its_folder() -> None:
    with pytest.raises(MalformedReference):
        parse_reference("https://x.example/..%2F..%2Fm.gguf")
