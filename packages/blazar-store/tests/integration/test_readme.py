import re
import subprocess
import sys
from pathlib import Path

PACKAGE = Path(__file__).parents[2]


def test_example_of_the_readme_runs(tmp_path: Path) -> None:
    match = re.search(r"```python\n(.*?)```", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    assert match is not None
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", match[1]],
        env={"HOME": str(tmp_path)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
    assert (tmp_path / ".local/share/blazar/blazar.db").exists()


def test_every_module_named_in_the_readme_exists() -> None:
    named = re.findall(r"^\| `(\w+)` \|", (PACKAGE / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert named
    assert all((PACKAGE / "src" / "blazar_store" / f"{name}.py").exists() for name in named)


def test_face_of_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, blazar_store, blazar_store.directories, blazar_store.layout, blazar_store.lock;"
        "print({name.partition('.')[0] for name in sys.modules} & {'pydantic', 'tomlkit', 'sqlite3', 'sqlite_utils'})"
    )
    result = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert result.stdout == "set()\n"
