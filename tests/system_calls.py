"""What a program did to files, as strace saw it, and which of it would survive a crash of the machine.

A file survives once its bytes were synced and, after it had got its name, the directory that names it; the same
goes for each directory on the way. An event counts from the moment when its system call had returned.
"""

from __future__ import annotations

import contextlib
import os
import posixpath
import re
import shutil
import signal
import subprocess
import sys
import textwrap
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from tests.child import DEADLINE_S

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CALLS = "fsync,fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat,rmdir,write,openat,mkdir,mkdirat"

_BEGUN = re.compile(r"^(\d+) +(\w+)\((.*) <unfinished \.\.\.>$")
_RESUMED = re.compile(r"^(\d+) +<\.\.\. (\w+) resumed>(.*)$")
_WHOLE = re.compile(r"^(\d+) +(\w+)\((.*)\) += (-?\d+)(.*)$")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<((?:[^<>\\]|\\.)*)>, )?"((?:[^"\\]|\\.)*)"')
_FD = re.compile(r"^\d+<((?:[^<>\\]|\\.)*)>")
_ESCAPE = re.compile(rb"\\([0-7]{1,3}|x[0-9a-f]{2}|.)")


@dataclass(frozen=True)
class Call:
    """A system call that succeeded: what it was, and the paths it was about, in order."""

    name: str
    paths: tuple[str, ...]
    arguments: str


# What gives a file its name, or takes it: the steps between which a kill leaves a different disk.
NAMING = ("rename,renameat,renameat2", "link,linkat", "unlink,unlinkat,rmdir", "mkdir,mkdirat")


def skip_without_strace() -> None:
    """Skip the test where nothing can be traced."""
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    if subprocess.run(["strace", "-o", "/dev/null", "true"], capture_output=True, check=False).returncode != 0:
        pytest.skip("strace may not trace here")


def kill_before(calls: str, nth: int, script: str, *arguments: object) -> None:
    """Run a Python program that goes on for ever, and SIGKILL it where one of its threads begins the nth of `calls`."""
    code, out, err = _tampered(calls, f"signal=KILL:when={nth}", script, *arguments)
    assert code == -signal.SIGKILL, f"ended with {code}:\n{out}\n{err}"


def run_with_errors(calls: str, error: str, every: int, script: str, *arguments: object) -> str:
    """Run a Python program, in each thread of which every so manieth of `calls` fails; what it printed."""
    code, out, err = _tampered(calls, f"error={error}:when={every}+{every}", script, *arguments)
    assert code == 0, f"ended with {code}:\n{out}\n{err}"
    return out


def _tampered(calls: str, how: str, script: str, *arguments: object) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of a program that strace interferes with."""
    skip_without_strace()
    strace = ["strace", "-f", "-qq", "-o", "/dev/null", "-e", f"trace={calls}", "-e", f"inject={calls}:{how}"]
    process = subprocess.Popen(
        [*strace, sys.executable, "-c", textwrap.dedent(script), *(str(argument) for argument in arguments)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Its compiled files are no business of the test, and would be counted.
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=DEADLINE_S)
    finally:
        # The traced program would outlive its tracer.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, out, err


def trace(script: str, *arguments: object, directory: Path) -> list[Call]:
    """Run a Python program under strace, to its end."""
    skip_without_strace()
    output = directory / "trace"
    traced = ["strace", "-f", "-y", "-s", "64", "-e", f"trace={CALLS}", "-o", str(output)]
    ran = subprocess.run(
        [*traced, sys.executable, "-c", textwrap.dedent(script), *(str(argument) for argument in arguments)],
        capture_output=True,
        text=True,
        check=False,
        timeout=5 * DEADLINE_S,
    )
    assert ran.returncode == 0, f"{ran.stdout}\n{ran.stderr}"
    return list(_calls(output.read_text(encoding="ascii")))


def _calls(text: str) -> Iterator[Call]:
    """The calls that succeeded, in the order in which they returned."""
    begun: dict[str, str] = {}
    for line in text.splitlines():
        if unfinished := _BEGUN.match(line):
            thread, name, head = unfinished.groups()
            begun[thread] = f"{thread} {name}({head}"
            continue
        if resumed := _RESUMED.match(line):
            thread, _, tail = resumed.groups()
            line = begun.pop(thread) + tail
        whole = _WHOLE.match(line)
        if whole is None or whole[4].startswith("-"):
            continue
        name, arguments = whole[2], whole[3]
        if name in {"fsync", "fdatasync", "write"}:
            fd = _FD.match(arguments)
            paths = (_decoded(fd[1]),) if fd else ()
        else:
            paths = tuple(
                posixpath.normpath(posixpath.join(_decoded(directory), _decoded(path)))
                for directory, path in _PATH.findall(arguments)
            )
        yield Call(name, paths, arguments)


def _decoded(text: str) -> str:
    """A path without strace's escapes."""

    def byte(found: re.Match[bytes]) -> bytes:
        code = found[1]
        if code[:1] in b"01234567":
            return bytes([int(code, 8)])
        if code[:1] == b"x":
            return bytes([int(code[1:], 16)])
        return {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"v": b"\v", b"f": b"\f"}.get(code, code)

    return _ESCAPE.sub(byte, text.encode("ascii")).decode("utf-8", "surrogateescape")


@dataclass
class Disk:
    """What is on the disk and what of it is safe, after some calls."""

    root: str
    """Nothing outside this directory is looked at."""

    syncs: int = 0
    written_by_name: set[str] = field(default_factory=set[str])
    """Files whose bytes were not synced since the file was opened to be written."""
    unnamed: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    """By directory: the entries that came since it was last synced."""
    created: list[str] = field(default_factory=list[str])
    """Every name that a file got by a rename or a link, in order."""
    removed: list[str] = field(default_factory=list[str])

    def apply(self, call: Call) -> None:
        """Take in one call."""
        if not call.paths or not all(self._is_inside(path) for path in call.paths):
            return
        if call.name in {"fsync", "fdatasync"}:
            self.syncs += 1
            (path,) = call.paths
            self.written_by_name.discard(path)
            self.unnamed.pop(path, None)
        elif call.name == "openat" and "O_CREAT" in call.arguments:
            self._enter(call.paths[0])
            self.written_by_name.add(call.paths[0])
        elif call.name == "openat" and ("O_WRONLY" in call.arguments or "O_RDWR" in call.arguments):
            self.written_by_name.add(call.paths[0])
        elif call.name in {"mkdir", "mkdirat"}:
            self._enter(call.paths[0])
        elif call.name.startswith(("rename", "link")):
            old, new = call.paths
            self._enter(new)
            self.created.append(new)
            if old in self.written_by_name:
                self.written_by_name.add(new)
            if call.name.startswith("rename"):
                self._leave(old)
        elif call.name in {"unlink", "unlinkat", "rmdir"}:
            self._leave(call.paths[0])
            self.removed.append(call.paths[0])

    def unsafe(self) -> list[str]:
        """What a crash of the machine could take: files without their bytes, names without their directory."""
        nameless = {name for names in self.unnamed.values() for name in names}
        return sorted(self.written_by_name | nameless)

    def _is_inside(self, path: str) -> bool:
        return path == self.root or path.startswith(self.root + "/")

    def _enter(self, path: str) -> None:
        self.unnamed[posixpath.dirname(path)].add(path)

    def _leave(self, path: str) -> None:
        self.written_by_name.discard(path)
        self.unnamed[posixpath.dirname(path)].discard(path)
