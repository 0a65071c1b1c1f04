"""A schema is checked before anything is created, persisted with the data, and equal by meaning."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lance_context import GenericStore, SchemaError

if TYPE_CHECKING:
    from pathlib import Path

    from lance_context import SchemaDeclaration

FULL: SchemaDeclaration = {
    "id": "string",
    "s": "string",
    "large": {"type": "string", "large": True},
    "i": "int32",
    "j": "int64",
    "f": "float32",
    "d": "float64",
    "ok": "bool",
    "at": "timestamp",
    "wall": {"type": "timestamp", "tz": None},
    "raw": "binary",
    "video": {"type": "binary", "blob": True},
    "v": {"type": "vector", "dim": 4, "metric": "cosine"},
    "tags": {"type": "list", "item": "string"},
    "must": {"type": "int64", "nullable": False},
}


@pytest.mark.parametrize(
    ("declaration", "column", "says"),
    [
        ({}, None, "id"),
        ({"name": "string"}, None, "id"),
        ({"id": "int64"}, "id", "string"),
        ({"id": {"type": "string", "nullable": True}}, "id", "null"),
        ({"id": "string", "_hidden": "string"}, "_hidden", "_"),
        ({"id": "string", "a.b": "string"}, "a.b", "."),
        ({"id": "string", "a\nb": "string"}, "a\nb", "control"),
        ({"id": "string", "": "string"}, "", "1"),
        ({"id": "string", "n" * 256: "string"}, "n" * 256, "255"),
        ({"id": "string", "Name": "string", "name": "string"}, None, "case"),
        ({"id": "string", "ID": "string"}, None, "case"),
        ({"id": "string", "a": "strng"}, "a", "did you mean `string`"),
        ({"id": "string", "a": {"type": "string", "larg": True}}, "a", "did you mean `large`"),
        ({"id": "string", "a": {"type": "string", "blob": True}}, "a", "blob"),
        ({"id": "string", "a": {"large": True}}, "a", "type"),
        ({"id": "string", "a": 5}, "a", ""),
        ({"id": "string", "a": None}, "a", ""),
        ({"id": "string", "a": "vector"}, "a", "dim"),
        ({"id": "string", "a": {"type": "vector", "dim": 0}}, "a", "dim"),
        ({"id": "string", "a": {"type": "vector", "dim": -3}}, "a", "dim"),
        ({"id": "string", "a": {"type": "vector", "dim": 2.5}}, "a", "dim"),
        ({"id": "string", "a": {"type": "vector", "dim": 2, "metric": "cosin"}}, "a", "cosine"),
        ({"id": "string", "a": "list"}, "a", "item"),
        ({"id": "string", "a": {"type": "list", "item": {"type": "list", "item": "int64"}}}, "a", "list"),
        ({"id": "string", "a": {"type": "list", "item": {"type": "vector", "dim": 2}}}, "a", "vector"),
        ({"id": "string", "a": {"type": "timestamp", "unit": "ns"}}, "a", "us"),
        ({"id": "string", "a": {"type": "timestamp", "tz": "Asia/Tokyo"}}, "a", "UTC"),
        ({"id": "string", "a": {"type": "int64", "nullable": "no"}}, "a", "nullable"),
        ({"id": "string", **{f"c{n}": "int32" for n in range(1024)}}, None, "1024"),
    ],
)
def test_an_illegal_declaration(path: Path, declaration: SchemaDeclaration, column: str | None, says: str) -> None:
    with pytest.raises(SchemaError) as error:
        GenericStore.open(path, schema=declaration)
    assert error.value.code in {"invalid-column", "invalid-schema"}
    assert says in str(error.value)
    if column is not None:
        assert error.value.column == column
    assert not path.exists(), "nothing is created"


def test_schema_is_accepted_by_open(path: Path) -> None:
    with GenericStore.open(path, schema=FULL) as store:
        declared = store.schema()
    assert list(declared) == list(FULL), "declaration order"
    assert all(isinstance(spec, dict) for spec in declared.values()), "the tagged form"
    with GenericStore.open(path, schema=declared) as store:
        assert store.schema() == declared
    with GenericStore.open(path) as store:
        assert store.schema() == declared
    with GenericStore.open_existing(path) as store:
        assert store.schema() == declared


@pytest.mark.parametrize(
    "equal",
    [
        {"v": {"type": "vector", "dim": 2}, "n": "int64", "id": "string"},
        {"id": {"type": "string", "nullable": False}, "n": {"type": "int64"}, "v": {"type": "vector", "dim": 2}},
        {"id": "string", "n": {"type": "int64", "nullable": True}, "v": {"type": "vector", "dim": 2, "metric": "l2"}},
        {"id": "string", "n": "int64", "v": {"type": "vector", "dim": 2, "metric": "euclidean"}},
    ],
)
def test_declarations_that_mean_the_same(path: Path, equal: SchemaDeclaration) -> None:
    schema: SchemaDeclaration = {"id": "string", "n": "int64", "v": {"type": "vector", "dim": 2}}
    with GenericStore.open(path, schema=schema) as store:
        store.add({"id": "a", "n": 1, "v": [1.0, 2.0]})
    with GenericStore.open(path, schema=equal) as store:
        assert store.list() == [{"id": "a", "n": 1, "v": [1.0, 2.0]}]
        store.add({"id": "b", "n": 2, "v": [3.0, 4.0]})


@pytest.mark.parametrize(
    ("other", "about"),
    [
        ({"id": "string"}, "n"),
        ({"id": "string", "n": "int64", "extra": "bool"}, "extra"),
        ({"id": "string", "n": "int32"}, "n"),
        ({"id": "string", "n": {"type": "int64", "nullable": False}}, "n"),
        ({"id": "string", "N": "int64"}, "N"),
    ],
)
def test_another_declaration_is_refused_with_a_diff(path: Path, other: SchemaDeclaration, about: str) -> None:
    GenericStore.open(path, schema={"id": "string", "n": "int64"}).close()
    with pytest.raises(SchemaError) as error:
        GenericStore.open(path, schema=other)
    assert error.value.code == "schema-mismatch"
    assert f"`{about}`" in str(error.value)
