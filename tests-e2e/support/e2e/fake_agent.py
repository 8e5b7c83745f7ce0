"""A stand-in for every coding agent: says what it was told, and asks the endpoint it was given as the real one would.

``install_agent(folder, "claude")`` puts it onto a PATH under an agent's name. It prints one JSON object (its variables,
arguments, and the answer that it got) and exits with the status in ``AGENT_EXITS``.
"""

import sys
from pathlib import Path

_PROGRAM = """#!{python}
import json, os, sys, tomllib, urllib.request

def post(url, body, key, header="Authorization"):
    headers = {{"Content-Type": "application/json", "anthropic-version": "2023-06-01"}}
    if key:
        headers["Authorization"] = "Bearer " + key
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)

def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()

env, argv = os.environ, sys.argv
name = os.path.basename(argv[0])
question = [{{"role": "user", "content": "hello"}}]
if name == "claude":
    url = env["ANTHROPIC_BASE_URL"] + "/v1/messages?beta=true"
    body = {{"model": env["ANTHROPIC_MODEL"], "max_tokens": 64, "messages": question}}
    said = post(url, body, env["ANTHROPIC_AUTH_TOKEN"])["content"][0]["text"]
elif name == "codex":
    config = tomllib.loads(read(os.path.join(env["CODEX_HOME"], "config.toml")))
    provider = config["model_providers"][config["model_provider"]]
    assert provider["wire_api"] == "responses"
    key = env[provider["env_key"]] if "env_key" in provider else None
    body = {{"model": config["model"], "input": question}}
    said = post(provider["base_url"] + "/responses", body, key)["output"][-1]["content"][0]["text"]
elif name == "opencode":
    config = json.loads(read(env["OPENCODE_CONFIG"])) | json.loads(env["OPENCODE_CONFIG_CONTENT"])
    provider, _, model = config["model"].partition("/")
    options = config["provider"][provider]["options"]
    assert model in config["provider"][provider]["models"]
    key = env[options["apiKey"].removeprefix("{{env:").removesuffix("}}")]
    body = {{"model": model, "messages": question}}
    said = post(options["baseURL"] + "/chat/completions", body, key)["choices"][0]["message"]["content"]
else:
    model = argv[argv.index("--model") + 1].removeprefix("openai/")
    body = {{"model": model, "messages": question}}
    answer = post(env["OPENAI_API_BASE"] + "/chat/completions", body, env["OPENAI_API_KEY"])
    said = answer["choices"][0]["message"]["content"]
print(json.dumps({{"argv": argv[1:], "env": dict(env), "said": said}}))
sys.exit(int(env.get("AGENT_EXITS", "0")))
"""


def install_agent(folder: Path, name: str) -> Path:
    """Put a stand-in for the agent ``name`` into ``folder`` and return its path."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(_PROGRAM.format(python=sys.executable), encoding="utf-8")
    path.chmod(0o755)
    return path
