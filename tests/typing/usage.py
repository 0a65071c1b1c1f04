"""How programs use the package, for the type checker alone: this file is never run."""

import os
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, TypeVar, assert_type

from pydantic import BaseModel

from lance_context import (
    AddResult,
    AppendResult,
    AsyncDatagenStore,
    AsyncGenericStore,
    AsyncItemStream,
    AsyncStep,
    DatagenItemId,
    DatagenStore,
    DatagenStreamWriter,
    DeleteResult,
    Event,
    ExportReport,
    Failure,
    Finding,
    FoldedItem,
    GenericStore,
    ImportReport,
    ItemNode,
    ItemStream,
    ItemTree,
    LanceContextError,
    MaintenanceOptions,
    MergeReport,
    OptimizeReport,
    Overview,
    RecordBatch,
    Row,
    RunReport,
    Schema,
    SchemaDeclaration,
    Step,
    StepPosition,
    StoreStats,
    TransferProgress,
    schema_from,
)
from lance_context.schema import (
    Binary,
    Blob,
    Bool,
    Column,
    ColumnDeclaration,
    Date,
    Decimal,
    Float16,
    Int32,
    Json,
    List,
    String,
    Struct,
    Timestamp,
    UInt8,
    Vector,
)


def rows() -> Iterator[Mapping[str, object]]:
    yield {"id": "r1", "embedding": (0.0, 1.0)}


def progress(done: TransferProgress) -> None:
    assert_type(done.total_rows, int | None)


def blocking(path: os.PathLike[str]) -> None:
    with GenericStore.open("runs/clips", schema={"id": "string", "video": {"type": "binary", "blob": True}}) as store:
        assert_type(store, GenericStore)
        assert_type(store.add({"id": "r1", "video": b""}), AddResult)
        assert_type(store.add([{"id": "r1"}, {"id": "r2"}]), AddResult)
        assert_type(store.add(rows()), AddResult)
        assert_type(store.list(filter="n > $n", params={"n": 1}, columns=("id",), limit=1), list[Row])
        assert_type(store.list(filter={"n": 1}, after="r1", offset=1, read="latest"), list[dict[str, Any]])
        assert_type(store.get("r1", columns=["video"]), dict[str, Any] | None)
        assert_type(store.count("n > 1"), int)
        assert_type(store.add(rows(), on_conflict="ignore"), AddResult)
        assert_type(store.update("r1", {"n": 1}), None)
        assert_type(store.delete("r1"), DeleteResult)
        assert_type(store.delete(["r1", "r2"]), DeleteResult)
        assert_type(store.delete_where("n > $n", params={"n": 1}), DeleteResult)
        assert_type(store.get_many(("r1", "r2"), columns=["n"], read="latest"), list[Row | None])
        assert_type(store.exists("r1"), bool)
        assert_type(store.iter(filter={"n": 1}, columns=["n"]), Iterator[Row])
        assert_type(store.batches(), Iterator[RecordBatch])
        assert_type(store.optimize(older_than=timedelta(days=1)), OptimizeReport)
        assert_type(GenericStore.doctor("runs/clips", repair=True), list[Finding])
        assert_type(store.import_("rows.parquet", on_conflict="ignore", skip=3, progress=progress), ImportReport)
        assert_type(store.import_([path, "rows"], format="jsonl", columns={"key": "id"}), ImportReport)
        assert_type(store.export(path, filter={"n": 1}, columns=["n"], progress=progress), ExportReport)
        assert_type(store.flush(), None)
        assert_type(store.merge(), MergeReport)
        assert_type(store.stats(), StoreStats)
        assert_type(store.uri, str)
        assert_type(store.closed, bool)
    # What `schema()` returns is a declaration.
    again = GenericStore.open(Path("elsewhere"), store.schema(), gc_grace=timedelta(minutes=1), fsync=True)
    again.close()
    assert_type(GenericStore.open_existing(path, read_only=True, maintenance=None), GenericStore)
    quick = MaintenanceOptions(seal_idle_s=0.1)
    assert_type(GenericStore.open_existing(path, maintenance=quick), GenericStore)


async def awaiting() -> None:
    async with AsyncGenericStore.open("runs/clips", {"id": "string"}, seal_on_add=True) as store:
        assert_type(store, AsyncGenericStore)
        assert_type(await store.add(rows()), AddResult)
        assert_type(await store.list(columns=["id"]), list[Row])
        assert_type(await store.get("r1"), Row | None)
        assert_type(await store.update("r1", {"n": 1}), None)
        assert_type(await store.delete("r1"), DeleteResult)
        assert_type(await store.delete_where({"n": 1}), DeleteResult)
        assert_type(await store.get_many(["r1"]), list[Row | None])
        assert_type(await store.exists("r1"), bool)
        async for row in store.iter():
            assert_type(row, Row)
        async for batch in store.batches(filter="n > 1"):
            assert_type(len(batch), int)
        assert_type(await store.optimize(), OptimizeReport)
        assert_type(await store.import_("rows.jsonl.gz", columns=["id"]), ImportReport)
        assert_type(await store.export("rows.arrow", format="arrow", read="latest"), ExportReport)
        assert_type(await store.count({"n": 1}, read="latest"), int)
        assert_type(await store.merge(), MergeReport)
        assert_type(await store.stats(), StoreStats)
        assert_type(await store.close(), None)
    store = await AsyncGenericStore.open_existing("runs/clips")
    assert_type(store, AsyncGenericStore)


class Clip(BaseModel):
    """A model, and what its columns are."""

    id: str
    embedding: Annotated[list[float], Vector(2, metric="cosine")] = []
    video: Annotated[bytes | None, Blob()] = None


def clips() -> Iterator[Clip | Mapping[str, object]]:
    yield Clip(id="r1")
    yield {"id": "r2"}


def declared() -> None:
    schema = Schema(id=String(), embedding=Vector(768, metric="cosine", dtype="float16"), video=Blob(nullable=True))
    assert_type(schema, Schema)
    assert_type(schema["id"], ColumnDeclaration)
    assert_type(Schema({"id": "string", "foo-bar": {"type": "int64"}}, raw=Binary(blob=True)), Schema)
    assert_type(Schema(schema, more=UInt8(), half=Float16(), on=Date(), at=Timestamp(tz=None)), Schema)
    assert_type(Schema(tags=List(String(large=True)), boxes=List(Struct(x=Int32(), ok=Bool()))), Schema)
    assert_type(Schema(price=Decimal(10, 2), meta=Json(), box=Struct({"a b": Int32()}, nullable=False)), Schema)
    assert_type(Int32().nullable, bool | None)
    columns: list[Column] = [Blob(), Json(nullable=False)]
    assert_type(columns[0]["type"], object)
    declaration: SchemaDeclaration = schema
    assert_type(GenericStore.open("runs/clips", declaration), GenericStore)
    assert_type(GenericStore.open("runs/clips", schema), GenericStore[Row])
    assert_type(GenericStore.open("runs/clips", schema_from(Clip)), GenericStore[dict[str, Any]])


def modelled(path: Path, columns: Sequence[str] | None) -> None:
    with GenericStore.open("runs/clips", Clip, seal_on_add=True) as store:
        assert_type(store, GenericStore[Clip])
        assert_type(store.add(Clip(id="r1")), AddResult)
        assert_type(store.add([Clip(id="r1"), {"id": "r2"}], on_conflict="ignore"), AddResult)
        assert_type(store.add({"id": "r1"}), AddResult)
        assert_type(store.add(clips()), AddResult)
        store.add(Schema())  # a mapping, if of other things
        store.add(Path("clip"))  # pyright: ignore[reportArgumentType]
        store.add(5)  # pyright: ignore[reportArgumentType]
        assert_type(store.list(), list[Clip])
        assert_type(store.list(filter={"n": 1}, limit=1, read="latest"), list[Clip])
        assert_type(store.list(columns=["video"]), list[Row])
        assert_type(store.list(columns=columns), list[Clip] | list[Row])
        assert_type(store.get("r1"), Clip | None)
        assert_type(store.get("r1", columns=["video"]), Row | None)
        assert_type(store.get_many(["r1"]), list[Clip | None])
        assert_type(store.get_many(["r1"], columns=()), list[Row | None])
        assert_type(store.iter(), Iterator[Clip])
        assert_type(store.iter(filter="n > 1", columns=["n"]), Iterator[Row])
        assert_type(store.batches(), Iterator[RecordBatch])
        assert_type(store.update("r1", {"n": 1}), None)
        assert_type(store.exists("r1"), bool)
        assert_type(store.schema(), Row)
    assert_type(GenericStore.open_existing(path, model=Clip, read_only=True), GenericStore[Clip])
    GenericStore.open(path, int)  # pyright: ignore[reportArgumentType, reportCallIssue]
    GenericStore.open_existing(path, model=int)  # pyright: ignore[reportArgumentType, reportCallIssue]


async def modelled_twin(path: Path) -> None:
    async with AsyncGenericStore.open("runs/clips", Clip) as store:
        assert_type(store, AsyncGenericStore[Clip])
        assert_type(await store.add([Clip(id="r1"), {"id": "r2"}]), AddResult)
        assert_type(await store.add(clips()), AddResult)
        assert_type(await store.list(after="r1"), list[Clip])
        assert_type(await store.list(columns=["video"]), list[Row])
        assert_type(await store.get("r1"), Clip | None)
        assert_type(await store.get("r1", columns=["video"]), Row | None)
        assert_type(await store.get_many(["r1"]), list[Clip | None])
        assert_type(await store.get_many(["r1"], columns=["n"]), list[Row | None])
        assert_type(store.iter(), AsyncIterator[Clip])
        assert_type(store.iter(columns=["n"]), AsyncIterator[Row])
    assert_type(await AsyncGenericStore.open_existing(path, model=Clip), AsyncGenericStore[Clip])
    store = await AsyncGenericStore.open(path, Clip)
    assert_type(store, AsyncGenericStore[Clip])


X = TypeVar("X")


def first(store: GenericStore[X]) -> X | None:
    """Code over stores of any kind."""
    return next(store.iter(), None)


def first_of_each(path: Path) -> None:
    assert_type(first(GenericStore.open(path, Clip)), Clip | None)
    assert_type(first(GenericStore.open(path)), Row | None)
    untyped: GenericStore = GenericStore.open(path)
    assert_type(untyped.list(), list[Row])


def errors() -> None:
    try:
        blocking(Path("runs"))
    except LanceContextError as error:
        assert_type(error.code, str)
        assert_type(error.retryable, bool)
        assert_type(error.row, int | None)
        assert_type(error.column, str | None)
        assert_type(error.rows_done, int | None)


class ClipStore(GenericStore):
    """A subclass keeps its type through `open`."""


def subclassed() -> None:
    assert_type(ClipStore.open("runs/clips"), ClipStore)


async def subclassed_twin() -> None:
    class AsyncClipStore(AsyncGenericStore):
        pass

    assert_type(await AsyncClipStore.open("runs/clips"), AsyncClipStore)


class Plan(BaseModel):
    """A value with a type of its own."""

    title: str


async def llm(prompt: str, n: int = 0) -> str:
    return f"{prompt} {n}"


def sync_llm(prompt: str) -> Plan:
    return Plan(title=prompt)


async def agent() -> None:
    async with AsyncDatagenStore.open("runs/essays", writer_id="a") as store:
        assert_type(store, AsyncDatagenStore)

        async def essay(item: AsyncItemStream) -> None:
            outline = await item.once("outline", llm, f"Outline {item.key}", n=1)
            assert_type(outline, str)
            async with item.step("refine", step_kind="loop") as frame:
                assert_type(frame, AsyncStep)
                async with frame.step("draft", iteration=(0, 1)) as step:
                    assert_type(step.completed, bool)
                    step.append("drafts", outline)
            assert_type(item.value("outline", str), str)
            assert_type(item.value("plan", Plan), Plan)
            assert_type(item.value("plans", list[Plan]), list[Plan])
            assert_type(item.value("plan", Plan, None), Plan | None)
            assert_type(item.values("drafts", str), list[str])
            assert_type(item.value("anything"), object)
            assert_type(await item.load_blob("cover"), bytes)
            assert_type(item.child("expand", 0), DatagenItemId)
            item.filter_out(reason="short")

        report = await store.run(["1", DatagenItemId("2")], essay, run_id="r", concurrency=200, max_failures=50)
        assert_type(report, RunReport)
        async with store.stream("5", run_id="r") as item:
            assert_type(item, AsyncItemStream)
        assert_type(await store.fold_item("5"), FoldedItem | None)
        async for cursor, event in store.events():
            assert_type(cursor, str)
            assert_type(event, Event)
        assert_type(await store.overview(), Overview)
        assert_type(await store.pending(["1"]), list[DatagenItemId])


def log(store: DatagenStore) -> None:
    writer = store.open_stream("5", run_id="r", query_tags={"kind": "essay"}, config={"model": "m"})
    assert_type(writer, DatagenStreamWriter)
    assert_type(store.resume_stream("5", run_id="r"), DatagenStreamWriter | None)
    position: StepPosition = {"step_name": "draft", "iteration": (1, 2)}
    events = writer.step_completed(position, [{"field_name": "f", "field_type": "str", "value": "x", "op": "append"}])
    assert_type(events, list[Event])
    assert_type(store.append_checkpoint(events), AppendResult)
    assert_type(store.append(writer.item_terminal("filtered")), AppendResult)
    with store.stream("5", run_id="r") as item, item.step("draft") as step:
        assert_type(item, ItemStream)
        assert_type(step, Step)
        assert_type(item.once("plan", sync_llm, "x"), Plan)
    tree = store.item_tree("5", max_items=10)
    assert_type(tree, ItemTree)
    assert_type(tree.find("5"), ItemNode | None)
    for node in tree.walk():
        assert_type(node.item.failures, list[Failure])
        assert_type(node.item.completed, list[StepPosition])
    assert_type(store.root_item_statuses(["5"]), dict[str, str])
