"""The ``blazar-gguf`` command: what a file or URL is, in plain text."""

import argparse
import json
import math
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import TextIO

from blazar_gguf.errors import GgufError
from blazar_gguf.meta import GgufMeta
from blazar_gguf.prediction import would_load
from blazar_gguf.reader import read_metadata_file
from blazar_gguf.report import facts, human_count
from blazar_gguf.values import Field, LazyArray, Value

_SHOWN_ITEMS = 8
_SHOWN_TEXT = 200
_OK, _UNREADABLE, _NOTHING = 0, 1, 3


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit status: 0, 1 for a file that cannot be read, 3 when nothing matches."""
    options = _parser().parse_args(arguments)
    try:
        return _run(options, sys.stdout)
    except GgufError as error:
        print(f"blazar-gguf: {error}", file=sys.stderr)
        return _UNREADABLE
    except BrokenPipeError:
        # the reader of our output went away (| head); point stdout elsewhere so that the final flush stays silent
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _OK


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="blazar-gguf",
        description="Show what a GGUF model file is, without loading it.",
        epilog="A URL is read in ranges: a few hundred KiB, not the model.",
    )
    parser.add_argument("source", metavar="FILE|URL", help="a .gguf file, or an http(s) URL of one")
    parser.add_argument("--json", action="store_true", help="machine-readable output, with every other option too")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--tensors", action="store_true", help="list the tensors")
    what.add_argument(
        "--template",
        nargs="?",
        const="default",
        metavar="NAME",
        help="print a chat template as it is",
    )
    what.add_argument("--keys", metavar="PATTERN", help="print the keys that match, e.g. '*.attention.*' or '*'")
    parser.add_argument("--token", metavar="TOKEN", help="bearer token for a URL; better given as HF_TOKEN")
    return parser


def _open(source: str, token: str | None) -> GgufMeta:
    if not source.startswith(("http://", "https://")):
        return read_metadata_file(source)
    from blazar_gguf.remote import read_metadata_url

    token = token or os.environ.get("HF_TOKEN")
    return read_metadata_url(source, headers={"Authorization": f"Bearer {token}"} if token else None)


def _run(options: argparse.Namespace, out: TextIO) -> int:
    meta = _open(options.source, options.token)
    if options.template is not None:
        return _print_template(meta, options.template, out, as_json=options.json)
    if options.keys is not None:
        return _print_keys(meta, options.keys, out, as_json=options.json)
    if options.tensors:
        _print_tensors(meta, out, as_json=options.json)
    elif options.json:
        _print_json(_whole(meta), out)
    else:
        _print_facts(meta, out)
    return _OK


def _print_json(value: object, out: TextIO) -> None:
    out.write(json.dumps(value, indent=2, ensure_ascii=False) + "\n")


def _print_facts(meta: GgufMeta, out: TextIO) -> None:
    rows = list(facts(meta))
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        out.write(f"{label:<{width}}  {text}\n")
    if not meta.complete:
        return
    verdict = would_load(meta)
    out.write(f"{'llama-server':<{width}}  {verdict.outcome}{': ' if verdict.reason else ''}{verdict.reason}\n")
    for warning in meta.warnings:
        out.write(f"{'warning':<{width}}  {warning}\n")


def _print_template(meta: GgufMeta, name: str, out: TextIO, *, as_json: bool) -> int:
    templates = meta.chat_templates
    if as_json:
        _print_json(dict(templates), out)
        return _OK
    if name not in templates:
        there = f"there are {', '.join(templates)}" if templates else "the file has no chat template"
        print(f"blazar-gguf: no template {name!r}; {there}", file=sys.stderr)
        return _NOTHING
    out.write(templates[name])
    if not templates[name].endswith("\n"):
        out.write("\n")
    return _OK


def _print_keys(meta: GgufMeta, pattern: str, out: TextIO, *, as_json: bool) -> int:
    meta.fields.finish()
    fields = [f for f in meta.fields.known.values() if fnmatchcase(f.key, pattern)]
    if not fields:
        print(f"blazar-gguf: no key matches {pattern!r}", file=sys.stderr)
        return _NOTHING
    if as_json:
        _print_json({f.key: _plain(f.value) for f in fields}, out)
        return _OK
    width = min(max(len(f.key) for f in fields), 48)
    for field in fields:
        out.write(f"{field.key:<{width}}  {field.type_label:<18}  {_brief(field.value)}\n")
    return _OK


def _print_tensors(meta: GgufMeta, out: TextIO, *, as_json: bool) -> None:
    if as_json:
        _print_json(list(_tensor_rows(meta)), out)
        return
    width = max((len(t.name) for t in meta.tensors), default=0)
    for t in meta.tensors:
        shape = " x ".join(map(str, t.dims)) or "scalar"
        out.write(f"{t.name:<{width}}  {t.type_name:<8}  {shape:<24}  {t.n_bytes:>15,} bytes\n")
    out.write(f"{len(meta.tensors)} tensors, {human_count(meta.n_params)} parameters, {meta.tensor_bytes:,} bytes\n")


def _tensor_rows(meta: GgufMeta) -> Iterator[dict[str, object]]:
    for t in meta.tensors:
        yield {"name": t.name, "type": t.type_name, "dims": t.dims, "offset": t.offset, "bytes": t.n_bytes}


def _whole(meta: GgufMeta) -> dict[str, object]:
    """Everything but the elements of large arrays."""
    meta.fields.finish()
    verdict = would_load(meta)
    return {
        "path": meta.path,
        "version": meta.version,
        "big_endian": meta.big_endian,
        "kind": meta.kind,
        "architecture": meta.architecture,
        "quantisation": meta.quant_label,
        "file_bytes": meta.file_bytes,
        "tensor_bytes": meta.tensor_bytes,
        "parameters": meta.n_params,
        "active_parameters": meta.active_params,
        "attention": meta.attention_class,
        "prediction": {"outcome": verdict.outcome, "reason": verdict.reason, "rule": verdict.rule},
        "warnings": meta.warnings,
        "metadata": {f.key: _summary(f) for f in meta.fields.known.values()},
    }


def _summary(field: Field) -> object:
    if field.lazy is not None and field.element_type is not None:
        return {"array_of": field.element_type.label, "count": field.count}
    return _plain(field.value)


def _plain(value: Value) -> object:
    """A value JSON can hold: infinities and NaN as text."""
    if isinstance(value, (tuple, LazyArray)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def _brief(value: Value) -> str:
    if isinstance(value, str):
        text = json.dumps(value, ensure_ascii=False)
        return text if len(text) <= _SHOWN_TEXT else f"{text[:_SHOWN_TEXT]}… ({len(value):,} characters)"
    if isinstance(value, (tuple, LazyArray)):
        items: Iterable[object] = value[:_SHOWN_ITEMS]
        more = f", … {len(value):,} in all" if len(value) > _SHOWN_ITEMS else ""
        return "[" + ", ".join(_brief_item(item) for item in items) + more + "]"
    return _brief_item(value)


def _brief_item(value: object) -> str:
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return f"{value:g}" if isinstance(value, float) else str(value).lower() if isinstance(value, bool) else str(value)
