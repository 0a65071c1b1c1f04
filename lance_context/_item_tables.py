"""Folded items as tables: one row an item, one column a field."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from lance_context.datagen_types import BlobRef, FoldedField, FoldedItem
from lance_context.errors import QueryError

if TYPE_CHECKING:
    import pyarrow

    from lance_context._native import DatagenItemId

Level: TypeAlias = Literal["roots", "leaves", "all"]
"""Which items: those without a parent, those without a child, or all."""

TableStatus: TypeAlias = Literal["running", "completed", "filtered", "failed"]
"""Which items by how they ended; ``"failed"`` ones are also running."""

TableSchema: TypeAlias = "Mapping[str, str | pyarrow.DataType] | pyarrow.Schema"
"""The types of fields: names or types of Arrow by field, or an Arrow schema."""

FIRST = ("item_id", "root_item_id", "status", "query_tags")
PAGE = 1000
SHOWN = 5


@dataclass(frozen=True)
class TableRequest:
    """What `to_arrow` was asked for."""

    status: TableStatus | None
    level: Level
    fields: list[str] | None
    schema: TableSchema | None

    @property
    def filter(self) -> str | None:
        """The filter of the items to read; leaves are only known among all items."""
        if self.level == "leaves":
            return None
        conditions: list[str] = []
        if self.status is not None:
            conditions.append("failed" if self.status == "failed" else f"status = '{self.status}'")
        if self.level == "roots":
            conditions.append("parent_item_id IS NULL")
        return " AND ".join(conditions) or None

    def chosen(self, items: Iterable[FoldedItem]) -> list[FoldedItem]:
        """Picks the items that become rows."""
        found = list(items)
        parents: set[DatagenItemId | None] = set()
        if self.level == "leaves":
            parents = {item.item_id.parent for item in found}
        return [item for item in found if self._has_status(item) and item.item_id not in parents]

    def blobs(self, items: Iterable[FoldedItem]) -> Iterator[str]:
        """The events of blobs that become cells: only those of fields that were named."""
        named = self._named() or ()
        for item in items:
            for name in named:
                field = item.fields.get(name)
                for entry in field.entries if field is not None else ():
                    if isinstance(entry.value, BlobRef):
                        yield entry.value.event_id

    def table(self, items: Sequence[FoldedItem], blobs: Mapping[str, bytes]) -> pyarrow.Table:
        """Makes the table.

        Raises:
            QueryError: A field does not fit the schema, or a named one mixes blobs and other values
                (``invalid-query``).
        """
        import pyarrow

        columns: dict[str, Any] = {
            "item_id": pyarrow.array([str(item.item_id) for item in items], type=pyarrow.string()),
            "root_item_id": pyarrow.array([str(item.root_item_id) for item in items], type=pyarrow.string()),
            "status": pyarrow.array([item.status for item in items], type=pyarrow.string()),
            "query_tags": pyarrow.array([_text(item.query_tags) for item in items], type=pyarrow.string()),
        }
        named = self._named()
        present = sorted({name for item in items for name in item.fields})
        for name in named if named is not None else present:
            column = _Column(name, items, blobs, named=named is not None)
            if (array := column.array(self._type(name))) is not None:
                columns[f"field.{name}" if name in FIRST else name] = array
        return pyarrow.table(columns)

    def _has_status(self, item: FoldedItem) -> bool:
        return self.status is None or (item.failed if self.status == "failed" else item.status == self.status)

    def _named(self) -> list[str] | None:
        if self.fields is not None or self.schema is None:
            return self.fields
        return list(self.schema) if isinstance(self.schema, Mapping) else list(self.schema.names)

    def _type(self, name: str) -> pyarrow.DataType | None:
        import pyarrow

        if self.schema is None:
            return None
        if isinstance(self.schema, Mapping):
            given = self.schema.get(name)
            return pyarrow.type_for_alias(given) if isinstance(given, str) else given
        return self.schema.field(name).type if name in self.schema.names else None


def table_request(
    status: TableStatus | None, level: Level, fields: Sequence[str] | None, schema: TableSchema | None
) -> TableRequest:
    """Checks the arguments of `to_arrow`.

    Raises:
        ValueError: An argument is none of its values.
        TypeError: `fields` is a bare string.
    """
    if status not in (None, "running", "completed", "filtered", "failed"):
        raise ValueError(f"`status` is running, completed, filtered, failed or None for any, not {status!r}")
    if level not in ("roots", "leaves", "all"):
        raise ValueError(f"`level` is roots, leaves or all, not {level!r}")
    if isinstance(fields, str):
        raise TypeError(f"`fields` takes a sequence of names; did you mean fields=[{fields!r}]?")
    return TableRequest(status, level, None if fields is None else list(fields), schema)


class _Column:
    """The values of one field over all items."""

    def __init__(self, name: str, items: Sequence[FoldedItem], blobs: Mapping[str, bytes], *, named: bool) -> None:
        self._name = name
        self._items = items
        self._blobs = blobs
        self._named = named
        self._fields = [item.fields.get(name) for item in items]
        self._kinds = {entry.kind for field in self._fields if field is not None for entry in field.entries}
        self._ops = {field.op for field in self._fields if field is not None}

    def array(self, type: pyarrow.DataType | None) -> pyarrow.Array | None:
        """Makes the column; ``None`` for one of blobs that was not named."""
        import pyarrow

        if "blob" in self._kinds:
            if not self._named:
                return None
            if len(self._kinds) > 1:
                holders = self._holders(lambda field: any(entry.kind != "blob" for entry in field.entries))
                raise self._error(f"holds blobs, and other values in {holders}")
        if type is not None:
            return self._typed(type)
        scalar = self._scalar_type()
        if scalar is None or len(self._ops) > 1:
            return pyarrow.array([self._json(field) for field in self._fields], type=pyarrow.string())
        wanted = pyarrow.list_(scalar) if "append" in self._ops else scalar
        return pyarrow.array([self._cell(field, as_text=True) for field in self._fields], type=wanted)

    def _scalar_type(self) -> pyarrow.DataType | None:
        """The type of a value; ``None`` for a mixture."""
        import pyarrow

        match sorted(self._kinds):
            case []:
                return pyarrow.null()
            case ["int"]:
                return pyarrow.int64()
            case ["float"] | ["float", "int"]:
                return pyarrow.float64()
            case ["bool"]:
                return pyarrow.bool_()
            case ["blob"]:
                return pyarrow.large_binary()
            case ["str"] | ["json"]:
                return pyarrow.large_string()
            case _:
                return None

    def _typed(self, type: pyarrow.DataType) -> pyarrow.Array:
        import pyarrow

        as_text = pyarrow.types.is_string(type) or pyarrow.types.is_large_string(type)
        cells = [self._cell(field, as_text=as_text) for field in self._fields]
        try:
            return pyarrow.array(cells, type=type)
        except (pyarrow.ArrowException, OverflowError) as error:
            fitting = dict(zip(map(id, self._fields), (_fits(cell, type) for cell in cells), strict=True))
            holders = self._holders(lambda field: not fitting[id(field)])
            raise self._error(f"is no {type} in {holders}: {error}") from None

    def _cell(self, field: FoldedField | None, *, as_text: bool) -> object:
        if field is None:
            return None
        values: list[object] = []
        for entry in field.entries:
            value = entry.value
            if isinstance(value, BlobRef):
                value = self._blobs[value.event_id]
            values.append(_text(value) if as_text and entry.kind == "json" else value)
        return values if field.op == "append" else values[-1]

    def _json(self, field: FoldedField | None) -> str | None:
        return (
            None
            if field is None
            else json.dumps(field.values if field.op == "append" else field.value, ensure_ascii=False)
        )

    def _holders(self, concerned: Callable[[FoldedField], bool]) -> str:
        pairs = zip(self._items, self._fields, strict=True)
        ids = [f"`{item.item_id}`" for item, field in pairs if field is not None and concerned(field)]
        more = f" and {len(ids) - SHOWN} more" if len(ids) > SHOWN else ""
        return ", ".join(ids[:SHOWN]) + more

    def _error(self, what: str) -> QueryError:
        return QueryError(f"field `{self._name}` {what}", code="invalid-query")


def _fits(cell: object, type: pyarrow.DataType) -> bool:
    import pyarrow

    try:
        pyarrow.array([cell], type=type)
    except (pyarrow.ArrowException, OverflowError):
        return False
    return True


def _text(value: object) -> str | None:
    return None if value is None else json.dumps(value, ensure_ascii=False)


def page_after(page: Sequence[FoldedItem]) -> str | None:
    """Returns where the next page begins; ``None`` behind the last."""
    return str(page[-1].item_id) if len(page) == PAGE else None
