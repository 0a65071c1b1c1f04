"""Stores that read rows as pydantic models: models of every annotation and rows go in, and come back equal."""

from __future__ import annotations

import datetime
import decimal
import enum
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NewType, TypeVar, cast

import pydantic
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel
from typing_extensions import TypeAliasType, TypedDict

from lance_context import GenericStore, RowError, SchemaError, schema_from
from lance_context.schema import Blob, Decimal, Float32, Int8, Json, String, UInt8, Vector

M = TypeVar("M", bound=BaseModel)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 1, tzinfo=datetime.UTC)


def each_stage(path: Path, model: type[M], models: Sequence[M]) -> Iterator[tuple[str, GenericStore[M]]]:
    """Add models to a store and yield it while they are durable, sealed, merged and reopened."""
    with GenericStore.open(path, model, read="latest", gc_grace=0, maintenance=None) as store:
        store.add(models)
        yield "durable", store
        store.flush()
        yield "sealed", store
        store.merge()
        yield "merged", store
    with GenericStore.open(path, model, maintenance=None) as store:
        yield "reopened", store
    with GenericStore.open_existing(path, model=model, maintenance=None) as store:
        yield "as another", store


def latest(path: Path, model: type[M]) -> GenericStore[M]:
    """A store that reads latest and does nothing by itself."""
    return GenericStore.open(path, model, read="latest", maintenance=None)


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Size(str, enum.Enum):  # noqa: UP042 - of the older kind on purpose
    SMALL = "s"


class Box(BaseModel):
    x: float
    label: Annotated[str | None, Field(alias="theLabel")] = None
    color: Color = Color.RED
    at: datetime.datetime = NOON
    raw: bytes = b"\xff"
    key: uuid.UUID = uuid.UUID(int=5)

    @pydantic.computed_field
    @property
    def double(self) -> float:
        """Not stored."""
        return 2 * self.x


class Deep(BaseModel):
    boxes: list[list[int]] = [[1], []]
    days: dict[str, datetime.date] = {"a": datetime.date(2024, 2, 29)}
    key: uuid.UUID = uuid.UUID(int=5)
    color: Color = Color.RED
    price: decimal.Decimal = decimal.Decimal("1.10")
    span: datetime.timedelta = datetime.timedelta(seconds=1)
    ratio: float = 0.1
    big: int = 2**80
    some: set[int] = {1, 2}
    pair: tuple[int, str] = (1, "a")
    alias: int = Field(default=1, alias="theAlias")

    @pydantic.computed_field
    @property
    def double(self) -> float:
        """Not stored."""
        return 2 * self.ratio


class Tree(BaseModel):
    value: int
    kids: list[Tree] = []


class Extra(BaseModel):
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


class Numbers(RootModel[list[int]]):
    pass


class Record(TypedDict):
    a: int
    when: datetime.date


Name = NewType("Name", str)
Embedding = TypeAliasType("Embedding", Annotated[list[float], Vector(2, metric="cosine")])


class Full(BaseModel):
    """A field of every annotation that has a column."""

    id: str
    text: str
    whole: int
    real: float
    ok: bool
    raw: bytes
    at: datetime.datetime
    wall: pydantic.NaiveDatetime
    aware: pydantic.AwareDatetime
    day: datetime.date
    key: uuid.UUID
    color: Color
    size: Size
    level: Level
    word: Literal["a", "b"]
    number: Literal[1, 2]
    member: Literal[Size.SMALL]
    name: Name
    positive: pydantic.PositiveInt
    price: Annotated[decimal.Decimal, Decimal(10, 2)]
    cost: decimal.Decimal = Field(max_digits=6, decimal_places=1)
    small: Annotated[int, Int8()]
    coarse: Annotated[float, Float32()]
    embedding: Embedding
    box: Box
    ints: list[int]
    words: Sequence[str]
    flags: tuple[bool, ...]
    colors: list[Color]
    keys: list[uuid.UUID]
    times: list[datetime.datetime]
    prices: list[Annotated[decimal.Decimal, Decimal(4, 1)]]
    holes: list[int | None]
    boxes: list[Box]
    bytes_: list[Annotated[int, UInt8()]]
    numbers: Numbers
    meta: dict[str, Any]
    days: dict[str, datetime.date]
    by_number: dict[int, float]
    anything: Any
    json_: pydantic.JsonValue
    deep: Deep
    deeps: list[Deep]
    tree: Tree
    extra: Extra
    either: Tree | Deep | None = None
    record: Record
    span: Annotated[datetime.timedelta, String()]
    stamp: Annotated[datetime.datetime, String()]
    spans: Spans
    shaped: Shaped
    more_shaped: dict[str, Shaped]
    mixed: Annotated[list[int | str], Json()]
    url: Annotated[pydantic.HttpUrl, String()]
    coded: pydantic.Json[list[int]]
    null_text: str | None
    null_real: float | None
    null_at: datetime.datetime | None
    null_color: Color | None
    null_box: Box | None
    null_ints: list[int] | None
    null_embedding: Embedding | None
    null_meta: dict[str, int] | None


def box(x: float, **more: object) -> Box:
    return Box.model_validate({"x": x, "theLabel": "b", **more})


def full(**changes: object) -> Full:
    values: dict[str, object] = {
        "id": "full",
        "text": "text \N{GRINNING FACE}",
        "whole": -(2**63),
        "real": 0.1,
        "ok": True,
        "raw": b"\x00\xff",
        "at": NOON,
        "wall": NOON.replace(tzinfo=None),
        "aware": NOON.astimezone(datetime.timezone(datetime.timedelta(hours=9))),
        "day": datetime.date(2024, 2, 29),
        "key": uuid.UUID(int=7),
        "color": Color.BLUE,
        "size": Size.SMALL,
        "level": Level.HIGH,
        "word": "b",
        "number": 2,
        "member": Size.SMALL,
        "name": "ada",
        "positive": 5,
        "price": decimal.Decimal("12345678.90"),
        "cost": decimal.Decimal("1.5"),
        "small": -128,
        "coarse": 0.5,
        "embedding": [1.0, -2.5],
        "box": box(0.5, color=Color.BLUE),
        "ints": [1, -1],
        "words": ["a", ""],
        "flags": (True, False),
        "colors": [Color.RED, Color.BLUE],
        "keys": [uuid.UUID(int=1)],
        "times": [NOON],
        "prices": [decimal.Decimal("1.5")],
        "holes": [1, None],
        "boxes": [Box(x=1), box(2)],
        "bytes_": [0, 255],
        "numbers": [3, 4],
        "meta": {"a": [1, 2.5, None, {"b": "c"}], "": True},
        "days": {"a": datetime.date(1, 1, 1)},
        "by_number": {1: 0.5},
        "anything": [1, {"a": None}],
        "json_": {"a": [1, "b", None]},
        "deep": Deep(),
        "deeps": [Deep(theAlias=5), Deep(ratio=1e300)],
        "tree": Tree(value=1, kids=[Tree(value=2), Tree(value=3, kids=[Tree(value=4)])]),
        "extra": Extra.model_validate({"a": 1, "b": [2]}),
        "either": Deep(),
        "record": {"a": 1, "when": datetime.date(2024, 1, 1)},
        "span": datetime.timedelta(seconds=90),
        "stamp": NOON,
        "spans": Spans(one=datetime.timedelta(days=1)),
        "shaped": Shaped(x=5),
        "more_shaped": {"a": Shaped(x=6)},
        "mixed": [1, "a"],
        "url": "https://example.org/a",
        "coded": "[1, 2]",
        "null_text": "x",
        "null_real": 1.5,
        "null_at": NOON,
        "null_color": Color.RED,
        "null_box": Box(x=1),
        "null_ints": [1],
        "null_embedding": [0.0, 1.0],
        "null_meta": {"a": 1},
    }
    return Full.model_validate({**values, **changes})


def test_every_annotation_comes_back(path: Path) -> None:
    nulls: dict[str, object] = {name: None for name in Full.model_fields if name.startswith("null_")}
    models = [
        full(),
        full(id="nulls", anything=None, json_=None, either=None, **nulls),
        full(id="small", text="", raw=b"", ints=[], boxes=[], flags=(), meta={}, deeps=[], numbers=[], words=[]),
    ]
    for stage, store in each_stage(path, Full, models):
        assert store.list() == models, stage
        assert list(store.iter()) == models, stage
        assert [store.get(model.id) for model in models] == models, stage
        assert store.get_many(["small", "none", "full"]) == [models[2], None, models[0]], stage
        assert all(type(model) is Full for model in store.list())
        assert store.schema() == schema_from(Full)


def test_rows_of_named_columns_are_dicts(path: Path) -> None:
    for stage, store in each_stage(path, Full, [full()]):
        row = {"id": "full", "level": 2, "color": "blue", "key": str(uuid.UUID(int=7))}
        columns = ["level", "color", "key"]
        assert store.list(columns=columns) == [row], stage
        assert store.get("full", columns=columns) == row, stage
        assert store.get_many(["full"], columns=columns) == [row], stage
        assert list(store.iter(columns=columns)) == [row], stage
        assert store.list(columns=[]) == [{"id": "full"}], stage
        assert store.list(filter="box.color = 'blue'", columns=[]) == [{"id": "full"}], stage


class Clip(BaseModel):
    id: str
    user: str = "nobody"
    score: float | None = None
    video: Annotated[bytes | None, Blob()] = None


def test_models_and_rows_mix(path: Path) -> None:
    with latest(path, Clip) as store:
        assert store.add(Clip(id="a", score=1)).count == 1
        assert store.add([Clip(id="b"), {"id": "c", "user": "ada"}, Clip(id="d", user="bob")]).count == 3
        assert store.add(Clip(id=f"e{n}") if n % 2 else {"id": f"e{n}", "user": "x"} for n in range(4)).count == 4
        assert store.add((Clip(id="f"), Clip(id="g"))).count == 2
        assert store.add({"id": "h", "user": "x"}).count == 1
        assert store.add([]).count == 0
        assert [clip.id for clip in store.list()] == ["a", "b", "c", "d", "e0", "e1", "e2", "e3", "f", "g", "h"]
        assert store.get("c") == Clip(id="c", user="ada")


def test_a_store_of_rows_takes_models(path: Path) -> None:
    with GenericStore.open(path, schema_from(Clip), read="latest") as store:
        models: Iterable[Any] = [Clip(id="a", score=0.5, video=b"v"), {"id": "b", "user": "x"}]
        assert store.add(models).count == 2
        assert store.add(models[0]).count == 1  # type: ignore[index] # pyright: ignore
        assert store.list() == [
            {"id": "a", "user": "nobody", "score": 0.5},
            {"id": "b", "user": "x", "score": None},
        ]


def test_arrow_data_goes_in_as_it_is(path: Path) -> None:
    with latest(path, Clip) as store:
        store.add([Clip(id="a", score=0.5, video=b"mp4"), Clip(id="b")])
        table = store.to_arrow(columns=["user", "score", "video"])
        frame = store.to_polars(columns=["user", "score", "video"])
        batches = list(store.batches(columns=["user", "score", "video"]))
        for data in (table, frame, *batches):
            store.delete(["a", "b"])
            store.add(data)
            assert store.list(order_by="-id") == [Clip(id="b"), Clip(id="a", score=0.5)]
            assert store.get("a", columns=["video"]) == {"id": "a", "video": b"mp4"}


def test_a_generator_of_models_that_fails(path: Path) -> None:
    def clips() -> Iterator[Clip]:
        yield Clip(id="a")
        raise RuntimeError("source failed")

    with latest(path, Clip) as store:
        with pytest.raises(RuntimeError, match="source failed"):
            store.add(clips())
        assert store.count() == 0


def test_a_value_that_does_not_fit_names_its_row(path: Path) -> None:
    class Sample(BaseModel):
        id: str
        n: Annotated[int, Int8()]
        meta: dict[str, Any] = {}

    with latest(path, Sample) as store:
        for bad, code, column in (
            (Sample(id="x", n=300), "out-of-range", "n"),
            (Sample.model_construct(id="x", n="one"), "wrong-type", "n"),
            (Sample.model_construct(id="x"), "missing-value", "n"),
            (Sample(id="x", n=1, meta={"at": NOON}), None, "meta"),
            (Sample(id="x", n=1, meta={"at": float("nan")}), None, "meta"),
        ):
            with pytest.raises(RowError) as error:
                store.add([Sample(id="a", n=1), {"id": "b", "n": 2, "meta": {}}, bad])
            assert (error.value.row, error.value.column) == (2, column)
            assert code is None or error.value.code == code
        assert store.count() == 0


def test_a_serializer_that_fails(path: Path) -> None:
    class Sample(BaseModel):
        id: str
        n: int

        @pydantic.field_serializer("n")
        def shown(self, n: int) -> int:
            if n < 0:
                raise ValueError("negative")
            return n + 1

    with latest(path, Sample) as store:
        with pytest.raises(RowError, match=r"row 1 cannot be taken from its `Sample`.*negative") as error:
            store.add(iter([Sample(id="a", n=1), Sample(id="b", n=-1)]))
        assert (error.value.code, error.value.row) == ("invalid-row", 1)
        assert store.count() == 0
        for before in range(0, 200, 33):
            rows = [{"id": "r", "n": 5}, *(Sample(id=f"{n}", n=1) for n in range(before)), {"id": "s", "n": 5}]
            with pytest.raises(RowError) as error:
                store.add(iter([*rows, Sample(id="a", n=1), Sample(id="b", n=-1)]))
            assert error.value.row == before + 3
        store.add(Sample(id="a", n=1))
        assert store.get("a") == Sample(id="a", n=2), "what is serialized is stored"


def test_models_of_another_class(path: Path) -> None:
    class More(Clip):
        more: int = 0

    class Same(BaseModel):
        id: uuid.UUID
        user: str

    class Odd(Clip):
        odd: set[int] = set()

    class NoId(BaseModel):
        name: str

    with latest(path, Clip) as store:
        with pytest.raises(RowError) as error:
            store.add([Clip(id="a"), More(id="b")])
        assert (error.value.code, error.value.row, error.value.column) == ("unknown-column", 1, "more")
        for other in (Odd(id="a"), NoId(name="a")):
            with pytest.raises(SchemaError) as refused:
                store.add([other])  # type: ignore[list-item] # pyright: ignore
            assert refused.value.code == "invalid-column"
        store.add(Same(id=uuid.UUID(int=1), user="x"))  # type: ignore[arg-type] # pyright: ignore
        assert store.list() == [Clip(id=str(uuid.UUID(int=1)), user="x")]
