"""`DatagenStore`: the item log, and how it is written. What reads it is in `lance_context.datagen_reads`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from os import PathLike
from types import TracebackType
from typing import Self

from lance_context._base import DEFAULT_MAINTENANCE, doctor_request, findings, open_request, seconds
from lance_context._datagen_base import appended, item_request
from lance_context._native import Log
from lance_context._opened import begin, compare_config
from lance_context._run import ProgressLine, Tally, distinct, end_unmarked, run_limits
from lance_context.datagen_reads import DatagenReads
from lance_context.datagen_types import AppendResult, Event, ItemIdLike, OnConfigChange, RunReport
from lance_context.datagen_writer import DatagenStreamWriter, writer_over
from lance_context.item import ItemStream
from lance_context.types import Finding, MaintenanceOptions, MergeReport, OptimizeReport, ReadMode, StoreStats


class DatagenStore(DatagenReads):
    """A log of items: units of data generation, each an ordered stream of events that folds into its latest state.

    An agent writes items with `stream` or `run`, whose blocks and steps survive a crash at any moment: what a step
    wrote is there whole or not at all, and a later run goes on behind it. A notebook beside it reads with
    `open_existing` and ``read_only=True``. A handle may be shared by threads.

    Several processes write one log by giving each its `writer_id`.

    Example:
        >>> from lance_context import ItemStream
        >>> def essay(item: ItemStream) -> None:
        ...     outline = item.once("outline", str.title, f"about {item.key}")
        ...     with item.step("draft") as step:
        ...         if not step.completed:
        ...             step.set("text", f"{outline} …")
        >>> with DatagenStore.open("memory://doc-log") as store:
        ...     report = store.run(["tea", "rice"], essay, run_id="2026-11-29")
        ...     report.completed, [item.value("text", str) for item in store.items()]
        (2, ['About Rice …', 'About Tea …'])
    """

    @classmethod
    def open(
        cls,
        uri: str | PathLike[str],
        *,
        writer_id: str | None = None,
        seal_on_add: bool | None = None,
        fsync: bool | None = None,
        gc_grace: float | timedelta | None = None,
        read: ReadMode = "latest",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Opens the log at `uri`, or creates it.

        `seal_on_add`, `fsync` and `gc_grace` belong to the store: they are set when it is created and
        restored by every later open. ``None`` takes the stored value.

        Args:
            uri: A path, or a uri such as ``s3://bucket/name`` or ``memory://name``.
            writer_id: The name of this writer among several processes that write at once. Each has its own shard,
                and none fences another.
            seal_on_add: Whether every reader sees an event as soon as `append` returns. ``False`` at creation; reads
                of a log see it anyway.
            fsync: Whether an acknowledged event also survives a crash of the machine. ``False`` at creation.
            gc_grace: How long superseded files stay for readers that still use them: seconds or a
                timedelta. Five minutes at creation.
            read: What reads see: the ``"latest"`` durable events of every writer, or ``"sealed"`` ones.
            maintenance: What the handle does in the background once it has written; ``None``: nothing.
            storage_options: Options for the object store.

        Returns:
            The open log.

        Raises:
            SchemaError: An option contradicts the store (``option-mismatch``).
            FormatError: There is something else at `uri` (``not-a-store``), or it is unreadable
                (``damaged``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).
            UnsupportedError: This kind of uri cannot be opened (``unsupported``).
            ValueError: An argument makes no sense.

        Example:
            >>> with DatagenStore.open("memory://doc-log-open", writer_id="worker-1") as store:
            ...     store.overview().items
            0
        """
        request = open_request(
            uri,
            writer_id=writer_id,
            seal_on_add=seal_on_add,
            fsync=fsync,
            gc_grace=gc_grace,
            read=read,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls(Log.open(request.uri, request.must_exist, request.options))

    @classmethod
    def open_existing(
        cls,
        uri: str | PathLike[str],
        *,
        read_only: bool = False,
        writer_id: str | None = None,
        read: ReadMode = "latest",
        maintenance: MaintenanceOptions | None = DEFAULT_MAINTENANCE,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Opens a log that must be there.

        Args:
            uri: A path or a uri, as in `open`.
            read_only: Whether every method that writes is refused. Such a handle sees every durable event of running
                writers, and disturbs none: it claims, merges, cleans and fences nothing.
            writer_id: The name of this writer, as in `open`.
            read: What reads see, as in `open`.
            maintenance: What the handle does in the background once it has written; ``None``: nothing.
            storage_options: Options for the object store.

        Returns:
            The open log.

        Raises:
            NotFoundError: There is no store (``store-not-found``).
            FormatError: There is something else at `uri` (``not-a-store``), or it is unreadable
                (``damaged``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).
            UnsupportedError: This kind of uri cannot be opened (``unsupported``).
            ValueError: An argument makes no sense.

        Example:
            >>> DatagenStore.open("memory://doc-log-existing").close()
            >>> with DatagenStore.open_existing("memory://doc-log-existing", read_only=True) as store:
            ...     store.items()
            []
        """
        request = open_request(
            uri,
            must_exist=True,
            writer_id=writer_id,
            read=read,
            read_only=read_only,
            maintenance=maintenance,
            storage_options=storage_options,
        )
        return cls(Log.open(request.uri, request.must_exist, request.options))

    @classmethod
    def doctor(
        cls,
        uri: str | PathLike[str],
        *,
        repair: bool = False,
        storage_options: Mapping[str, str] | None = None,
    ) -> list[Finding]:
        """Looks at every file of a log: whether it is there, whole, and agrees with the others.

        Args:
            uri: A path or a uri, as in `open`.
            repair: Mend what can be mended without losing an acknowledged event. Nobody, in no process, may have
                the log open meanwhile. Without it nothing is changed, and the log may be in use.
            storage_options: Options for the object store.

        Returns:
            What was found, what a repair mended first. Empty for a log that is in order.

        Raises:
            NotFoundError: There is no store (``store-not-found``).
            FormatError: There is something else at `uri` (``not-a-store``).
            StateError: This process was forked after its parent used the package (``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> DatagenStore.open("memory://doc-log-doctor").close()
            >>> DatagenStore.doctor("memory://doc-log-doctor")
            []
        """
        return findings(Log.doctor(*doctor_request(uri, repair, storage_options)))

    def append(self, events: Event | Iterable[Event]) -> AppendResult:
        """Makes events of a `DatagenStreamWriter` durable, all or none. They may be of several items.

        Handing the same events over again, any number of times, is accepted and changes nothing.

        Args:
            events: One event or several.

        Returns:
            How many there were, and how many of them are new.

        Raises:
            FencedError: Another stream owns the item: stop this writer (``stream-fenced``).
            ConflictError: Another event has the place or the id of one (``event-conflict``).
            StateError: An event leaves a gap (``stream-gap``), or its item has ended (``item-terminal``); or the
                handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            RowError: An event is none (``invalid-event``), or there are too many (``batch-too-large``).
            NotFoundError: An item was never created (``item-not-found``).
            StorageError: Storage failed (``storage``): hand the events over again, or resume the item.

        Example:
            >>> with DatagenStore.open("memory://doc-append") as store:
            ...     writer = store.open_stream("tea", run_id="r1")
            ...     started = writer.step_started({"step_name": "refine", "step_kind": "loop"})
            ...     store.append(started), store.append(started)
            (AppendResult(count=1, new=1), AppendResult(count=1, new=0))
        """
        return appended(self._native.append(events, "append"))

    def append_checkpoint(self, events: Iterable[Event]) -> AppendResult:
        """Makes the events of one step durable: its field writes and its completion, which count together.

        Args:
            events: What `DatagenStreamWriter.step_completed` returned.

        Returns:
            How many there were, and how many of them are new.

        Raises:
            RowError: They are not one checkpoint (``invalid-event``).
            FencedError: As in `append`; so are all others.

        Example:
            >>> with DatagenStore.open("memory://doc-checkpoint") as store:
            ...     writer = store.open_stream("tea", run_id="r1")
            ...     fields = [{"field_name": "text", "field_type": "str", "value": "hello"}]
            ...     store.append_checkpoint(writer.step_completed({"step_name": "draft"}, fields)).new
            2
        """
        return appended(self._native.append(events, "checkpoint"))

    def open_stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        writer_epoch: str | None = None,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
    ) -> DatagenStreamWriter:
        """Creates an item and returns the writer of its first stream.

        Args:
            item_id: The item.
            run_id: Whose run.
            writer_epoch: Tells apart streams of one attempt; a fresh uuid7 by default.
            query_tags: Tags to filter items by.
            config: The configuration, any JSON value; its fingerprint is kept.

        Returns:
            The writer, behind the item's first event.

        Raises:
            AlreadyExistsError: The item exists (``item-exists``).
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: An argument makes no sense.

        Example:
            >>> with DatagenStore.open("memory://doc-open-stream") as store:
            ...     store.open_stream("tea", run_id="r1", query_tags={"kind": "drink"}).next_seq
            2
        """
        created = begin(item_request(item_id, run_id, query_tags, config), writer_epoch)
        self._native.append(created.batch, "open")
        return writer_over(created.writer)

    def resume_stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        writer_epoch: str | None = None,
        config: object = None,
        on_config_change: OnConfigChange = "warn",
    ) -> DatagenStreamWriter | None:
        """Returns the writer of an item's next attempt. Writes nothing: of several resumes the first to append wins.

        Args:
            item_id: The item.
            run_id: Whose run.
            writer_epoch: Tells apart streams of one attempt; a fresh uuid7 by default.
            config: The configuration of now, to compare with that of the item's start.
            on_config_change: Whether another configuration is an error or a warning.

        Returns:
            The writer, or ``None`` if the item was never started.

        Raises:
            StateError: The item has ended (``item-terminal``), or was started with another configuration
                (``config-changed``); or the handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: An argument makes no sense.

        Example:
            >>> with DatagenStore.open("memory://doc-resume-stream") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     store.resume_stream("tea", run_id="r2").attempt
            1
        """
        folded = self.fold_item(item_id)
        if folded is None:
            return None
        writer = DatagenStreamWriter.resuming(folded, run_id=run_id, writer_epoch=writer_epoch)
        compare_config(folded, config, on_config_change, stacklevel=3)
        return writer

    def stream(
        self,
        item_id: ItemIdLike,
        *,
        run_id: str,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
        on_config_change: OnConfigChange = "warn",
    ) -> ItemStream:
        """Returns an item to enter as a block, which creates it, or resumes it behind its completed steps.

        Leaving the block after `ItemStream.complete` or `ItemStream.filter_out` ends the item; otherwise it stays
        running, for another block to go on with.

        Args:
            item_id: The item.
            run_id: Whose run.
            query_tags: Tags to filter items by; kept when the item is created.
            config: The configuration, any JSON value; compared with that of the item's start.
            on_config_change: Whether another configuration is an error or a warning.

        Returns:
            The item. Entering it raises `StateError` if it has ended (``item-terminal``) or was started with another
            configuration (``config-changed``).

        Raises:
            ValueError: It is no id.

        Example:
            >>> with DatagenStore.open("memory://doc-stream") as store:
            ...     with store.stream("tea", run_id="r1") as item:
            ...         with item.step("draft") as step:
            ...             step.set("text", "hello")
            ...         item.complete()
            ...     store.fold_item("tea").status
            'completed'
        """
        return ItemStream(self._native, item_request(item_id, run_id, query_tags, config, on_config_change))

    def run(
        self,
        ids: Iterable[ItemIdLike],
        worker: Callable[[ItemStream], object],
        *,
        run_id: str,
        concurrency: int = 16,
        max_failures: int | None = None,
        query_tags: Mapping[str, object] | None = None,
        config: object = None,
        progress: bool = False,
    ) -> RunReport:
        """Works on many items at once: creates or resumes each, calls `worker`, and ends it when that returns.

        An item whose worker raises stays running, with the failure in its log; the run goes on, and a later run
        resumes it. Items that have ended are skipped. Ctrl-C lets no more start, and raises when those that run are
        through.

        Args:
            ids: The items; each is worked on once.
            worker: What to do with one. It may mark it with `ItemStream.filter_out`.
            run_id: Whose run.
            concurrency: How many threads work at once.
            max_failures: How many failures are enough: no more items are started then.
            query_tags: Tags of the items that are created.
            config: The configuration, as in `stream`; another one than an item's start is a warning.
            progress: Whether to show a line of counts, where rich is installed.

        Returns:
            How the items ended.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``).
            ValueError: An argument makes no sense.

        Example:
            >>> with DatagenStore.open("memory://doc-run") as store:
            ...     report = store.run(["1", "2"], lambda item: item.once("n", int, item.key), run_id="r1")
            ...     report.completed, report.failed
            (2, 0)
        """
        from concurrent.futures import ThreadPoolExecutor, wait

        limits = run_limits(concurrency, max_failures)
        given = distinct(ids)
        tally = Tally(len(given), self.pending(given), limits.max_failures)
        line = ProgressLine(tally, shown=progress)

        def work() -> None:
            while (item_id := tally.start()) is not None:
                item = self.stream(item_id, run_id=run_id, query_tags=query_tags, config=config)
                try:
                    with item:
                        worker(item)
                        end_unmarked(item)
                except Exception as error:
                    tally.raised(item, error)
                except BaseException:
                    tally.gave_up()
                    tally.abort()
                    raise
                else:
                    tally.ended(item)
                line.update()

        count = min(limits.concurrency, tally.total)
        try:
            # Leaving the block waits for those that run.
            with ThreadPoolExecutor(max(count, 1), "lance-context-run") as threads:
                try:
                    workers = [threads.submit(work) for _ in range(count)]
                    wait(workers)
                finally:
                    tally.abort()
        finally:
            line.close()
        for done in workers:
            done.result()
        return tally.report()

    def flush(self) -> None:
        """Seals what is durable in this handle, and waits.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``). The events stay durable.

        Example:
            >>> with DatagenStore.open("memory://doc-log-flush") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     store.flush()
            ...     store.stats().unsealed_rows
            0
        """
        self._native.flush()

    def merge(self) -> MergeReport:
        """Folds sealed generations into the base table, where every reader of Lance datasets sees them.

        Returns:
            What was merged; nothing, if nothing was pending.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``). The log stays readable, and the next merge
                finishes the work.

        Example:
            >>> with DatagenStore.open("memory://doc-log-merge") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     store.flush()
            ...     store.merge().rows
            1
        """
        return MergeReport(**self._native.merge())

    def optimize(self, *, older_than: float | timedelta | None = None) -> OptimizeReport:
        """Merges, rewrites small files into larger ones, completes the indexes, and removes old versions.

        Background maintenance does all of this by itself, a little at a time.

        Args:
            older_than: Remove versions of the base table that are older than this, in seconds or as a
                timedelta; at least the store's ``gc_grace``. Versions with a tag stay.

        Returns:
            What was done.

        Raises:
            StateError: The handle is closed or read-only (``closed``, ``read-only``, ``forked``).
            StorageError: Storage failed (``storage``). What was done until then stays done.

        Example:
            >>> with DatagenStore.open("memory://doc-log-optimize") as store:
            ...     store.optimize().generations
            0
        """
        return OptimizeReport(**self._native.optimize(seconds(older_than)))

    def stats(self) -> StoreStats:
        """Reads the store's counters; its rows are events.

        Returns:
            The counters at this moment.

        Raises:
            StateError: The handle is closed (``closed``, ``forked``).
            StorageError: Storage failed (``storage``).

        Example:
            >>> with DatagenStore.open("memory://doc-log-stats") as store:
            ...     _ = store.open_stream("tea", run_id="r1")
            ...     store.stats().rows
            1
        """
        return self._noted(StoreStats(**self._native.stats()))

    def close(self) -> None:
        """Seals, and gives up the handle. Closing twice is fine.

        Raises:
            StateError: The handle was opened before a fork (``forked``).
            StorageError: The last events could not be sealed (``storage``). They stay durable.

        Example:
            >>> store = DatagenStore.open("memory://doc-log-close")
            >>> store.close()
            >>> store.closed
            True
        """
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()
