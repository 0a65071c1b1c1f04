"""`import_` and `export` without the store: what to add next, what was written so far.

`Import` and `Export` work on files, which blocks; what they need of the store their caller does, with ``await``
or without. Both are context managers: leaving one closes its files, and on an error says how far it came
(`Import`) or takes back the file begun (`Export`).
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, Self, TypeAlias

from lance_context import _formats
from lance_context._base import column_names, not_negative
from lance_context._formats import Chunk, Skip, Writer
from lance_context._native import Lines
from lance_context.errors import LanceContextError
from lance_context.types import ExportReport, ImportReport, TransferFormat, TransferProgress

if TYPE_CHECKING:
    from lance_context._native import RecordBatch, Store

Paths: TypeAlias = "str | os.PathLike[str] | Sequence[str | os.PathLike[str]]"
OnProgress: TypeAlias = Callable[[TransferProgress], None]


class Import:
    """The rows of some files, chunk by chunk."""

    def __init__(
        self,
        native: Store,
        source: Paths,
        *,
        format: TransferFormat | None,
        columns: Sequence[str] | Mapping[str, str] | None,
        skip: int,
        progress: OnProgress | None,
    ) -> None:
        self._files: list[tuple[str, TransferFormat]] = [
            (path, _formats.format_of(path, format)) for path in _paths(source)
        ]
        self._columns = _selection(columns)
        self._lines = Lines(native.schema(), self._columns)
        self._asked_to_skip = not_negative("skip", skip)
        self._skip = Skip(skip)
        self._progress = progress
        self._rows = self._added = self._chunks = 0
        self._reading = self._read()
        self._pending: Chunk | None = None

    def next(self) -> object | None:
        """The rows to add next, as Arrow columns; ``None`` behind the last. Blocks."""
        self._pending = None
        chunk = next(self._reading, None)
        self._pending = chunk
        return None if chunk is None else chunk.decode()

    def added(self, count: int) -> None:
        """Takes note that the rows last returned are durable, and that `count` of them were added."""
        chunk, self._pending = self._pending, None
        if chunk is None:
            return
        self._rows += chunk.rows
        self._added += count
        self._chunks += 1
        if self._progress is not None:
            done = TransferProgress(chunk.path, self._rows, chunk.total_rows, chunk.position, chunk.size)
            self._progress(done)

    def report(self) -> ImportReport:
        """What was done."""
        return ImportReport(self._rows, self._added, self._asked_to_skip - self._skip.left, self._chunks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self._reading.close()
        if error is None:
            return
        done = self._asked_to_skip - self._skip.left + self._rows
        source = f"`{self._files[0][0]}`" if len(self._files) == 1 else "the files"
        durable = f"{done} rows of {source} are durable; import_(…, skip={done}) goes on behind them"
        if isinstance(error, LanceContextError):
            error.rows_done = done
            message = str(error) if self._pending is None else _placed(error, self._pending)
            error.args = (f"{message}; {durable}" if self._rows else message, *error.args[1:])
        elif self._rows:
            error.add_note(durable)

    def _read(self) -> Generator[Chunk, None, None]:
        # Before the first row is added: a list with one wrong name is not imported in part.
        for path, _ in self._files:
            with open(path, "rb"):
                pass
        for path, format in self._files:
            yield from _formats.read_chunks(path, format, self._lines, self._columns, self._skip)


def _placed(error: LanceContextError, chunk: Chunk) -> str:
    """The message of an error in `chunk`, whose row becomes that of the file."""
    message, row = str(error), error.row
    if row is None:
        return f"`{chunk.path}`: {message}"
    error.row = chunk.first_row + row
    line = f" (line {chunk.line_numbers[row]})" if chunk.line_numbers else ""
    return f"`{chunk.path}`, row {error.row}{line}{message.removeprefix(f'row {row}')}"


class Export:
    """A file of rows that takes the place of another when it is whole."""

    def __init__(
        self,
        native: Store,
        target: str | os.PathLike[str],
        *,
        format: TransferFormat | None,
        columns: Sequence[str] | None,
        progress: OnProgress | None,
    ) -> None:
        self._target = _path(target)
        self._format: TransferFormat = _formats.format_of(self._target, format)
        self._lines = Lines(native.schema(), None)
        self.columns = self._lines.column_names if columns is None else column_names(columns)
        self._progress = progress
        self._rows = 0
        self._open: _Begun | None = None

    def write(self, rows: RecordBatch) -> None:
        """Appends rows. Blocks."""
        self._begun().writer.write(rows)
        self._rows += len(rows)

    def written(self) -> None:
        """Tells of the rows last written."""
        if self._progress is not None:
            self._progress(TransferProgress(self._target, self._rows, None, self._begun().file.tell(), None))

    def finish(self) -> ExportReport:
        """Makes the file durable and puts it in its place. Blocks."""
        begun = self._begun()
        begun.writer.close()
        begun.file.flush()
        os.fsync(begun.file.fileno())
        size = os.fstat(begun.file.fileno()).st_size
        begun.file.close()
        os.replace(begun.path, begun.place)
        self._open = None
        _sync_directory(os.path.dirname(begun.place))
        return ExportReport(self._rows, size, self._target)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._open is None:
            return
        # A writer that is not closed would close itself later, on a file that is gone. That its file is not written
        # to the end is known.
        with contextlib.suppress(Exception):
            self._open.writer.close()
        self._open.file.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._open.path)

    def _begun(self) -> _Begun:
        if self._open is None:
            # Behind a link, so that the link stays one.
            place = os.path.realpath(self._target)
            if os.path.isdir(place):
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), self._target)
            directory, name = os.path.split(place)
            path = os.path.join(directory, f".{name}.{os.urandom(4).hex()}.tmp")
            try:
                file = open(path, "xb")  # noqa: SIM115 - closed in finish() or __exit__
            except OSError as error:
                error.filename = self._target
                raise
            self._open = _Begun(path, place, file)
            self._open.writer = _formats.writer_of(place, self._format, file, self._lines, self.columns)
        return self._open


@dataclass(slots=True)
class _Begun:
    """The file that is written, and the one it will replace."""

    path: str
    place: str
    file: BinaryIO
    writer: Writer = field(init=False)


def _sync_directory(directory: str) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _path(path: str | os.PathLike[str]) -> str:
    place = os.fspath(path)
    if not isinstance(place, str):
        raise TypeError("a path is of str, not of bytes")
    return place


def _paths(source: Paths) -> list[str]:
    one = isinstance(source, (str, bytes, os.PathLike))
    return [_path(source)] if one else [_path(path) for path in source]


def _selection(columns: Sequence[str] | Mapping[str, str] | None) -> dict[str, str] | None:
    if isinstance(columns, Mapping):
        return dict(columns)
    names = column_names(columns)
    return None if names is None else {name: name for name in names}
