"""Columns and schemas as values, and what a pydantic model comes to."""

from __future__ import annotations

import copy
import datetime
import decimal
import enum
import json
import pickle
import sys
import textwrap
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, NewType, Optional, TypeVar, Union, cast

import pydantic
import pytest
from pydantic import AliasChoices, AliasPath, BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypeAliasType, TypedDict

from lance_context import GenericStore, Schema, SchemaError, schema_from
from lance_context.schema import (
    Binary,
    Blob,
    Bool,
    Column,
    Date,
    Decimal,
    Float16,
    Float32,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Json,
    List,
    String,
    Struct,
    Timestamp,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Vector,
)

FULL = Schema(
    {"foo-bar": Int64(nullable=False), "id": String()},
    s=String(),
    large=String(large=True),
    i8=Int8(),
    i16=Int16(),
    i32=Int32(),
    u8=UInt8(),
    u16=UInt16(),
    u32=UInt32(),
    u64=UInt64(),
    f16=Float16(),
    f32=Float32(),
    f64=Float64(),
    ok=Bool(),
    at=Timestamp(),
    wall=Timestamp(tz=None),
    day=Date(),
    price=Decimal(10, 2),
    whole=Decimal(5),
    meta=Json(),
    raw=Binary(),
    video=Blob(),
    v=Vector(3, metric="cosine", dtype="float16"),
    tags=List(String()),
    boxes=List(Struct(x=Float32(), y=Int64(nullable=False))),
    box=Struct({"a b": Date(), "nullable": Bool()}, price=Decimal(4, 1)),
)


def test_a_store_says_the_same_of_itself() -> None:
    with GenericStore.open("memory://declared", FULL) as store:
        assert store.schema() == FULL
        assert list(store.schema()) == list(FULL)
    GenericStore.open("memory://declared", Schema(dict(reversed(list(FULL.items()))))).close()


def test_defaults_do_not_count() -> None:
    assert Schema(id=String(), n=Int64()) == Schema(n=Int64(nullable=True), id=String(nullable=False))
    assert Schema(id=String()) == {"id": {"type": "string", "large": False, "nullable": False}}
    assert Blob() == Binary(blob=True)
    assert Vector(3) == Vector(3, metric="l2", dtype="float32")
    assert Int64(nullable=False) != Int64()
    assert Vector(3) != Vector(4)
    assert Schema(id=String(), n=Int64()) != Schema(id=String(), n=Int64(nullable=False))


@pytest.mark.parametrize("value", [FULL, *FULL.values()], ids=repr)
def test_a_declaration_is_a_value(value: Schema | Column) -> None:
    assert eval(repr(value)) == value
    for same in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value)), dict(value)):
        assert same == value
    assert hash(copy.deepcopy(value)) == hash(value)
    with pytest.raises(TypeError):
        value["type"] = "x"  # type: ignore[index] # pyright: ignore[reportIndexIssue]
    with pytest.raises(AttributeError):
        value.more = 1  # type: ignore[union-attr] # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (Schema(id=String(), n=Int64(nullable=False)), "Schema(id=String(), n=Int64(nullable=False))"),
        (Schema({"id": String(), "a b": Blob()}), "Schema({'id': String(), 'a b': Blob()})"),
        (Schema(id="string", n={"type": "int64"}), "Schema(id='string', n={'type': 'int64'})"),
        (Vector(3, metric="dot", nullable=False), "Vector(3, metric='dot', nullable=False)"),
        (List(Struct(x=Float32())), "List(Struct(x=Float32()))"),
        (Struct({"class": Int8()}), "Struct({'class': Int8()})"),
        (Timestamp(tz=None), "Timestamp(tz=None)"),
        (Decimal(5), "Decimal(5, 0)"),
    ],
)
def test_it_shows_how_it_is_made(value: object, text: str) -> None:
    assert repr(value) == text


def test_plain_declarations_mix_with_columns() -> None:
    declared = {"type": "list", "item": "string"}
    mixed = Schema(id="string", v=Vector(2), tags=declared, more=List("int64"))
    declared["item"] = "int8"
    with GenericStore.open("memory://mixed", mixed) as store:
        assert store.schema() == Schema(id=String(), v=Vector(2), tags=List(String()), more=List(Int64()))
    with GenericStore.open("memory://mixed-dict", {"id": "string", "v": Vector(2)}) as store:
        assert store.schema() == Schema(id=String(), v=Vector(2))


def test_slips_are_refused() -> None:
    with pytest.raises(TypeError, match=r"`video` takes a column, not its class; did you mean `Blob\(\)`"):
        Schema(id=String(), video=Blob)  # type: ignore[arg-type] # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="`id` is given twice"):
        Schema({"id": String()}, id=String())
    # The rules are the store's.
    for bad in (Schema(), Schema(id=Int64()), Schema(id=String(), v=Vector(0)), Schema(id=String(nullable=True))):
        with pytest.raises(SchemaError):
            GenericStore.open("memory://never", bad)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1


class Size(enum.StrEnum):
    SMALL = "s"


class Mixed(enum.Enum):
    A = 1
    B = "b"


class Box(BaseModel):
    x: float
    label: Annotated[str | None, Field(alias="theLabel")] = None
    color: Color = Color.RED


class Deep(BaseModel):
    boxes: list[Box]
    at: datetime.datetime


class Tree(BaseModel):
    value: int
    kids: list[Tree] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    a: int


class Shaped(BaseModel):
    """A model that is written in a form of its own."""

    x: int
    when: str = "2024-01-01"

    @pydantic.model_serializer
    def pair(self) -> Any:  # noqa: ANN401
        return [self.x, datetime.date.fromisoformat(self.when)]

    @pydantic.model_validator(mode="before")
    @classmethod
    def parsed(cls, given: Any) -> Any:  # noqa: ANN401
        """Takes the form apart."""
        if isinstance(given, list):
            x, when = cast("list[object]", given)
            return {"x": x, "when": when}
        return given


class Spans(BaseModel):
    one: Annotated[datetime.timedelta, String()]


class OneSided(BaseModel):
    a: Annotated[int, Field(serialization_alias="b")]


class Picture(BaseModel):
    raw: bytes
    tags: list[str]


class OneSidedDeep(BaseModel):
    inner: list[OneSided]


class Numbers(RootModel[list[int]]):
    pass


class Nested(RootModel["list[Nested]"]):
    pass


class Record(TypedDict):
    a: int


@dataclass
class Point:
    x: int


T = TypeVar("T")
Name = NewType("Name", str)
Embedding = TypeAliasType("Embedding", Annotated[list[float], Vector(2, metric="cosine")])
Many = TypeAliasType("Many", list[T], type_params=(T,))
BOX = Struct(x=Float64(nullable=False), theLabel=String(), color=String(nullable=False))

SHAPES: list[tuple[Any, Column]] = [
    (str, String(nullable=False)),
    (int, Int64(nullable=False)),
    (float, Float64(nullable=False)),
    (bool, Bool(nullable=False)),
    (bytes, Binary(nullable=False)),
    (datetime.datetime, Timestamp(nullable=False)),
    (pydantic.AwareDatetime, Timestamp(nullable=False)),
    (pydantic.NaiveDatetime, Timestamp(tz=None, nullable=False)),
    (datetime.date, Date(nullable=False)),
    (uuid.UUID, String(nullable=False)),
    (pydantic.UUID4, String(nullable=False)),
    (Name, String(nullable=False)),
    (pydantic.PositiveInt, Int64(nullable=False)),
    (Annotated[str, Field(min_length=1)], String(nullable=False)),
    (Color, String(nullable=False)),
    (Level, Int64(nullable=False)),
    (Literal["a", "b"], String(nullable=False)),
    (Literal[1, 2], Int64(nullable=False)),
    (Literal[True], Bool(nullable=False)),
    (Literal["a", None], String(nullable=True)),  # noqa: PYI061
    (Literal[Size.SMALL], String(nullable=False)),
    (dict[str, set[Color]], Json(nullable=False)),
    (list[datetime.timedelta], Json(nullable=False)),
    (Optional[int], Int64(nullable=True)),  # noqa: UP045
    (Union[None, Annotated[int, Field(ge=1)]], Int64(nullable=True)),  # noqa: UP007
    (int | None, Int64(nullable=True)),
    (Box, Struct({**cast("dict[str, Column]", BOX["fields"])}, nullable=False)),
    (Box | None, Struct({**cast("dict[str, Column]", BOX["fields"])}, nullable=True)),
    (list[int], List(Int64(), nullable=False)),
    (list[int | None], List(Int64(), nullable=False)),
    (Sequence[str], List(String(), nullable=False)),
    (tuple[bool, ...], List(Bool(), nullable=False)),
    (list[Color], List(String(), nullable=False)),
    (list[bytes], List(Binary(), nullable=False)),
    (list[Box] | None, List(BOX, nullable=True)),
    (list[Annotated[int, UInt8()]], List(UInt8(), nullable=False)),
    (Many[int], List(Int64(), nullable=False)),
    (Numbers, List(Int64(), nullable=False)),
    (Embedding, Vector(2, metric="cosine", nullable=False)),
    (Embedding | None, Vector(2, metric="cosine", nullable=True)),
    (Annotated[Embedding, Vector(4)], Vector(4, nullable=False)),
    (Annotated[int | None, Int32()], Int32(nullable=True)),
    (Annotated[int, Int32(nullable=False)], Int32(nullable=False)),
    (Annotated[decimal.Decimal, Decimal(10, 2)], Decimal(10, 2, nullable=False)),
    (Annotated[decimal.Decimal, Field(max_digits=6, decimal_places=1)], Decimal(6, 1, nullable=False)),
    (Optional[Annotated[decimal.Decimal, Field(max_digits=6, decimal_places=1)]], Decimal(6, 1, nullable=True)),  # noqa: UP045
    (list[Annotated[decimal.Decimal, Decimal(4, 1)]], List(Decimal(4, 1), nullable=False)),
    (dict[str, int], Json(nullable=False)),
    (Mapping[str, datetime.date] | None, Json(nullable=True)),
    (dict[int, float], Json(nullable=False)),
    (dict[str, Any], Json(nullable=False)),
    (dict, Json(nullable=False)),
    (list, Json(nullable=False)),
    (Any, Json(nullable=True)),
    (object, Json(nullable=True)),
    (pydantic.JsonValue, Json(nullable=True)),
    (Annotated[int | str, Json()], Json(nullable=False)),
    (Deep, Json(nullable=False)),
    (Tree, Json(nullable=False)),
    (Nested, Json(nullable=False)),
    (Open, Json(nullable=False)),
    (Box | Deep, Json(nullable=False)),
    (list[Deep], Json(nullable=False)),
    (Spans, Json(nullable=False)),
    (Shaped, Json(nullable=False)),
    (Annotated[Any, Json()], Json(nullable=True)),
    (list[list[int]], Json(nullable=False)),
    (Record, Json(nullable=False)),
    (Point, Json(nullable=False)),
    (pydantic.Json[list[int]], String(nullable=False)),
    (Annotated[datetime.timedelta, String()], String(nullable=False)),
]


def of(annotation: object, *default: object) -> type[BaseModel]:
    """A model with one field of that annotation, beside its id."""
    fields: dict[str, Any] = {"id": (str, ...), "f": (annotation, *default) if default else (annotation, ...)}
    config = ConfigDict(arbitrary_types_allowed=True)
    return pydantic.create_model("Sample", __config__=config, **fields)


@pytest.mark.parametrize(("annotation", "column"), SHAPES, ids=lambda value: repr(value)[:60])
def test_an_annotation_has_a_column(annotation: object, column: Column) -> None:
    assert schema_from(of(annotation)) == Schema(id=String(), f=column)


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (set[int], ["set[int]", "use a list"]),
        (frozenset[str] | None, ["use a list"]),
        (decimal.Decimal, ["`Decimal`", "schema.Decimal(10, 2)", "max_digits"]),
        (list[decimal.Decimal], ["schema.Decimal(10, 2)"]),
        (Annotated[decimal.Decimal, Field(max_digits=3)], ["decimal_places"]),
        (int | str, ["`int | str`", "Json()"]),
        (tuple[int, str], ["`Annotated[tuple[int, str], Json()]`"]),
        (tuple[int], ["Json()"]),
        (datetime.timedelta, ["`timedelta`", "Json()"]),
        (Mixed, ["`Mixed`", "Json()"]),
        (Union[Box, Annotated[int, Field(ge=1)], None], ["is `Box | int | None`", "`Annotated[Box | int, Json()]`"]),  # noqa: UP007
        (type[Box], ["is `type[Box]`"]),
        (dict[str, Callable[[], int]], ["`dict[str, Callable[[], int]]`", "Json()"]),
        (Literal[Color.RED], ["use the enum itself"]),
        (Annotated[Literal[Color.RED], String()], ["use the enum itself"]),
        (dict[str, Literal[Color.RED]], ["use the enum itself"]),
        (Literal["a", 1], ["Literal['a', 1]"]),
        (Literal[True, 1], ["Json()"]),
        (complex, ["`complex`"]),
        (dict[str, bytes], ["JSON holds no bytes"]),
        (dict[tuple[int, int], int], ["keys"]),
        (Annotated[list[bytes], Json()], ["JSON holds no bytes"]),
        (list[Picture], ["`Picture.raw`", "JSON holds no bytes"]),
        (OneSided, ["`OneSided.a`", "`b`", "alias"]),
        (OneSidedDeep, ["`OneSided.a`", "`b`", "alias"]),
        (Annotated[int, Int32], ["`Int32()`"]),
        (Annotated[int, Int32(nullable=True)], ["does not allow `None`"]),
        (Annotated[int | None, Int32(nullable=False)], ["allows `None`"]),
        (Annotated[bytes, Blob()], ["bytes | None, Blob()] = None"]),
        (Annotated[bytes | None, Blob()], ["= None"]),
        (Annotated[str | None, Blob()], ["bytes | None"]),
    ],
    ids=lambda value: repr(value)[:60],
)
def test_an_annotation_without_a_column(annotation: object, says: list[str]) -> None:
    with pytest.raises(SchemaError) as error:
        schema_from(of(annotation))
    assert (error.value.code, error.value.column) == ("invalid-column", "f")
    for part in ("column `f`", "field `f`", "`Sample`", *says):
        assert part in str(error.value)


def test_a_blob_is_null_by_default() -> None:
    column = schema_from(of(Annotated[bytes | None, Blob()], None))["f"]
    assert column == Blob(nullable=True)
    for default in (b"", Field(default_factory=bytes)):
        with pytest.raises(SchemaError, match="= None"):
            schema_from(of(Annotated[bytes | None, Blob()], default))


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"id": (int, ...)},
        {"id": (str | None, ...)},
        {"id": (str, "same")},
        {"id": (bytes, ...)},
        {"key": (str, ...)},
        {"id": (str, Field(alias="key"))},
    ],
)
def test_a_model_without_an_id(fields: dict[str, Any]) -> None:
    with pytest.raises(SchemaError, match="`Sample` needs a field `id: str`") as error:
        schema_from(pydantic.create_model("Sample", **fields))
    assert (error.value.code, error.value.column) == ("invalid-column", "id")


def test_ids_of_other_makes() -> None:
    key = Field(alias="id")
    for field in ((uuid.UUID, ...), (str, Field(default_factory=lambda: "x")), (Name, ...), (str, key)):
        fields: dict[str, Any] = {"key" if field[1] is key else "id": field}
        assert schema_from(pydantic.create_model("Sample", **fields)) == Schema(id=String())


@pytest.mark.parametrize("other", [int, dict, Point, Record, list[int], Box(x=1), "Box"], ids=repr)
def test_what_is_no_model(other: Any) -> None:  # noqa: ANN401
    with pytest.raises(TypeError, match="`BaseModel`"):
        schema_from(other)
    with pytest.raises(TypeError, match="pydantic"):
        GenericStore.open("memory://never", other)
    with pytest.raises(TypeError, match="`BaseModel`"):
        GenericStore.open_existing("memory://never", model=other)


class Base(BaseModel):
    id: str
    n: int = 0


class Page(Base, Generic[T]):
    n: Annotated[int, Int16()] = 0  # type: ignore[assignment]
    items: list[T]
    last: T
    _private: int = 0
    hidden: int = Field(default=1, exclude=True)

    @pydantic.computed_field
    @property
    def double(self) -> int:
        """Not stored."""
        return 2 * self.n


def test_generic_and_inherited_models() -> None:
    head = {"id": String(), "n": Int16(nullable=False)}
    items, last = List(String(), nullable=False), String(nullable=False)
    assert schema_from(Page[str]) == Schema(head, items=items, last=last)
    assert schema_from(Page[Box])["items"] == List(BOX, nullable=False)
    assert list(schema_from(Page[str])) == ["id", "n", "items", "last"]
    assert schema_from(Page) == Schema(head, items=Json(nullable=False), last=Json())


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the syntax is of Python 3.12")
def test_aliases_of_types() -> None:
    source = """
        type Embedding = Annotated[list[float], Vector(2)]
        type Maybe = int | None
        type Many[X] = list[X]
        type Any_ = dict[str, Any_] | list[Any_] | str
        class Sample[X](BaseModel):
            id: str
            embedding: Embedding
            maybe: Maybe
            many: Many[X]
            tree: dict[str, Any_]
    """
    names = dict(globals())
    exec(compile(textwrap.dedent(source), "<models>", "exec", dont_inherit=True), names)
    assert schema_from(names["Sample"][int]) == Schema(
        id=String(),
        embedding=Vector(2, nullable=False),
        maybe=Int64(),
        many=List(Int64(), nullable=False),
        tree=Json(nullable=False),
    )


def test_aliases_name_columns() -> None:
    class Sample(BaseModel):
        id: str
        a: int = Field(alias="theA")
        b: int = Field(serialization_alias="b-column")
        c: int = Field(validation_alias="readOnly")
        d: int = Field(validation_alias=AliasChoices("x", AliasPath("y", 0)), serialization_alias="D")

    assert list(schema_from(Sample)) == ["id", "theA", "b-column", "c", "D"]
    with pytest.raises(SchemaError, match="alias of its own"):
        schema_from(of(int, Field(validation_alias=AliasPath("y", 0))))

    class Shared(BaseModel):
        id: str
        a: int = Field(validation_alias="x", serialization_alias="a")
        b: int = Field(validation_alias="x", serialization_alias="b")

    with pytest.raises(SchemaError, match="by `x` too"):
        schema_from(Shared)

    class Twice(BaseModel):
        id: str
        a: int = Field(serialization_alias="b")
        b: int

    with pytest.raises(SchemaError, match="field `a` has that column already") as error:
        schema_from(Twice)
    assert error.value.column == "b"


def test_a_schema_of_a_model_survives_json() -> None:
    schema = schema_from(of(list[Box]))
    assert json.loads(json.dumps(schema, default=dict)) == schema


def test_an_excluded_field_needs_a_default() -> None:
    assert list(schema_from(of(int, Field(default=1, exclude=True)))) == ["id"]
    with pytest.raises(SchemaError, match="`f` is excluded") as error:
        schema_from(of(int, Field(exclude=True)))
    assert error.value.code == "invalid-column"
