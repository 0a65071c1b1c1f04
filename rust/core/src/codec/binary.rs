//! Binary cells: copied one behind another, except a large one that is alone in its batch.

use arrow::array::{LargeBinaryArray, NullBufferBuilder};
use arrow::buffer::{Buffer, OffsetBuffer, ScalarBuffer};
use arrow::error::ArrowError;
use bytes::Bytes;

/// Cells back to back. While only one has bytes, they can be the caller's own.
pub(super) struct BinaryCells {
    data: Data,
    /// Where each cell begins, and where the last one ends.
    offsets: Vec<i64>,
    nulls: NullBufferBuilder,
}

enum Data {
    Copied(Vec<u8>),
    Shared(Bytes),
}

impl BinaryCells {
    pub(super) fn new(rows: usize) -> Self {
        let mut offsets = Vec::with_capacity(rows + 1);
        offsets.push(0);
        Self { data: Data::Copied(Vec::new()), offsets, nulls: NullBufferBuilder::new(rows) }
    }

    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    pub(super) fn append_null(&mut self) {
        self.end_cell();
        self.nulls.append_null();
    }

    pub(super) fn append(&mut self, bytes: &[u8]) {
        if let Data::Shared(shared) = &self.data
            && !bytes.is_empty()
        {
            self.data = Data::Copied(shared.to_vec());
        }
        if let Data::Copied(copied) = &mut self.data {
            copied.extend_from_slice(bytes);
        }
        self.end_cell();
        self.nulls.append_non_null();
    }

    /// As [`append`](Self::append); the bytes are not copied if no other cell has any.
    pub(super) fn append_shared(&mut self, bytes: Bytes) {
        match &self.data {
            Data::Copied(copied) if copied.is_empty() => {
                self.data = Data::Shared(bytes);
                self.end_cell();
                self.nulls.append_non_null();
            }
            _ => self.append(&bytes),
        }
    }

    fn end_cell(&mut self) {
        let end = match &self.data {
            Data::Copied(copied) => copied.len(),
            Data::Shared(shared) => shared.len(),
        };
        // Nothing in memory has more bytes than an i64 counts.
        self.offsets.push(i64::try_from(end).unwrap_or(i64::MAX));
    }

    pub(super) fn finish(mut self) -> Result<LargeBinaryArray, ArrowError> {
        let data = match self.data {
            Data::Copied(copied) => Buffer::from_vec(copied),
            Data::Shared(shared) => Buffer::from(shared),
        };
        LargeBinaryArray::try_new(OffsetBuffer::new(ScalarBuffer::from(self.offsets)), data, self.nulls.finish())
    }
}
