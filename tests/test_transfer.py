"""How rows go in from files and out to files: in chunks, in bounded memory, and as far as the error says."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from lance_context import (
    AlreadyExistsError,
    AsyncGenericStore,
    GenericStore,
    ImportReport,
    LanceContextError,
    RowError,
    StateError,
    TransferProgress,
    UnsealedRowsWarning,
    _formats,
)
from tests.child import Child, module, run
from tests.files import SCHEMA, SUFFIXES, numbered, rows_of, written

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lance_context import TransferFormat
    from lance_context._native import Lines
    from tests.twins import Opener

MIB = 1 << 20


@pytest.fixture
def store(path: Path) -> Iterator[GenericStore]:
    """An empty store that reads latest."""
    with GenericStore.open(path, SCHEMA, read="latest", maintenance=None) as store:
        yield store


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of three rows."""
    monkeypatch.setattr(_formats, "CHUNK_ROWS", 3)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.parametrize("count", [0, 1, 2, 3, 4, 6, 7, 20])
@pytest.mark.usefixtures("small_chunks")
def test_chunks_end_where_they_should(store: GenericStore, tmp_path: Path, suffix: str, count: int) -> None:
    rows = numbered(count)
    sizes: list[int] = []
    report = store.import_(
        written(tmp_path, f"rows{suffix}", rows, at_once=5), progress=lambda done: sizes.append(done.rows)
    )
    chunk = [after - before for before, after in zip([0, *sizes], sizes, strict=False)]
    assert all(1 <= size <= 3 for size in chunk)
    assert (report.rows, report.chunks) == (count, len(chunk))
    if suffix == ".jsonl":
        assert chunk == [3] * (count // 3) + [count % 3] * (count % 3 > 0)
    assert rows_of(store) == rows


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
def test_chunks_are_bounded_in_bytes(
    store: GenericStore, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_formats, "CHUNK_BYTES", 10_000)
    # One row is larger than a chunk.
    rows = [{"id": f"r{n:02}", "n": n, "note": "x" * (30_000 if n == 17 else 2_000)} for n in range(40)]
    report = store.import_(written(tmp_path, f"rows{suffix}", rows, at_once=40))
    assert report.rows == 40
    assert 10 <= report.chunks <= 20
    assert rows_of(store) == rows


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.parametrize("skip", [0, 1, 2, 5, 9, 10, 11, 13, 24, 25, 99])
@pytest.mark.usefixtures("small_chunks")
def test_skip_goes_through_all_files(store: GenericStore, tmp_path: Path, suffix: str, skip: int) -> None:
    parts = [numbered(10), numbered(1, 10), [], numbered(14, 11)]
    files = [written(tmp_path, f"part{n}{suffix}", part) for n, part in enumerate(parts)]
    report = store.import_(files, skip=skip)
    assert (report.rows, report.skipped) == (max(25 - skip, 0), min(skip, 25))
    assert rows_of(store) == numbered(25)[skip:]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".arrow", ".arrows"])
@pytest.mark.usefixtures("small_chunks")
def test_an_import_that_broke_off_goes_on(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    rows = numbered(12)
    broken = [{**row, "id": None} if row["n"] == 7 else row for row in rows]
    first = written(tmp_path, f"first{suffix}", numbered(3, 100), at_once=3)
    # As large as chunks, so that all formats are cut alike.
    second = written(tmp_path, f"second{suffix}", broken, at_once=3)
    with pytest.raises(RowError) as caught:
        store.import_([first, second])
    error = caught.value
    assert (error.code, error.row, error.column, error.rows_done) == ("missing-value", 7, "id", 9)
    place = f"`{second}`, row 7 (line 8), column" if suffix == ".jsonl" else f"`{second}`, row 7, column"
    assert str(error).startswith(place), str(error)
    assert str(error).endswith("9 rows of the files are durable; import_(…, skip=9) goes on behind them")
    # Nothing of the chunk is there, and all before it.
    assert [row["n"] for row in rows_of(store)] == [0, 1, 2, 3, 4, 5, 100, 101, 102]
    written(tmp_path, f"second{suffix}", rows, at_once=3)
    assert store.import_([first, second], skip=9) == ImportReport(rows=6, added=6, skipped=9, chunks=2)
    assert [row["n"] for row in rows_of(store)] == [*range(12), 100, 101, 102]


def importing() -> None:
    """A child that imports in small chunks and tells of each."""
    import sys

    _formats.CHUNK_ROWS = 50
    with GenericStore.open_existing(sys.argv[1]) as store:
        store.import_(Path(sys.argv[2]), progress=lambda done: print(done.rows, flush=True))  # noqa: T201


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_killed_in_the_middle(path: Path, tmp_path: Path, suffix: str) -> None:
    rows = numbered(5_000)
    file = written(tmp_path, f"rows{suffix}", rows, at_once=1_000)
    GenericStore.open(path, SCHEMA, gc_grace=0).close()
    for told in (1, 4, 20):
        with Child(module("tests.test_transfer", "importing"), path, file) as child:
            for _ in range(told):
                child.read()
            rest = child.kill()
        acknowledged = int(rest[-1]) if rest else 50 * told
        with GenericStore.open_existing(path, read="latest", maintenance=None) as store:
            found = rows_of(store)
            assert acknowledged <= len(found) < len(rows)
            assert len(found) % 50 == 0, "a chunk is there in part"
            assert found == rows[: len(found)]
    with GenericStore.open_existing(path, read="latest", maintenance=None) as store:
        assert store.import_(file).rows == len(rows)
        assert rows_of(store) == rows


@pytest.mark.usefixtures("small_chunks")
def test_an_id_that_must_be_new(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(1, 4))
    file = written(tmp_path, "rows.jsonl", numbered(10))
    with pytest.raises(AlreadyExistsError, match="skip=3") as caught:
        store.import_(file, on_conflict="error")
    assert (caught.value.code, caught.value.rows_done) == ("row-exists", 3)
    assert [row["n"] for row in rows_of(store)] == [0, 1, 2, 4]
    with pytest.raises(ValueError, match="on_conflict"):
        store.import_(file, on_conflict="merge")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".jsonl.gz", ".arrow", ".arrows"])
@pytest.mark.usefixtures("small_chunks")
def test_progress(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    files = [written(tmp_path, f"{n}{suffix}", numbered(6, 6 * n), at_once=3) for n in range(2)]
    seen: list[TransferProgress] = []
    found: list[int] = []

    def tell(done: TransferProgress) -> None:
        seen.append(done)
        if isinstance(store, GenericStore):
            found.append(store.count())

    store.import_(files, progress=tell)
    assert [(done.path, done.rows) for done in seen] == [
        (str(files[0]), 3),
        (str(files[0]), 6),
        (str(files[1]), 9),
        (str(files[1]), 12),
    ]
    assert found in ([], [3, 6, 9, 12]), "what it tells of is durable"
    assert [done.total_rows for done in seen] == [6 if suffix == ".parquet" else None] * 4
    assert [done.total_bytes for done in seen] == [file.stat().st_size for file in files for _ in range(2)]
    for done in seen:
        assert done.bytes is None if suffix == ".parquet" else 0 < (done.bytes or 0) <= (done.total_bytes or 0)
    seen.clear()
    report = store.export(tmp_path / f"out{suffix}", progress=seen.append)
    assert seen[-1].rows == report.rows == 12
    assert {done.path for done in seen} == {report.path}


@pytest.mark.usefixtures("small_chunks")
def test_progress_that_raises(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    file = written(tmp_path, "rows.jsonl", numbered(10))

    def stop(done: TransferProgress) -> None:
        if done.rows == 6:
            raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop") as caught:
        store.import_(file, progress=stop)
    assert caught.value.__notes__ == [f"6 rows of `{file}` are durable; import_(…, skip=6) goes on behind them"]
    assert rows_of(store) == numbered(6)
    store.import_(file, skip=6)
    assert rows_of(store) == numbered(10)


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_an_export_that_broke_off_leaves_the_old_file(stores: Opener, tmp_path: Path, suffix: str) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(10))
    directory = tmp_path / "out"
    directory.mkdir()
    file = directory / f"rows{suffix}"

    def stop(_: TransferProgress) -> None:
        assert len(list(directory.iterdir())) == 1 + file.exists(), "something is being written"
        raise RuntimeError("stop")

    with pytest.raises(RuntimeError, match="stop"):
        store.export(file, progress=stop)
    assert list(directory.iterdir()) == []
    file.write_bytes(b"old")
    with pytest.raises(RuntimeError, match="stop"):
        store.export(file, progress=stop)
    assert list(directory.iterdir()) == [file]
    assert file.read_bytes() == b"old"
    report = store.export(file)
    assert list(directory.iterdir()) == [file]
    assert file.stat().st_size == report.bytes != 3


def test_an_export_is_on_the_device_before_it_has_its_name(
    store: GenericStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[tuple[str, str]] = []
    sync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        done.append(("sync", os.readlink(f"/proc/self/fd/{descriptor}")))
        sync(descriptor)

    def replaced(source: str, target: str) -> None:
        done.append(("replace", source))
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    store.add(numbered(3))
    store.export(tmp_path / "rows.jsonl")
    assert [what for what, _ in done] == ["sync", "replace", "sync"]
    assert done[0][1] == done[1][1] != done[2][1] == str(tmp_path)


def exporting() -> None:
    """A child that begins to export, and waits."""
    import sys

    def tell(done: TransferProgress) -> None:
        print(done.rows, flush=True)  # noqa: T201
        sys.stdin.readline()

    with GenericStore.open_existing(sys.argv[1], read="latest") as store:
        store.export(Path(sys.argv[2]), progress=tell)


def test_killed_while_exporting(store: GenericStore, path: Path, tmp_path: Path) -> None:
    store.add(numbered(10))
    file = tmp_path / "rows.jsonl"
    store.export(file)
    old = file.read_bytes()
    store.add(numbered(10, 10))
    with Child(module("tests.test_transfer", "exporting"), path, file) as child:
        child.read()
        child.kill()
    assert file.read_bytes() == old


def test_a_link_stays_one(store: GenericStore, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "rows.jsonl").symlink_to(tmp_path / "elsewhere" / "real.jsonl")
    store.add(numbered(1))
    store.export(tmp_path / "rows.jsonl")
    assert (tmp_path / "rows.jsonl").is_symlink()
    assert (tmp_path / "elsewhere" / "real.jsonl").read_text() == '{"id":"r000000","n":0,"note":""}\n'


def test_what_makes_no_sense(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    good = written(tmp_path, "rows.jsonl", numbered(3))
    plain = tmp_path / "rows.txt"
    plain.write_bytes(good.read_bytes())
    with pytest.raises(ValueError, match=r"rows\.txt` cannot be told by its suffix; name it `\.parquet`"):
        store.import_(plain)
    with pytest.raises(ValueError, match="`csv` is unknown; it is one of `parquet`"):
        store.export(tmp_path / "out", format="csv")  # pyright: ignore[reportArgumentType]
    assert store.import_(plain, format="jsonl").rows == 3
    with pytest.raises(ValueError, match="`skip` is at least 0"):
        store.import_(good, skip=-1)
    with pytest.raises(TypeError, match="of bytes"):
        store.import_(b"rows.jsonl")  # pyright: ignore[reportArgumentType]
    with pytest.raises(FileNotFoundError):
        store.import_(tmp_path / "missing.parquet")
    with pytest.raises(IsADirectoryError):
        store.import_(tmp_path, format="parquet")
    with pytest.raises(FileNotFoundError):
        store.export(tmp_path / "missing" / "rows.jsonl")
    (tmp_path / "rows.arrow").mkdir()
    with pytest.raises(IsADirectoryError):
        store.export(tmp_path / "rows.arrow")
    for format in ("parquet", "arrow", "arrow-stream"):
        with pytest.raises(ValueError, match=r"(?i)parquet|arrow|stream|message"):
            store.import_(plain, format=format)
    assert rows_of(store) == numbered(3)


def test_of_several_files_all_must_be_there(store: GenericStore, tmp_path: Path) -> None:
    good = written(tmp_path, "rows.jsonl", numbered(3))
    with pytest.raises(FileNotFoundError):
        store.import_([good, tmp_path / "missing.jsonl"])
    assert rows_of(store) == []


def test_handles_that_cannot(stores: Opener, tmp_path: Path) -> None:
    store = stores.create(tmp_path / "store", SCHEMA)
    store.add(numbered(3))
    file = tmp_path / "rows.jsonl"
    reader = stores.reopen(tmp_path / "store", read_only=True)
    assert reader.export(file).rows == 3
    with pytest.raises(StateError) as caught:
        reader.import_(file)
    assert caught.value.code == "read-only"
    store.close()
    for use in (lambda: store.import_(file), lambda: store.export(file)):
        with pytest.raises(StateError) as caught:
            use()
        assert caught.value.code == "closed"


def test_an_empty_export_warns_of_unsealed_rows(path: Path, tmp_path: Path) -> None:
    with GenericStore.open(path, SCHEMA, maintenance=None) as store:
        store.add(numbered(3))
        with pytest.warns(UnsealedRowsWarning, match="3 rows"):
            assert store.export(tmp_path / "rows.jsonl").rows == 0
        assert store.export(tmp_path / "rows.jsonl", read="latest").rows == 3


@pytest.mark.usefixtures("small_chunks")
def test_a_cancelled_import_goes_on(path: Path, tmp_path: Path) -> None:
    file = written(tmp_path, "rows.jsonl", numbered(30))

    async def cancelled() -> int:
        async with AsyncGenericStore.open(path, SCHEMA, read="latest") as store:

            def stop(done: TransferProgress) -> None:
                if done.rows == 9:
                    importing.cancel()

            importing = asyncio.ensure_future(store.import_(file, progress=stop))
            with pytest.raises(asyncio.CancelledError):
                await importing
            durable = await store.count()
            report = await store.import_(file, skip=9)
            assert report.rows == 21
            assert [row["n"] for row in await store.list()] == list(range(30))
            return durable

    assert asyncio.run(cancelled()) in (9, 12)


def test_the_loop_goes_on_meanwhile(path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(tmp_path, "rows.jsonl", numbered(3))
    reading, told = asyncio.Event(), False
    read = _formats.read_chunks

    async def both() -> None:
        nonlocal told
        loop = asyncio.get_running_loop()

        def slow(
            path: str,
            format: TransferFormat,
            lines: Lines,
            columns: Mapping[str, str] | None,
            skip: _formats.Skip,
        ) -> Iterator[_formats.Chunk]:
            nonlocal told
            # Ends only if the loop runs while a file is read.
            asyncio.run_coroutine_threadsafe(other(), loop).result(timeout=60)
            told = True
            return read(path, format, lines, columns, skip)

        async def other() -> None:
            reading.set()

        monkeypatch.setattr(_formats, "read_chunks", slow)
        async with AsyncGenericStore.open(path, SCHEMA) as store:
            await store.import_(file)

    asyncio.run(both())
    assert told
    assert reading.is_set()


MEASURE = """
    import sys
    from pathlib import Path

    from benchmarks.memory import peak_rss_bytes, reset_peak_rss, rss_bytes
    from lance_context import GenericStore, _formats

    _formats.CHUNK_BYTES = int(sys.argv[4])
    what, store, file = sys.argv[1], GenericStore.open_existing(sys.argv[2], maintenance=None), Path(sys.argv[3])
    with store:
        # What is loaded once for all does not count.
        store.add({"id": "warm"})
        warm = file.with_name("warm" + file.suffix)
        store.export(warm)
        store.import_(warm)
        reset_peak_rss()
        before = rss_bytes()
        report = store.import_(file) if what == "import" else store.export(file)
        print(report.rows, peak_rss_bytes() - before)
"""


MAKE = """
    import base64, json, os, sys
    from pathlib import Path

    import pyarrow as pa
    import pyarrow.parquet as pq

    path, rows, size = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    if path.suffix == ".parquet":
        table = pa.table({"id": [f"r{n}" for n in range(rows)], "data": [os.urandom(size) for _ in range(rows)]})
        # One row group; a dictionary would hold all of it in one piece.
        pq.write_table(table, path, use_dictionary=False)
    else:
        with path.open("w") as file:
            for n in range(rows):
                file.write(json.dumps({"id": f"r{n}", "data": base64.b64encode(os.urandom(size)).decode()}) + "\\n")
"""


@pytest.mark.parametrize(
    ("total", "chunk", "most"),
    [(96 * MIB, 2 * MIB, 90 * MIB), pytest.param(400 * MIB, 16 * MIB, 250 * MIB, marks=pytest.mark.soak)],
)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_memory_is_bounded(path: Path, tmp_path: Path, suffix: str, total: int, chunk: int, most: int) -> None:
    # Sealed at once, so that what the store itself keeps in memory does not count.
    GenericStore.open(path, {"id": "string", "data": "binary"}, seal_on_add=True, gc_grace=0).close()
    size = 4 << 10
    file = tmp_path / f"rows{suffix}"
    run(MAKE, file, total // size, size)
    for what, where in (("import", file), ("export", tmp_path / f"again{suffix}")):
        rows, grown = map(int, run(MEASURE, what, path, where, chunk).out.split())
        assert rows - total // size in (0, 1)
        assert grown < most, f"an {what} of {total // MIB} MiB took {grown // MIB} MiB"


def test_errors_keep_their_rows_done_through_pickling() -> None:
    import pickle

    error = RowError("what", code="wrong-type", row=3)
    error.rows_done = 7
    copy = pickle.loads(pickle.dumps(error))
    assert isinstance(copy, LanceContextError)
    assert copy.rows_done == 7
