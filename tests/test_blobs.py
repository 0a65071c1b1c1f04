"""Large and empty bytes: equal at every stage, in their places, and left out of what did not ask for them."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

import pytest

from tests.stages import each_stage

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

SCHEMA: SchemaDeclaration = {"id": "string", "size": "int64", "data": {"type": "binary", "blob": True}}
MIB = 1 << 20


def noise(size: int) -> bytes:
    """Bytes that do not compress, the same ones for a size."""
    return random.Random(size).randbytes(size)


@pytest.mark.parametrize("mib", [4, pytest.param(40, marks=pytest.mark.soak)])
def test_a_large_blob(path: Path, mib: int) -> None:
    data = noise(mib * MIB)
    digest = hashlib.sha256(data).hexdigest()
    for stage, store in each_stage(path, SCHEMA, [{"id": "a", "size": len(data), "data": data}]):
        row = store.get("a", columns=["data"])
        assert row is not None
        assert hashlib.sha256(row["data"]).hexdigest() == digest, stage
        assert store.list() == [{"id": "a", "size": len(data)}], stage


def test_blobs_keep_their_places(path: Path) -> None:
    blobs = [b"x", b"", None, noise(MIB), b""]
    rows = [{"id": f"r{n}", "size": n, "data": blob} for n, blob in enumerate(blobs)]
    for stage, store in each_stage(path, SCHEMA, rows):
        listed = store.list(columns=["data"])
        assert [(row["id"], row["data"]) for row in listed] == [(f"r{n}", blob) for n, blob in enumerate(blobs)], stage
        for n in reversed(range(len(blobs))):
            assert store.get(f"r{n}", columns=["data"]) == {"id": f"r{n}", "data": blobs[n]}, stage
        assert store.get("r5", columns=["data"]) is None
        assert store.count(filter="data IS NULL") == 1, stage


def test_a_blob_is_replaced_with_its_row(path: Path) -> None:
    first = [{"id": "a", "size": 1, "data": b"one"}, {"id": "b", "size": 1, "data": b"kept"}]
    for stage, store in each_stage(path, SCHEMA, first):
        if stage != "reopened":
            store.add({"id": "a", "size": len(stage)})
        row = store.get("a", columns=["size", "data"])
        assert row is not None
        assert row["data"] is None, "add replaces the whole row"
        assert store.get("b", columns=["data"]) == {"id": "b", "data": b"kept"}
