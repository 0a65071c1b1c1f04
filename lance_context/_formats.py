"""Files of rows by format: parts of bounded size out of them, and rows into them.

pyarrow is imported where Parquet or Arrow IPC is used. JSON lines are the engine's own.
"""

from __future__ import annotations

import contextlib
import gzip
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, BinaryIO, Protocol, cast, get_args

from lance_context.types import TransferFormat

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.parquet as pq

    from lance_context._native import Lines, RecordBatch

# What is added or written at once, far below the most that one `add` takes.
CHUNK_ROWS = 20_000
CHUNK_BYTES = 16 << 20
# What is decoded of Parquet at once, as far as its own counts tell, and what is read of a column at once.
READ_ROWS = 1_024
READ_BYTES = 4 << 20
READ_BUFFER = 1 << 20

SUFFIXES: Mapping[str, TransferFormat] = {
    ".parquet": "parquet",
    ".jsonl": "jsonl",
    ".jsonl.gz": "jsonl",
    ".ndjson": "jsonl",
    ".ndjson.gz": "jsonl",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".arrows": "arrow-stream",
}

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Chunk:
    """Rows of a file that are added at once, and how to decode them.

    `first_row` is the index in the file of its first row, `line_numbers` are the lines of text of each. `position`
    and `size` count bytes of the file.
    """

    decode: Callable[[], object]
    rows: int
    path: str
    first_row: int
    line_numbers: Sequence[int] | None
    total_rows: int | None
    position: int | None
    size: int


@dataclass(slots=True)
class Skip:
    """How many rows are still to be passed over."""

    left: int

    def take(self, available: int) -> int:
        """Passes over as many of `available` rows as it can."""
        taken = min(self.left, available)
        self.left -= taken
        return taken


def format_of(path: str, format: TransferFormat | None) -> TransferFormat:
    """The format named, or told by the suffix."""
    known = get_args(TransferFormat)
    if format is not None:
        if format not in known:
            raise ValueError(f"`format`: `{format}` is unknown; it is one of {_quoted(known)}")
        return format
    name = path.lower()
    for suffix, found in SUFFIXES.items():
        if name.endswith(suffix):
            return found
    raise ValueError(
        f"the format of `{path}` cannot be told by its suffix; name it {_quoted(SUFFIXES)}, "
        f"or pass format= one of {_quoted(known)}"
    )


def read_chunks(
    path: str, format: TransferFormat, lines: Lines, columns: Mapping[str, str] | None, skip: Skip
) -> Iterator[Chunk]:
    """The rows of a file behind those to skip. `columns` are the column names by their names in the file."""
    with open(path, "rb") as file:
        if format == "jsonl":
            yield from _line_chunks(path, file, lines, skip)
            return
        import pyarrow as pa

        try:
            yield from _arrow_chunks(path, file, format, columns, skip)
        except pa.ArrowInvalid as error:
            raise ValueError(f"`{path}` cannot be read as `{format}`: {error}") from error


def _line_chunks(path: str, file: BinaryIO, lines: Lines, skip: Skip) -> Iterator[Chunk]:
    size = os.fstat(file.fileno()).st_size
    text = cast("BinaryIO", gzip.GzipFile(fileobj=file)) if path.lower().endswith(".gz") else file
    first_row, held, numbers, held_bytes = 0, list[bytes](), list[int](), 0
    for number, line in enumerate(text, start=1):
        row = line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line
        if not row or row.isspace():
            continue
        if skip.take(1):
            first_row += 1
            continue
        if held and (len(held) == CHUNK_ROWS or held_bytes + len(row) > CHUNK_BYTES):
            yield Chunk(partial(lines.decode, held), len(held), path, first_row, numbers, None, file.tell(), size)
            first_row += len(held)
            held, numbers, held_bytes = [], [], 0
        held.append(row)
        numbers.append(number)
        held_bytes += len(row)
    if held:
        yield Chunk(partial(lines.decode, held), len(held), path, first_row, numbers, None, file.tell(), size)


def _arrow_chunks(
    path: str, file: BinaryIO, format: TransferFormat, columns: Mapping[str, str] | None, skip: Skip
) -> Iterator[Chunk]:
    import pyarrow as pa

    size = os.fstat(file.fileno()).st_size
    first_row, to_skip = 0, skip.left
    with contextlib.ExitStack() as opened:
        if format == "parquet":
            import pyarrow.parquet as pq

            # Neither the row groups to come nor whole columns: either can be all of the file.
            parquet = opened.enter_context(pq.ParquetFile(path, pre_buffer=False, buffer_size=READ_BUFFER))
            total_rows, batches = parquet.metadata.num_rows, _parquet_batches(path, parquet, columns, skip)
        else:
            total_rows, batches = None, _ipc_batches(path, file, format == "arrow", columns)
        for held in _packed(_behind(batches, skip)):
            rows = sum(batch.num_rows for batch in held)
            # The skip ends before the first chunk.
            first_row = first_row or to_skip - skip.left
            position = None if format == "parquet" else file.tell()
            yield Chunk(partial(pa.Table.from_batches, held), rows, path, first_row, None, total_rows, position, size)
            first_row += rows
            # Freed by pyarrow is not free for the engine, which has an allocator of its own.
            pa.default_memory_pool().release_unused()


def _parquet_batches(
    path: str, parquet: pq.ParquetFile, columns: Mapping[str, str] | None, skip: Skip
) -> Iterator[pyarrow.RecordBatch]:
    names = _selected(path, parquet.schema_arrow.names, columns)
    for index in range(parquet.num_row_groups):
        group = parquet.metadata.row_group(index)
        if group.num_rows <= skip.left:
            skip.take(group.num_rows)
            continue
        a_row = max(1, group.total_byte_size // group.num_rows)
        at_once = max(1, min(READ_ROWS, READ_BYTES // a_row))
        # In one thread: each would keep the memory that it once had.
        for batch in parquet.iter_batches(at_once, row_groups=[index], columns=names, use_threads=False):
            yield _renamed(batch, columns)


def _ipc_batches(
    path: str, file: BinaryIO, seekable: bool, columns: Mapping[str, str] | None
) -> Iterator[pyarrow.RecordBatch]:
    import pyarrow as pa

    # Read, never mapped: rows that the store still holds must not change with the file.
    if not seekable:
        with pa.ipc.open_stream(file) as stream:
            _selected(path, stream.schema.names, columns)
            yield from (_renamed(batch, columns) for batch in stream)
        return
    with pa.ipc.open_file(file) as reader:
        _selected(path, reader.schema.names, columns)
        for index in range(reader.num_record_batches):
            yield _renamed(reader.get_batch(index), columns)


def _selected(path: str, names: Sequence[str], columns: Mapping[str, str] | None) -> list[str] | None:
    for name in columns or ():
        if name not in names:
            raise ValueError(f"`columns`: `{path}` has no column `{name}`; it has {_quoted(names)}")
    return None if columns is None else list(columns)


def _renamed(batch: pyarrow.RecordBatch, columns: Mapping[str, str] | None) -> pyarrow.RecordBatch:
    if columns is None:
        return batch
    return batch.select(list(columns)).rename_columns(list(columns.values()))


def _behind(batches: Iterable[pyarrow.RecordBatch], skip: Skip) -> Iterator[pyarrow.RecordBatch]:
    for batch in batches:
        skipped = skip.take(batch.num_rows)
        if skipped < batch.num_rows:
            yield batch.slice(skipped)


def _packed(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[list[pyarrow.RecordBatch]]:
    held, rows, held_bytes = list["pyarrow.RecordBatch"](), 0, 0
    for batch in batches:
        for part in _parts(batch):
            if held and (rows + part.num_rows > CHUNK_ROWS or held_bytes + part.nbytes > CHUNK_BYTES):
                yield held
                held, rows, held_bytes = [], 0, 0
            held.append(part)
            rows += part.num_rows
            held_bytes += part.nbytes
    if held:
        yield held


def _parts(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    for start in range(0, batch.num_rows, CHUNK_ROWS):
        yield from _halves(batch.slice(start, CHUNK_ROWS))


def _halves(batch: pyarrow.RecordBatch) -> Iterator[pyarrow.RecordBatch]:
    """Halves it until each part is small or one row: rows may differ in size by much."""
    if batch.num_rows < 2 or batch.nbytes <= CHUNK_BYTES:
        yield batch
    else:
        half = batch.num_rows // 2
        yield from _halves(batch.slice(0, half))
        yield from _halves(batch.slice(half))


class Writer(Protocol):
    """Takes the rows of a file that is open elsewhere."""

    def write(self, rows: RecordBatch) -> None: ...

    def close(self) -> None: ...


def writer_of(path: str, format: TransferFormat, file: BinaryIO, lines: Lines, columns: Sequence[str] | None) -> Writer:
    """A writer of rows that a query for `columns` yields; `path` says whether they are compressed."""
    if format == "jsonl":
        return _LineWriter(path, file, lines)
    empty = lines.empty(list(columns or ()))
    return _ParquetWriter(file, empty) if format == "parquet" else _IpcWriter(file, empty, format == "arrow")


class _LineWriter:
    def __init__(self, path: str, file: BinaryIO, lines: Lines) -> None:
        self._lines = lines
        # No name and no time, so that the same rows give the same file.
        compressed = path.lower().endswith(".gz")
        self._gzip = gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) if compressed else None
        self._file = file

    def write(self, rows: RecordBatch) -> None:
        text = self._lines.encode(rows)
        if self._gzip is None:
            self._file.write(text)
        else:
            self._gzip.write(text)

    def close(self) -> None:
        if self._gzip is not None:
            self._gzip.close()


class _ParquetWriter:
    """Writes row groups of a good size, whatever comes at once."""

    def __init__(self, file: BinaryIO, empty: RecordBatch) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._pa = pa
        self._writer = pq.ParquetWriter(file, pa.schema(empty))
        self._held: list[pyarrow.RecordBatch] = []

    def write(self, rows: RecordBatch) -> None:
        self._held.append(self._pa.record_batch(rows))
        if sum(batch.num_rows for batch in self._held) >= CHUNK_ROWS or (
            sum(batch.nbytes for batch in self._held) >= CHUNK_BYTES
        ):
            self._write_group()

    def _write_group(self) -> None:
        if self._held:
            group, self._held = self._pa.Table.from_batches(self._held), []
            self._writer.write_table(group, row_group_size=max(1, group.num_rows))
            self._pa.default_memory_pool().release_unused()

    def close(self) -> None:
        self._write_group()
        self._writer.close()


class _IpcWriter:
    def __init__(self, file: BinaryIO, empty: RecordBatch, seekable: bool) -> None:
        import pyarrow as pa

        self._pa = pa
        schema = pa.schema(empty)
        self._writer = pa.ipc.new_file(file, schema) if seekable else pa.ipc.new_stream(file, schema)

    def write(self, rows: RecordBatch) -> None:
        self._writer.write_batch(self._pa.record_batch(rows))

    def close(self) -> None:
        self._writer.close()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
