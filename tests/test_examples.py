"""The example programs run, on a small real directory."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

from lance_context import DatagenStore
from tests.model_server import model_server

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(example: str, *arguments: str | Path, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Runs an example, which is to succeed."""
    end = subprocess.run(
        [sys.executable, EXAMPLES / example, *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, **(env or {})},
    )
    assert end.returncode == 0, f"{end.stdout}\n{end.stderr}"
    return end


def test_file_store(tmp_path: Path) -> None:
    source = Path(asyncio.__file__).parent
    end = run("file_store.py", source, "--store", tmp_path / "files", "--limit", "24")
    assert end.stderr == ""
    assert "lost 0, doubled 0, different 0" in end.stdout


def plant(directory: Path) -> Path:
    """A directory with a module of two documented functions, one of none, and one that does not parse."""
    directory.mkdir()
    functions = [f'def {name}():\n    """Makes {name}.\n\n    At once."""\n' for name in ("tea", "soup")]
    (directory / "kitchen.py").write_text("\n".join(functions))
    (directory / "larder.py").write_text("FLOUR = 2\n")
    (directory / "oven.py").write_text("def broken(:\n")
    return directory


def test_qa_agent(tmp_path: Path) -> None:
    source, store = plant(tmp_path / "source"), tmp_path / "qa.log"
    end = run("qa_agent.py", source, "--store", store)
    lines = end.stdout.splitlines()
    assert lines[0].startswith("completed 1, filtered 1, failed 1, done before 0, in ")
    assert lines[1].startswith(f"failed: {source / 'oven.py'}: SyntaxError: ")
    assert lines[2:] == [line for name in ("tea", "soup") for line in (f"What does `{name}` do?", f"    Makes {name}.")]
    assert "items" in end.stderr, "progress is shown"
    again = run("qa_agent.py", source, "--store", store)
    assert again.stdout.startswith("completed 0, filtered 0, failed 1, done before 2, in ")


def test_qa_agent_asks_a_model_again_only_for_what_failed(tmp_path: Path) -> None:
    source, store = plant(tmp_path / "source"), tmp_path / "qa.log"
    tea, soup = (
        f"Ask a question about `{name}` that this answers:\nMakes {name}.\n\nAt once." for name in ("tea", "soup")
    )
    with model_server() as server:
        server.refused.append(soup)
        for completed in (0, 1, 0):
            end = run("qa_agent.py", source, "--store", store, "--model", "any", env=server.env)
            assert end.stdout.startswith(f"completed {completed}, ")
        assert server.prompts == [tea, soup, soup]
    with DatagenStore.open_existing(store, read_only=True) as log:
        (item,) = log.items(filter={"status": "completed"})
        questions = item.values("questions", dict[str, str])
        assert [question["question"] for question in questions] == [server.reply(tea), server.reply(soup)]
