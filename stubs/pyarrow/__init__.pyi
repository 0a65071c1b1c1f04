# The few names that the tests use.
from typing import Any

class Schema:
    names: list[str]

class RecordBatch:
    num_rows: int
    schema: Schema
    def to_pylist(self) -> list[dict[str, Any]]: ...
    def validate(self, *, full: bool = False) -> None: ...

class Table:
    num_rows: int
    def to_pylist(self) -> list[dict[str, Any]]: ...
    @classmethod
    def from_batches(cls, batches: list[RecordBatch]) -> Table: ...

def record_batch(data: object) -> RecordBatch: ...
def schema(fields: object) -> Schema: ...
