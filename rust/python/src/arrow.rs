//! Arrow data across the border, by the Arrow `PyCapsule` interface.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use arrow::array::{Array, RecordBatch, StructArray};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema};
use lance_context_spec::Error;
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors;

/// Rows as Arrow columns. Libraries that speak the Arrow `PyCapsule` interface take it as it is, without a
/// copy: `pyarrow.record_batch(batch)`, `polars.DataFrame(batch)`.
#[pyclass(frozen, name = "RecordBatch", module = "lance_context")]
pub struct PyRecordBatch(pub RecordBatch);

#[pymethods]
impl PyRecordBatch {
    /// How many rows it has.
    #[getter]
    fn num_rows(&self) -> usize {
        self.0.num_rows()
    }

    /// The names of its columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.0.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    fn __len__(&self) -> usize {
        self.0.num_rows()
    }

    fn __repr__(&self) -> String {
        format!("<RecordBatch of {} rows: {}>", self.0.num_rows(), self.column_names().join(", "))
    }

    /// The schema as a capsule.
    #[pyo3(signature = () -> "object")]
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.0.schema_ref().as_ref());
        PyCapsule::new_with_value(py, schema.map_err(|error| failed(py, error))?, c"arrow_schema")
    }

    /// Schema and data as capsules. A requested schema is a wish, and this one is not granted.
    #[pyo3(signature = (requested_schema: "object" = None) -> "tuple[object, object]")]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyCapsule>, Bound<'py, PyCapsule>)> {
        drop(requested_schema);
        let rows = StructArray::from(self.0.clone());
        let array = PyCapsule::new_with_value(py, FFI_ArrowArray::new(&rows.to_data()), c"arrow_array")?;
        Ok((self.__arrow_c_schema__(py)?, array))
    }
}

fn failed(py: Python<'_>, error: arrow::error::ArrowError) -> PyErr {
    let message = "the columns cannot be exported".to_owned();
    errors::to_python(py, Error::Internal { message, source: Some(Box::new(error)) })
}
