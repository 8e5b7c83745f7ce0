# Every command of the project. `just` alone lists them. CI runs `just check` and nothing else (scripts/test).

set positional-arguments

python := ".venv/bin/python"
export PATH := justfile_directory() / ".venv/bin:" + env("PATH")

# List the commands.
_default:
    @just --list --unsorted

# Everything that must hold: format, lint, imports, deps, spelling, changelogs, types, tests.
check:
    @{{ python }} scripts/check

# The tests of one package (`just test gguf`), of all (`just test`), or what pytest is given.
test package='' *arguments='':
    #!/usr/bin/env bash
    set -euo pipefail
    case "${1:-}" in
        '') exec pytest -n logical --dist loadgroup ;;
        stubs | tests-e2e*) folder=$1 ;;
        e2e) folder=tests-e2e ;;
        *) folder=packages/blazar-${1#blazar-} ;;
    esac
    [[ -e $folder ]] || { echo "just test: there is no package '$1'; there are:" packages/* stubs e2e >&2; exit 2; }
    exec pytest -n logical --dist loadgroup "$folder" "${@:2}"

# The tests of the packages that this change touches, dependents included; BASE as in scripts/affected.
test-affected *base:
    #!/usr/bin/env bash
    set -euo pipefail
    mapfile -t folders < <({{ python }} scripts/affected --paths "$@")
    if [[ ${#folders[@]} == 0 ]]; then echo "nothing is affected"; exit 0; fi
    echo "testing: ${folders[*]}"
    exec pytest -n logical --dist loadgroup "${folders[@]}"

# Format, and mend what the linter can mend.
fmt:
    ruff format .
    ruff check --fix .

# ruff format --check
format:
    @{{ python }} scripts/check format

# ruff check
lint:
    @{{ python }} scripts/check lint

# mypy --strict, a package at a time, for Linux and macOS.
types:
    @{{ python }} scripts/check types

# The arrows between packages (import-linter).
imports:
    @{{ python }} scripts/check imports

# What is imported is declared, and the other way round (deptry).
deps:
    @{{ python }} scripts/check deps

# codespell
spelling:
    @{{ python }} scripts/check spelling

# Headings, versions and dates of every changelog.
changelogs:
    @{{ python }} scripts/check_changelogs.py

# The gateway's speed as a ratio to a bare aiohttp pass-through; needs two cores. `--json` for machines.
bench *arguments:
    @{{ python }} scripts/bench "$@"

# 100,000 mixed calls, and nothing may be left of them: memory, descriptors, tasks, leases, tokens.
soak *arguments:
    @{{ python }} scripts/soak "$@"

# Two real models, memory for one, eight clients: `just stress --minutes 10` prints failures, waits, swaps, throughput.
stress *arguments:
    @{{ python }} scripts/stress "$@"

# Fetch a real engine and model, ask a question through the gateway.
demo *arguments:
    @scripts/demo "$@"

# Fuzz the readers of model files: `just fuzz header --minutes 5` (needs atheris, which it says how to get).
fuzz *arguments:
    @{{ python }} scripts/fuzz "$@"

# The official clients, feature by feature, on the stub and on the stock engine: `just client-matrix --stub-only`.
client-matrix *arguments:
    @{{ python }} scripts/client_matrix "$@"

# Compare what blazar-gguf predicts with what a real llama-server does: `just fuzz-engine PATH/llama-server`.
fuzz-engine *arguments:
    @{{ python }} scripts/fuzz_engine.py "$@"

# Run the admission queue on synthetic load and draw what users would feel.
simulate *arguments:
    @{{ python }} scripts/simulate "$@"

# Which tests show each section of the protocols, and whether any is missing.
section-map *arguments:
    @{{ python }} scripts/section_map "$@"

# Write docs/reference from the code.
reference *arguments:
    @{{ python }} scripts/reference "$@"

# The distributions of every package, into dist/.
build:
    uv build --all-packages
