"""Record batches as tables of other libraries, each imported only when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, cast

from lance_context._native import RecordBatch

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow


def arrow_table(batches: Iterable[RecordBatch]) -> pyarrow.Table:
    """Makes one table of at least one batch, without a copy."""
    import pyarrow

    return pyarrow.Table.from_batches([pyarrow.record_batch(batch) for batch in batches])


def pandas_frame(table: pyarrow.Table) -> pandas.DataFrame:
    """Makes a frame whose types do not depend on whether a column has nulls."""
    import pandas
    import pyarrow

    dtypes: dict[object, object] = {pyarrow.bool_(): pandas.BooleanDtype()}
    for bits, signed, unsigned in (
        (8, pandas.Int8Dtype(), pandas.UInt8Dtype()),
        (16, pandas.Int16Dtype(), pandas.UInt16Dtype()),
        (32, pandas.Int32Dtype(), pandas.UInt32Dtype()),
        (64, pandas.Int64Dtype(), pandas.UInt64Dtype()),
    ):
        dtypes[pyarrow.type_for_alias(f"int{bits}")] = signed
        dtypes[pyarrow.type_for_alias(f"uint{bits}")] = unsigned
    return cast("pandas.DataFrame", table.to_pandas(types_mapper=dtypes.get))


def polars_frame(table: pyarrow.Table) -> polars.DataFrame:
    """Makes a frame, without a copy where the types allow it."""
    import polars

    return polars.DataFrame(table)
