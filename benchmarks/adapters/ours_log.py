"""The item log of lance-context: single items by its stream writer, many by `DatagenStore.run`."""

from adapters.base import Answer, ItemWriter
from data import check
from item_data import RUN_ID, STEP, Counts, ItemState, Program, Step, Tree
from lance_context import DatagenStore, DatagenStreamWriter, FieldWrite, FoldedItem, ItemStream, StepPosition


class OurItem:
    def __init__(self, store: DatagenStore, writer: DatagenStreamWriter) -> None:
        self._store = store
        self._writer = writer

    def checkpoint(self, step: Step) -> None:
        writes: list[FieldWrite] = [
            {"field_name": field.name, "field_type": field.kind, "op": field.op, "value": field.value}
            for field in step.fields
        ]
        position: StepPosition = {"step_name": STEP, "iteration": (step.number,)}
        events = self._writer.step_completed(position, writes)
        result = self._store.append_checkpoint(events)
        check(result.new == len(events), f"a checkpoint of {len(events)} events wrote {result.new}")

    def complete(self) -> None:
        self._store.append(self._writer.item_terminal())


class OurLog:
    def __init__(self, store: DatagenStore) -> None:
        self._store = store

    def start(self, item_id: str) -> ItemWriter:
        return OurItem(self._store, self._store.open_stream(item_id, run_id=RUN_ID))

    def ingest(self, program: Program, concurrency: int) -> None:
        def work(item: ItemStream) -> None:
            for one in program[str(item.item_id)]:
                with item.step(STEP, iteration=one.number) as step:
                    for field in one.fields:
                        write = step.append if field.op == "append" else step.set
                        write(field.name, field.value)

        report = self._store.run(program, work, run_id=RUN_ID, concurrency=concurrency)
        check(report.completed == len(program), f"{report.completed} items of {len(program)} completed: {report}")

    def fold(self, item_id: str) -> Answer[ItemState | None]:
        folded = self._store.fold_item(item_id)
        return lambda: None if folded is None else _state(folded)

    def overview(self) -> Answer[Counts]:
        overview = self._store.overview()
        return lambda: Counts("items", overview.completed, overview.completed_steps)

    def tree(self, root: str, max_items: int) -> Answer[Tree]:
        tree = self._store.item_tree(root, max_items=max_items)
        return lambda: Tree(
            {item_id: _state(node.item) for item_id, node in tree.nodes.items()},
            {item_id: [str(child) for child in node.children] for item_id, node in tree.nodes.items()},
        )

    def maintain(self) -> None:
        self._store.optimize()

    def close(self) -> None:
        self._store.close()


def _state(folded: FoldedItem) -> ItemState:
    numbers = [number for position in folded.completed for number in position.get("iteration", ())]
    return ItemState(folded.status, numbers, {name: field.values for name, field in folded.fields.items()})
