"""Runs one workload of one engine in a process of its own, on a store of its own.

No store is deleted before the end. A file system may look at everything deleted in the last minutes whenever it
makes a file (ext4 does), so that the figures of one repetition would depend on what the one before it left.

The peer shares our import name, so it lives in `.venvs/peer` at the root of the repository, made on demand; ours
and the alternatives use the interpreter that runs the harness. No process sees the root of the repository on its
import path.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import venv
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import cast

from adapters.base import Request, Sizes
from measure import Measurement, Workload

BENCHMARKS = Path(__file__).resolve().parent
PEER_REQUIREMENT = "lance-context==0.6.7"
PEER_VENV = BENCHMARKS.parent / ".venvs" / "peer"
TIMEOUT_S = 1_800


class EngineError(Exception):
    """An engine failed, or answered wrongly; the text says which and how."""


class BoundReachedError(EngineError):
    """A measured call took longer than its bound."""


def peer_python() -> Path:
    """The interpreter of the peer, installed first if it is not there in exactly the version compared with."""
    python = PEER_VENV / "bin" / "python"
    installed = [] if not python.exists() else _run_pip(python, "freeze").splitlines()
    if PEER_REQUIREMENT not in installed:
        venv.create(PEER_VENV, with_pip=True, clear=True)
        _run_pip(python, "install", "--quiet", PEER_REQUIREMENT)
    return python


def _run_pip(python: Path, *arguments: str) -> str:
    command = [str(python), "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


@dataclass
class Runner:
    """One engine with the stores that were prepared for it under `scratch`."""

    engine: str
    python: Path
    sizes: Sizes
    scratch: Path
    _prepared: set[str] = field(default_factory=set[str])
    _measured: int = 0

    def versions(self) -> dict[str, str]:
        """What is under test."""
        return cast("dict[str, str]", self._ask("versions", "", self.scratch))

    def measure(self, workload: Workload) -> Measurement:
        """One repetition, given up at its bound. Raises `EngineError`."""
        self._measured += 1
        directory = self.scratch / self.engine / f"{workload.key}-{self._measured}"
        directory.parent.mkdir(parents=True, exist_ok=True)
        if workload.dataset is not None:
            shutil.copytree(self._dataset(workload.dataset), directory)
        try:
            answer = cast("dict[str, object]", self._ask("measure", workload.key, directory))
        except BoundReachedError:
            return Measurement(self.sizes.bound_ms, at_least=True)
        return Measurement(cast("float", answer["value"]), cast("dict[str, float]", answer["detail"]))

    def _dataset(self, name: str) -> Path:
        directory = self.scratch / self.engine / name
        if name not in self._prepared:
            shutil.rmtree(directory, ignore_errors=True)  # what a failed attempt left
            self._ask("prepare", name, directory)
            self._prepared.add(name)
        return directory

    def _ask(self, action: str, name: str, directory: Path) -> object:
        request: Request = {
            "action": action,
            "name": name,
            "directory": str(directory),
            "sizes": cast("dict[str, int]", asdict(self.sizes)),
        }
        what = f"{self.engine}: {action} {name}".rstrip()
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        try:
            done = subprocess.run(
                [str(self.python), "-m", f"adapters.{self.engine}"],
                input=json.dumps(request) + "\n",
                capture_output=True,
                text=True,
                cwd=BENCHMARKS,
                env=environment,
                timeout=TIMEOUT_S,
                check=False,
            )
        except subprocess.TimeoutExpired as late:
            raise EngineError(f"{what}: no answer within {TIMEOUT_S} s") from late
        if done.returncode == -signal.SIGALRM:
            raise BoundReachedError(f"{what}: a call took longer than {self.sizes.bound_ms / 1_000:g} s")
        if not done.stdout:
            raise EngineError(f"{what}: exit status {done.returncode}, no answer\n{done.stderr}")
        reply = cast("dict[str, object]", json.loads(done.stdout))
        if "error" in reply:
            raise EngineError(f"{what}: {reply['error']}\n{reply['traceback']}{done.stderr}")
        if done.returncode != 0:
            raise EngineError(f"{what}: answered, then exit status {done.returncode}\n{done.stderr}")
        return reply["ok"]


def own_python() -> Path:
    """The interpreter that runs the harness, by the path that keeps its virtual environment."""
    return Path(sys.executable)
