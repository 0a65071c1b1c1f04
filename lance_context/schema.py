"""Declarations as values: columns by type, and the schema of a pydantic model.

A `Schema` is a mapping that every store takes as its declaration, and a column is the mapping that stands for
it there, so both mix with plain declarations. They are checked by the store that opens with them, not here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from keyword import iskeyword
from typing import TYPE_CHECKING, ClassVar, Literal, TypeAlias, TypeVar, cast

if TYPE_CHECKING:
    from pydantic import BaseModel

__all__ = [
    "Binary",
    "Blob",
    "Bool",
    "Column",
    "ColumnDeclaration",
    "Date",
    "Decimal",
    "Float16",
    "Float32",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "Json",
    "List",
    "Metric",
    "Schema",
    "String",
    "Struct",
    "Timestamp",
    "UInt8",
    "UInt16",
    "UInt32",
    "UInt64",
    "Vector",
    "schema_from",
]

ColumnDeclaration: TypeAlias = str | Mapping[str, object]
"""A column as a type name, as a mapping with ``"type"``, or as one of the classes here."""

Metric: TypeAlias = Literal["l2", "euclidean", "cosine", "dot", "dot_product"]
"""How the distance of two vectors is measured."""


V = TypeVar("V", covariant=True)

# The options that a column has by itself. The type is the class.
_DEFAULTS = {"large": False, "unit": "us", "tz": "UTC", "blob": False, "metric": "l2", "dtype": "float32"}


class _Frozen(Mapping[str, V]):
    """A mapping that nobody changes. Equal to any mapping with the same items."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items: dict[str, V] = {key: cast("V", _frozen(value)) for key, value in items.items()}

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        # Values may be of any type; the keys are enough for equal mappings to have equal hashes.
        return hash(frozenset(self._items))

    def __repr__(self) -> str:
        return repr(self._items)


class Column(_Frozen[object]):
    """What all types of columns have in common.

    ``nullable`` says whether a row may leave the column out. By default it may; only ``id`` may not.
    """

    __slots__ = ()
    _type: ClassVar[str]

    def __init__(self, *, nullable: bool | None = None) -> None:
        self._declare({}, nullable)

    def _declare(self, options: Mapping[str, object], nullable: bool | None) -> None:
        spelled = {} if nullable is None else {"nullable": nullable}
        super().__init__({"type": self._type, **options, **spelled})

    @property
    def nullable(self) -> bool | None:
        """Whether a row may leave the column out; ``None`` where the default decides."""
        return cast("bool | None", self._items.get("nullable"))

    def __repr__(self) -> str:
        return _call(self, None)


class String(Column):
    """Text. With `large`, of more than 2 GiB a batch."""

    __slots__ = ()
    _type = "string"

    def __init__(self, *, large: bool = False, nullable: bool | None = None) -> None:
        self._declare({"large": large}, nullable)


class Int8(Column):
    """A signed integer of 8 bits."""

    __slots__ = ()
    _type = "int8"


class Int16(Column):
    """A signed integer of 16 bits."""

    __slots__ = ()
    _type = "int16"


class Int32(Column):
    """A signed integer of 32 bits."""

    __slots__ = ()
    _type = "int32"


class Int64(Column):
    """A signed integer of 64 bits."""

    __slots__ = ()
    _type = "int64"


class UInt8(Column):
    """An unsigned integer of 8 bits."""

    __slots__ = ()
    _type = "uint8"


class UInt16(Column):
    """An unsigned integer of 16 bits."""

    __slots__ = ()
    _type = "uint16"


class UInt32(Column):
    """An unsigned integer of 32 bits."""

    __slots__ = ()
    _type = "uint32"


class UInt64(Column):
    """An unsigned integer of 64 bits."""

    __slots__ = ()
    _type = "uint64"


class Float16(Column):
    """A float of half precision."""

    __slots__ = ()
    _type = "float16"


class Float32(Column):
    """A float of single precision."""

    __slots__ = ()
    _type = "float32"


class Float64(Column):
    """A float of double precision, as Python's own."""

    __slots__ = ()
    _type = "float64"


class Bool(Column):
    """A truth value."""

    __slots__ = ()
    _type = "bool"


class Timestamp(Column):
    """A time in microseconds: an instant, for aware datetimes, or with ``tz=None`` what a clock shows."""

    __slots__ = ()
    _type = "timestamp"

    def __init__(self, *, tz: Literal["UTC"] | None = "UTC", nullable: bool | None = None) -> None:
        self._declare({"unit": "us", "tz": tz}, nullable)


class Date(Column):
    """A day of the calendar."""

    __slots__ = ()
    _type = "date"


class Decimal(Column):
    """An exact number of at most `precision` digits, `scale` of them behind the point."""

    __slots__ = ()
    _type = "decimal"

    def __init__(self, precision: int, scale: int = 0, *, nullable: bool | None = None) -> None:
        self._declare({"precision": precision, "scale": scale}, nullable)


class Json(Column):
    """Any JSON value, kept exactly."""

    __slots__ = ()
    _type = "json"


class Binary(Column):
    """Bytes. A `blob` is left out by reads that do not name it."""

    __slots__ = ()
    _type = "binary"

    def __init__(self, *, blob: bool = False, nullable: bool | None = None) -> None:
        self._declare({"blob": blob}, nullable)


class Blob(Column):
    """Large bytes, which are left out by reads that do not name the column: `Binary` with ``blob=True``."""

    __slots__ = ()
    _type = "binary"

    def __init__(self, *, nullable: bool | None = None) -> None:
        self._declare({"blob": True}, nullable)


class Vector(Column):
    """`dim` numbers, for `search` by the distance that `metric` measures."""

    __slots__ = ()
    _type = "vector"

    def __init__(
        self,
        dim: int,
        *,
        metric: Metric = "l2",
        dtype: Literal["float32", "float16"] = "float32",
        nullable: bool | None = None,
    ) -> None:
        self._declare({"dim": dim, "metric": metric, "dtype": dtype}, nullable)


class List(Column):
    """Scalars, or structs of scalars, in order. Each of them may be null."""

    __slots__ = ()
    _type = "list"

    def __init__(self, item: ColumnDeclaration, *, nullable: bool | None = None) -> None:
        self._declare({"item": _instance("item", item)}, nullable)


class Struct(Column):
    """Scalars by name: of the mapping `fields`, where names are no identifiers, and of `named`."""

    __slots__ = ()
    _type = "struct"

    def __init__(
        self,
        fields: Mapping[str, ColumnDeclaration] | None = None,
        /,
        *,
        nullable: bool | None = None,
        **named: ColumnDeclaration,
    ) -> None:
        self._declare({"fields": _Frozen(_columns(fields, named, key=None))}, nullable)


class Schema(_Frozen[ColumnDeclaration]):
    """Columns by name, in order: a declaration for `GenericStore.open`.

    Equal to a schema of the same columns in any order, and to what a store with these columns says of itself.

    Args:
        columns: Columns by name, where names are no identifiers.
        named: Columns by name.

    Example:
        >>> schema = Schema(id=String(), embedding=Vector(768, metric="cosine"), video=Blob())
        >>> schema
        Schema(id=String(), embedding=Vector(768, metric='cosine'), video=Blob())
        >>> Schema({"id": String(), "foo-bar": Int64(nullable=False)})["foo-bar"]
        Int64(nullable=False)
    """

    __slots__ = ()

    def __init__(self, columns: Mapping[str, ColumnDeclaration] | None = None, /, **named: ColumnDeclaration) -> None:
        super().__init__(_columns(columns, named, key="id"))

    def __repr__(self) -> str:
        return f"Schema({_arguments(self._items, key='id', taken=set())})"


def schema_from(model: type[BaseModel]) -> Schema:
    """The schema of a pydantic model: a column for each of its fields, in their order.

    A column has the name of its field, or the alias under which the field is serialized. It may be null where
    the annotation allows ``None``. The types are

    - ``str``, ``UUID``, and enums and ``Literal`` of strings: string; of integers: int64,
    - ``int``: int64, ``float``: float64, ``bool``, ``bytes``: binary, ``date``,
    - ``datetime``: timestamp of an instant, for aware datetimes; pydantic's ``NaiveDatetime``: one without zone,
    - `decimal.Decimal` with ``Field(max_digits=…, decimal_places=…)`` or a `Decimal` column: decimal,
    - a model of these: struct,
    - ``list``, ``Sequence`` and ``tuple[X, ...]`` of these: list,
    - ``dict``, ``Any``, and any other model, or list of such: json, in the form that pydantic gives it there.

    ``Annotated[int, Int32()]`` names the column itself, for any type: ``Annotated[list[float], Vector(768)]``.
    Blobs are ``Annotated[bytes | None, Blob()] = None``, since reads leave them out. Computed, excluded and
    private fields are no columns.

    Args:
        model: A pydantic model with an ``id`` of ``str`` or ``UUID``.

    Returns:
        The schema.

    Raises:
        SchemaError: A field has no column, or the model no ``id`` (``invalid-column``).
        TypeError: `model` is no pydantic model.

    Example:
        >>> from typing import Annotated
        >>> from pydantic import BaseModel
        >>> class Clip(BaseModel):
        ...     id: str
        ...     tags: list[str] = []
        ...     score: Annotated[float | None, Float32()] = None
        >>> schema_from(Clip)
        Schema(id=String(), tags=List(String(), nullable=False), score=Float32())
    """
    from lance_context import _models

    return _models.plan_of(model).schema


def _columns(
    columns: Mapping[str, ColumnDeclaration] | None, named: Mapping[str, ColumnDeclaration], *, key: str | None
) -> dict[str, ColumnDeclaration]:
    """The columns of both, with their nullability spelled out, as a store spells it."""
    given = dict(columns or {})
    if twice := given.keys() & named.keys():
        raise TypeError(f"column `{min(twice)}` is given twice")
    return {name: spelled(_instance(name, column), name != key) for name, column in {**given, **named}.items()}


def _instance(name: str, column: ColumnDeclaration) -> ColumnDeclaration:
    if isinstance(column, type) and issubclass(column, Column):
        raise TypeError(f"`{name}` takes a column, not its class; did you mean `{column.__name__}()`?")
    return column


def spelled(column: ColumnDeclaration, nullable: bool) -> ColumnDeclaration:
    """A column with this nullability, unless it has one; a plain declaration stays as it is."""
    if not isinstance(column, Column) or column.nullable is not None:
        return column
    other = object.__new__(type(column))
    _Frozen[object].__init__(other, {**column, "nullable": nullable})
    return other


def _frozen(value: object) -> object:
    if isinstance(value, Mapping) and not isinstance(value, _Frozen):
        return _Frozen(cast("Mapping[str, object]", value))
    return cast("object", value)


def _call(column: Column, usual: bool | None) -> str:
    """The call that makes the column. Defaults are left out, and nullability where it is as `usual`."""
    shown: list[str] = []
    for option, value in column.items():
        if option == "fields":
            shown.append(_arguments(cast("Mapping[str, object]", value), key=None, taken={"nullable"}))
        elif option in {"dim", "precision", "scale", "item"}:
            shown.append(repr(value))
        elif option == "nullable":
            shown += [] if value == usual else [f"nullable={value}"]
        elif value != _DEFAULTS.get(option, value) and not isinstance(column, Blob):
            shown.append(f"{option}={value!r}")
    return f"{type(column).__name__}({', '.join(shown)})"


def _arguments(columns: Mapping[str, object], *, key: str | None, taken: set[str]) -> str:
    """Columns as the arguments of a call: keywords, or a mapping where a name cannot be one."""
    shown = {
        name: _call(column, name != key) if isinstance(column, Column) else repr(column)
        for name, column in columns.items()
    }
    if all(name.isidentifier() and not iskeyword(name) and name not in taken for name in shown):
        return ", ".join(f"{name}={column}" for name, column in shown.items())
    return "{" + ", ".join(f"{name!r}: {column}" for name, column in shown.items()) + "}"
