"""How models and a store fit each other: what a read leaves out is never lost, and what does not fit is named."""

from __future__ import annotations

import asyncio
import copy
import datetime
import gc
import pickle
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Generic, Literal, TypeVar

import pydantic
import pytest
from pydantic import AliasChoices, BaseModel, ConfigDict, Field

from lance_context import AsyncGenericStore, GenericStore, RowError, Schema, SchemaError, schema_from
from lance_context.schema import Blob, Float64, String
from tests.child import run
from tests.test_models import NOON, Box, Clip, Color, Deep, box, each_stage, latest

T = TypeVar("T")


# --- Blobs, and what else a read leaves out ---------------------------------------------------------------


def test_a_blob_is_not_loaded(path: Path) -> None:
    clips = [Clip(id="a", score=0.5, video=b"mp4"), Clip(id="b"), Clip(id="c", video=b"")]
    for stage, store in each_stage(path, Clip, clips):
        read = store.list()
        assert read == [Clip(id="a", score=0.5), Clip(id="b"), Clip(id="c")], stage
        one = store.get("a")
        assert one is not None
        for clip in (*read, *store.iter(), one, *store.get_many(["a"])):
            assert clip is not None
            assert clip.model_fields_set == {"id", "user", "score"}, stage
        assert store.get("a", columns=["video"]) == {"id": "a", "video": b"mp4"}, stage
        assert store.list(columns=["video"])[1:] == [{"id": "b", "video": None}, {"id": "c", "video": b""}], stage


class Frozen(Clip):
    model_config = ConfigDict(frozen=True)


class Assigning(Clip):
    model_config = ConfigDict(validate_assignment=True)


COPIES: list[Callable[[Clip], Clip]] = [
    lambda clip: clip,
    lambda clip: clip.model_copy(),
    lambda clip: clip.model_copy(deep=True),
    lambda clip: clip.model_copy(update={"user": "other"}),
    copy.copy,
    copy.deepcopy,
    lambda clip: pickle.loads(pickle.dumps(clip)),
    lambda clip: clip.model_copy().model_copy(),
    lambda clip: type(clip).model_validate(clip),
]


@pytest.mark.parametrize("model", [Clip, Frozen, Assigning])
@pytest.mark.parametrize("copied", COPIES)
def test_a_model_without_its_blob_is_not_added_back(
    path: Path, model: type[Clip], copied: Callable[[Clip], Clip]
) -> None:
    with latest(path, model) as store:
        store.add([model(id="a", video=b"mp4"), model(id="b")])
        for id in ("a", "b"):
            found = store.get(id)
            assert found is not None
            clip = copied(found)
            with pytest.raises(RowError, match="use update, or get with columns") as error:
                store.add([model(id="c"), clip])
            assert (error.value.code, error.value.row, error.value.column) == ("missing-value", 1, "video")
            assert f"`{id}`" in str(error.value)
            with pytest.raises(RowError):
                store.add(clip)
        assert store.count() == 2
        assert store.get("a", columns=["video"]) == {"id": "a", "video": b"mp4"}


def test_a_model_whose_blob_was_set_is_added_back(path: Path) -> None:
    for model in (Clip, Assigning):
        with latest(path / model.__name__, model) as store:
            store.add(model(id="a", video=b"mp4"))
            clip = store.get("a")
            assert clip is not None
            clip.user = "still not loaded"
            with pytest.raises(RowError):
                store.add(clip)
            row = store.get("a", columns=["video"])
            assert row is not None
            clip.video = row["video"]
            store.add(clip)
            assert store.get("a", columns=["user", "video"]) == {
                "id": "a",
                "user": "still not loaded",
                "video": b"mp4",
            }
            store.add(clip.model_copy(update={"video": None}))
            assert store.get("a", columns=["video"]) == {"id": "a", "video": None}
    with latest(path / "frozen", Frozen) as store:
        store.add(Frozen(id="a", video=b"mp4"))
        frozen = store.get("a")
        assert frozen is not None
        store.add(frozen.model_copy(update={"video": b"new"}))
        assert store.get("a", columns=["video"]) == {"id": "a", "video": b"new"}


def test_a_new_model_without_its_blob_is_added(path: Path) -> None:
    with latest(path, Clip) as store:
        store.add(Clip(id="a", video=b"mp4"))
        store.add(Clip(id="a"))
        assert store.get("a", columns=["video"]) == {"id": "a", "video": None}
        found = store.get("a")
        assert found is not None
        store.add(Clip(**found.model_dump()))
        store.update("a", {"user": "ada"})
        assert store.get("a") == Clip(id="a", user="ada")


def test_a_model_without_blobs_is_added_back(path: Path) -> None:
    class Plain(BaseModel):
        id: str
        n: int = 0

    with latest(path, Plain) as store:
        store.add([Plain(id="a"), Plain(id="b", n=5)])
        read = store.list()
        assert type(read[0].model_fields_set) is set
        read[0].n = 7
        store.add(read)
        assert store.list() == [Plain(id="a", n=7), Plain(id="b", n=5)]


def test_fewer_fields_than_columns(path: Path) -> None:
    class Part(BaseModel):
        model_config = ConfigDict(extra="forbid")
        score: float | None
        id: str

    with latest(path, Clip) as store:
        store.add([Clip(id="a", score=0.5, video=b"mp4"), Clip(id="b")])
    with GenericStore.open_existing(path, model=Part, read="latest") as store:
        assert store.list() == [Part(id="a", score=0.5), Part(id="b", score=None)]
        assert [part.score for part in store.iter()] == [0.5, None]
        part = store.get("a")
        assert part is not None
        assert part == Part(id="a", score=0.5)
        assert store.get("a", columns=["user"]) == {"id": "a", "user": "nobody"}
        with pytest.raises(RowError, match="`user`") as error:
            store.add(part)
        assert (error.value.code, error.value.column) == ("missing-value", "user")
        with pytest.raises(RowError) as error:
            store.add(Part(id="c", score=1))
        assert (error.value.code, error.value.column) == ("missing-value", "user"), "the store's own rule"
    with pytest.raises(SchemaError) as mismatch:
        GenericStore.open(path, Part)
    assert mismatch.value.code == "schema-mismatch"


def test_a_model_that_the_store_does_not_fit(path: Path) -> None:
    class Other(BaseModel):
        id: str
        missing: int = 0

    class Eager(BaseModel):
        id: str
        video: bytes

    latest(path, Clip).close()
    for model, column in ((Other, "missing"), (Eager, "video")):
        with pytest.raises(SchemaError, match=f"`{column}` of `{model.__name__}`") as error:
            GenericStore.open_existing(path, model=model)
        assert (error.value.code, error.value.column) == ("schema-mismatch", column)
    # What was refused has closed its handle: a `ResourceWarning` would be an error here.

    class Blind(BaseModel):
        id: str
        video: bytes | None = None

    with GenericStore.open_existing(path, model=Blind, read="latest") as store:
        store.add({"id": "a", "user": "x", "video": b"mp4"})
        blind = store.get("a")
        assert blind is not None
        assert blind == Blind(id="a")
        assert blind.model_fields_set == {"id"}
        with pytest.raises(RowError):
            store.add(blind)


# --- Reading what does not fit ----------------------------------------------------------------------------


class Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid")
    id: uuid.UUID
    at: datetime.datetime
    color: Color
    flags: tuple[bool, ...]
    deep: Deep
    score: float = Field(ge=0, serialization_alias="theScore", validation_alias="readScore")

    @pydantic.model_validator(mode="after")
    def not_both(self) -> Strict:
        """A rule of the model as a whole."""
        if self.color is Color.RED and self.score > 5:
            raise ValueError("red is at most 5")
        return self


def strict(score: float, color: Color = Color.RED) -> Strict:
    values = {"id": uuid.UUID(int=7), "at": NOON, "color": color, "flags": (True,), "deep": Deep(), "readScore": score}
    return Strict.model_validate(values)


def test_strict_models_come_back(path: Path) -> None:
    for stage, store in each_stage(path, Strict, [strict(1)]):
        assert store.list() == [strict(1)], stage


def test_a_row_that_does_not_fit_the_model(path: Path) -> None:
    good, id = strict(6, Color.BLUE), str(uuid.UUID(int=7))
    with latest(path, Strict) as store:
        store.add(good)
        for changes, column, says in (
            ({"theScore": -1.0}, "theScore", "`theScore`"),
            ({"color": "green"}, "color", "`color`"),
            ({"color": "red"}, None, "red is at most 5"),
            ({"deep": {"ratio": "x"}}, "deep", "`deep.ratio`"),
        ):
            store.update(id, changes)
            reads: list[Callable[[], object]] = [
                store.list,
                lambda: store.get(id),
                lambda: store.get_many(["none", id]),
                lambda: list(store.iter()),
            ]
            for read in reads:
                with pytest.raises(RowError) as error:
                    read()
                assert (error.value.code, error.value.column) == ("invalid-row", column)
                for part in (f"row `{id}` does not fit `Strict`", says, "update"):
                    assert part in str(error.value)
                assert isinstance(error.value.__cause__, pydantic.ValidationError)
            assert store.get(id, columns=["color"]) is not None, "its columns can be read"
            store.update(id, {"theScore": 6.0, "color": "blue", "deep": {}})
            assert store.get(id) == good


def test_a_model_that_changed(path: Path) -> None:
    class Narrow(BaseModel):
        id: str
        user: Literal["ada"]
        video: Annotated[bytes | None, Blob()] = None

    with latest(path, Clip) as store:
        store.add([Clip(id="a", user="ada"), Clip(id="b", user="bob"), Clip(id="c", user="ada")])
    with GenericStore.open_existing(path, model=Narrow, read="latest") as store:
        assert store.get_many(["c", "x", "a"]) == [Narrow(id="c", user="ada"), None, Narrow(id="a", user="ada")]
        with pytest.raises(RowError, match="row `b` does not fit `Narrow`") as error:
            store.list()
        assert error.value.column == "user"
        assert store.list(filter={"user": "ada"}) == [Narrow(id="a", user="ada"), Narrow(id="c", user="ada")]


# --- Names, classes, twins --------------------------------------------------------------------------------


class Aliased(BaseModel):
    key: str = Field(alias="id")
    a: int = Field(alias="theA")
    b: int = Field(serialization_alias="b-column")
    c: int = Field(validation_alias="readC")
    d: int = Field(validation_alias=AliasChoices("first", "second"), serialization_alias="D")
    box: Box
    boxes: list[Box] = []
    deep: Deep = Deep()


def test_aliases(path: Path) -> None:
    model = Aliased.model_validate(
        {"id": "x", "theA": 1, "b": 2, "readC": 3, "second": 4, "box": box(1), "boxes": [Box(x=2)]}
    )
    columns = ["id", "theA", "b-column", "c", "D", "box", "boxes", "deep"]
    assert list(schema_from(Aliased)) == columns
    for stage, store in each_stage(path, Aliased, [model]):
        assert store.list() == [model], stage
        row = store.list(columns=columns)[0]
        assert (row["theA"], row["b-column"], row["c"], row["D"]) == (1, 2, 3, 4), stage
        assert row["box"]["theLabel"] == "b", stage
        assert row["deep"]["theAlias"] == 1, stage
        assert "double" not in row["box"], stage
        assert "double" not in row["deep"], stage
        assert store.list(filter={"b-column": 2}, columns=[]) == [{"id": "x"}], stage
        read = store.get("x")
        assert read is not None
        assert read.model_fields_set >= {"key", "a", "b", "c", "d"}, stage


def test_aliases_that_change_places(path: Path) -> None:
    class Crossed(BaseModel):
        id: str
        a: int = Field(validation_alias="b", serialization_alias="a")
        b: int = Field(validation_alias="a", serialization_alias="b")

        c: Annotated[bytes | None, Blob()] = Field(default=None, validation_alias="d", serialization_alias="c")

    model = Crossed.model_validate({"id": "x", "a": 1, "b": 2})
    assert (model.a, model.b) == (2, 1)
    for stage, store in each_stage(path, Crossed, [model]):
        assert store.list() == [model], stage
        assert store.list(columns=["a", "b"]) == [{"id": "x", "a": 2, "b": 1}], stage
        assert store.list()[0].model_fields_set == {"id", "a", "b"}, stage


def test_models_that_populate_by_name(path: Path) -> None:
    class Named(BaseModel):
        model_config = ConfigDict(validate_by_name=True, validate_by_alias=False)
        id: str
        a: int = Field(alias="theA")

    class Generated(BaseModel):
        model_config = ConfigDict(alias_generator=str.upper, populate_by_name=True)
        key: str = Field(alias="id", alias_priority=2)
        long_name: int

    assert list(schema_from(Generated)) == ["id", "LONG_NAME"]
    generated = Generated.model_validate({"key": "x", "long_name": 5})
    for stage, store in each_stage(path / "generated", Generated, [generated]):
        assert store.get("x") == generated, stage
    model = Named.model_validate({"id": "x", "a": 1})
    for stage, named in each_stage(path / "named", Named, [model]):
        assert named.get("x") == model, stage
        assert named.get("x", columns=["theA"]) == {"id": "x", "theA": 1}, stage


class Page(BaseModel, Generic[T]):
    id: str
    items: list[T]
    last: T
    hidden: int = Field(default=1, exclude=True)
    _seen: int = pydantic.PrivateAttr(default=0)

    def model_post_init(self, context: object) -> None:
        """Runs on models that are read, too."""
        self._seen += 1

    @pydantic.computed_field
    @property
    def size(self) -> int:
        """Not stored."""
        return len(self.items)

    @property
    def seen(self) -> int:
        """How often the model was made."""
        return self._seen


class BoxPage(Page[Box]):
    more: int | None = None


def test_generic_and_inherited_models(path: Path) -> None:
    boxes = Page[Box](id="a", items=[Box(x=1)], last=Box(x=2), hidden=5)
    for stage, store in each_stage(path / "generic", Page[Box], [boxes]):
        read = store.get("a")
        assert read is not None
        assert read == Page[Box](id="a", items=[Box(x=1)], last=Box(x=2)), stage
        assert (read.size, read.seen, read.hidden) == (1, 1, 1), stage
        assert "size" not in store.schema()
    page = BoxPage(id="a", items=[], last=Box(x=2), more=1)
    for stage, inherited in each_stage(path / "inherited", BoxPage, [page]):
        assert inherited.list() == [page], stage


class Early(BaseModel):
    id: str
    late: Late


class Late(BaseModel):
    n: int


def test_a_model_of_names_that_come_later(path: Path) -> None:
    with latest(path, Early) as store:
        store.add(Early(id="a", late=Late(n=1)))
        assert store.get("a") == Early(id="a", late=Late(n=1))


def test_a_model_is_a_schema_as_any(path: Path) -> None:
    class Wide(Clip):
        user: str | None = None  # type: ignore[assignment]

    latest(path, Clip).close()
    with GenericStore.open(path, schema_from(Clip)) as store:
        assert type(store) is GenericStore
        assert store.schema() == Schema(id=String(), user=String(nullable=False), score=Float64(), video=Blob())
    with pytest.raises(SchemaError) as error:
        GenericStore.open(path, Wide)
    assert error.value.code == "schema-mismatch"
    assert "`user`" in str(error.value)


def test_both_twins_do_the_same(path: Path) -> None:
    clips = [Clip(id=f"r{n}", score=n / 2, video=b"v") for n in range(5)]

    async def twin() -> list[object]:
        found: list[object] = []
        async with AsyncGenericStore.open(path / "twin", Clip, read="latest") as store:
            found.append(await store.add(clips[0]))
            found.append(await store.add([*clips[1:4], {"id": "r4", "user": "x"}]))
            found.append(await store.list(filter="score > 0"))
            found.append([clip async for clip in store.iter()])
            found.append([row async for row in store.iter(columns=["score"])])
            found += [await store.get("r1"), await store.get("r1", columns=["video"]), await store.get("r9")]
            found += [await store.get_many(["r1", "r9"]), await store.get_many(["r1"], columns=["user"])]
            clip = await store.get("r1")
            assert clip is not None
            found.append(clip.model_fields_set)
            with pytest.raises(RowError) as error:
                await store.add([clips[0], clip])
            found.append((error.value.code, error.value.row, error.value.column))
            await store.update("r1", {"user": ""})
        with pytest.raises(SchemaError) as mismatch:
            await AsyncGenericStore.open_existing(path / "twin", model=Aliased)
        found.append(mismatch.value.column)
        async with AsyncGenericStore.open_existing(path / "twin", model=Clip) as again:
            found.append(await again.list())
        return found

    def plain() -> list[object]:
        found: list[object] = []
        with GenericStore.open(path / "plain", Clip, read="latest") as store:
            found.append(store.add(clips[0]))
            found.append(store.add([*clips[1:4], {"id": "r4", "user": "x"}]))
            found.append(store.list(filter="score > 0"))
            found.append(list(store.iter()))
            found.append(list(store.iter(columns=["score"])))
            found += [store.get("r1"), store.get("r1", columns=["video"]), store.get("r9")]
            found += [store.get_many(["r1", "r9"]), store.get_many(["r1"], columns=["user"])]
            clip = store.get("r1")
            assert clip is not None
            found.append(clip.model_fields_set)
            with pytest.raises(RowError) as error:
                store.add([clips[0], clip])
            found.append((error.value.code, error.value.row, error.value.column))
            store.update("r1", {"user": ""})
        with pytest.raises(SchemaError) as mismatch:
            GenericStore.open_existing(path / "plain", model=Aliased)
        found.append(mismatch.value.column)
        with GenericStore.open_existing(path / "plain", model=Clip) as again:
            found.append(again.list())
        return found

    done = plain()
    assert done == asyncio.run(twin())
    # What was refused has closed its handle: a `ResourceWarning` would be an error here.
    gc.collect()
    assert done[2] == [Clip(id="r1", score=0.5), Clip(id="r2", score=1), Clip(id="r3", score=1.5)]
    assert Clip(id="r4", user="x") in done[3]  # type: ignore[operator] # pyright: ignore


def test_a_subclass_reads_models(path: Path) -> None:
    class ClipStore(GenericStore[Clip]):
        pass

    with ClipStore.open(path, Clip, read="latest") as store:
        assert type(store) is ClipStore
        store.add(Clip(id="a"))
        assert store.list() == [Clip(id="a")]


def test_rows_alone_do_not_import_pydantic(path: Path) -> None:
    program = """
        import sys
        from lance_context import GenericStore
        from lance_context.schema import Int64, Schema, String
        with GenericStore.open(sys.argv[1], Schema(id=String(), n=Int64()), read="latest") as store:
            store.add([{"id": "a", "n": 1}])
            store.add({"id": str(n)} for n in range(3))
            print(len(store.list()), len(list(store.iter())), store.get("a"))
        print({"pydantic", "pydantic_core"} & set(sys.modules))
    """
    assert run(program, path).out.splitlines() == ["4 4 {'id': 'a', 'n': 1}", "set()"]
