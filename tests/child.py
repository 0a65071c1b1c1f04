"""Python processes for tests: run to the end, or driven line by line and killed.

Nothing here waits by time. A child says what it has done on its standard output and waits for orders on its
standard input; a deadline only ends a child that hangs. What a child wrote to standard error is part of
every failure message.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import pytest

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

DEADLINE_S = 120.0


def module(name: str, function: str = "main") -> str:
    """The script that calls a function of a test module; the working directory must be the root of the repository."""
    return f"from {name} import {function}; {function}()"


@dataclass(frozen=True)
class Finished:
    """How a process ended."""

    code: int
    out: str
    err: str

    def __str__(self) -> str:
        return f"exit code {self.code}\n--- stdout\n{self.out}\n--- stderr\n{self.err}"


class Child:
    """A running Python script. Leaving the context kills it if it still runs."""

    def __init__(
        self, script: str, *args: object, env: Mapping[str, str] | None = None, deadline_s: float = DEADLINE_S
    ) -> None:
        self._stderr = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__; a pipe could fill up
        self._process = subprocess.Popen(
            [sys.executable, "-c", textwrap.dedent(script), *(str(arg) for arg in args)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            text=True,
            env={**os.environ, **(env or {})},
        )
        self._seen: list[str] = []
        self._deadline_s = deadline_s
        self._deadline = threading.Timer(deadline_s, self._process.kill)
        self._deadline.daemon = True
        self._deadline.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadline.cancel()
        self._process.kill()
        self._process.wait()
        if error is not None:
            error.add_note(f"child's stdout: {self._seen}\nchild's stderr:\n{self._read_stderr()}")
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                # What a dead process was told and did not read stays in the buffer.
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        self._stderr.close()

    def read(self) -> str:
        """The next line it prints, without its end; the test fails if it ended instead."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            pytest.fail(f"the child ended (or hung for {self._deadline_s} s) with {self._process.wait()}")
        self._seen.append(line.rstrip("\n"))
        return self._seen[-1]

    def expect(self, line: str) -> None:
        """Wait for exactly this line."""
        assert self.read() == line

    def tell(self, line: str) -> None:
        """Send it a line."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def stop(self) -> None:
        """SIGSTOP it, and wait until it stands still."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED)

    def resume(self) -> None:
        """Let it run on after a stop."""
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> list[str]:
        """SIGKILL it; what it had printed before and was not read yet."""
        assert self._process.stdout is not None
        self._process.send_signal(signal.SIGKILL)
        rest = self._process.stdout.read().split("\n")[:-1]  # a last line without its end was not finished
        self._process.wait()
        return rest

    def finish(self, code: int = 0, within_s: float = DEADLINE_S) -> str:
        """Let it end by itself, in that time and with that code; the rest of what it printed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        started = time.monotonic()
        rest = self._process.stdout.read()
        actual = self._process.wait()
        took = time.monotonic() - started
        assert (actual, took < within_s) == (code, True), f"exit code {actual} after {took:.1f} s"
        return rest

    def _read_stderr(self) -> str:
        self._stderr.seek(0)
        return self._stderr.read().decode(errors="replace")


def run(
    script: str,
    *args: object,
    code: int | None = 0,
    env: Mapping[str, str] | None = None,
    timeout_s: float = DEADLINE_S,
) -> Finished:
    """Run a script to its end and check its exit code (`None`: any)."""
    completed = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), *(str(arg) for arg in args)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env={**os.environ, **(env or {})},
    )
    finished = Finished(completed.returncode, completed.stdout, completed.stderr)
    assert code is None or finished.code == code, str(finished)
    return finished
