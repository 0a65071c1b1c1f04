"""Small rows, and files of them that this package did not write."""

from __future__ import annotations

import gzip
import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import GenericStore, Row, SchemaDeclaration
    from tests.twins import Twin

SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz", ".ndjson", ".arrow", ".arrows")
SCHEMA: SchemaDeclaration = {"id": "string", "n": "int64", "note": "string"}


def rows_of(store: Twin | GenericStore) -> list[Row]:
    """All of them, with all columns, by id."""
    return sorted(store.iter(columns=list(store.schema())), key=lambda row: row["id"])


def numbered(count: int, start: int = 0) -> list[Row]:
    """Rows whose ids sort by number."""
    return [{"id": f"r{n:06}", "n": n, "note": "x" * (n % 7)} for n in range(start, start + count)]


def written(directory: Path, name: str, rows: list[Row], at_once: int = 4) -> Path:
    """A file of rows that this package did not write."""
    path = directory / name
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "note": pa.string()})
    if ".jsonl" in name:
        text = "".join(json.dumps(row) + "\n" for row in rows).encode()
        path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return path
    batches = [
        pa.RecordBatch.from_pylist(rows[start : start + at_once], schema=schema)
        for start in range(0, len(rows), at_once)
    ]
    if name.endswith(".parquet"):
        with pq.ParquetWriter(path, schema) as parquet:
            for batch in batches:
                parquet.write_batch(batch)
        return path
    opened = pa.ipc.new_file if name.endswith(".arrow") else pa.ipc.new_stream
    with pa.OSFile(str(path), "wb") as file, opened(file, schema) as ipc:
        for batch in batches:
            ipc.write_batch(batch)
    return path
