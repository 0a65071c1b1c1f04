//! Arrow data across the border, by the Arrow `PyCapsule` interface.
//! <https://arrow.apache.org/docs/format/CDataInterface/PyCapsuleInterface.html>

use std::ffi::{CStr, c_int};
use std::ptr::NonNull;

use arrow::array::{Array, ArrayData, RecordBatch, StructArray};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::ffi::{self, FFI_ArrowArray, FFI_ArrowSchema};
use arrow::ffi_stream::FFI_ArrowArrayStream;
use lance_context_core::codec;
use lance_context_core::storage::MAX_ADD_ROWS;
use lance_context_spec::{Error, SchemaSpec};
use pyo3::exceptions::PyTypeError;
use pyo3::intern;
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

/// The batches of an object that speaks the Arrow `PyCapsule` interface; `None` for any other object.
///
/// # Errors
///
/// What the object raises, `TypeError` for one that hands out something else, `RowError` for data that are no rows.
pub fn read(object: &Bound<'_, PyAny>) -> PyResult<Option<Vec<RecordBatch>>> {
    let py = object.py();
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_stream__"))? {
        return read_stream(&method.call0()?).map(Some);
    }
    if let Some(method) = object.getattr_opt(intern!(py, "__arrow_c_array__"))? {
        let (schema, array) = method.call0()?.extract::<(Bound<'_, PyAny>, Bound<'_, PyAny>)>()?;
        return Ok(Some(vec![read_array(&schema, &array)?]));
    }
    Ok(None)
}

/// The rows of `batches` as one batch of the store's columns.
///
/// # Errors
///
/// `RowError` with row and column where they do not fit, and for more rows than one `add` takes.
pub fn conform(py: Python<'_>, spec: &SchemaSpec, batches: &[RecordBatch]) -> PyResult<RecordBatch> {
    let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
    let conformed = if rows > MAX_ADD_ROWS {
        let (got, limit) = (format!("{rows} rows"), format!("{MAX_ADD_ROWS} rows"));
        Err(Error::BatchTooLarge { got, limit })
    } else {
        codec::conform(spec, batches)
    };
    conformed.map_err(|error| errors::to_python(py, error))
}

fn read_stream(capsule: &Bound<'_, PyAny>) -> PyResult<Vec<RecordBatch>> {
    let py = capsule.py();
    let stream = pointer::<FFI_ArrowArrayStream>(capsule, c"arrow_array_stream")?;
    // SAFETY: a capsule of this name points to a stream, which `from_raw` moves out, leaving a released one behind;
    // the interface allows that, and the capsule lives until the end of this function.
    #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
    let stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let mut stream = Batches(stream);
    let schema = stream.schema().map_err(|error| no_rows(py, &error))?;
    let data_type = DataType::Struct(schema.fields().clone());
    let mut batches = Vec::new();
    while let Some(array) = stream.next().map_err(|error| no_rows(py, &error))? {
        // SAFETY: the array came from the stream whose schema this type is made of.
        #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
        let data = unsafe { ffi::from_ffi_and_data_type(array, data_type.clone()) };
        batches.push(record_batch(py, data.map_err(|error| no_rows(py, &error))?)?);
    }
    Ok(batches)
}

/// A stream of another library. Arrow's own reader panics where a buffer is not aligned as Rust wants it.
struct Batches(FFI_ArrowArrayStream);

impl Batches {
    fn schema(&mut self) -> Result<Schema, ArrowError> {
        let mut schema = FFI_ArrowSchema::empty();
        let (Some(get_schema), Some(_)) = (self.0.get_schema, self.0.release) else { return Err(released()) };
        // SAFETY: the stream is not released, and the interface has the callback fill the schema or return an error.
        #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
        let code = unsafe { get_schema(&raw mut self.0, &raw mut schema) };
        self.checked(code)?;
        Schema::try_from(&schema)
    }

    /// The next array; `None` behind the last.
    fn next(&mut self) -> Result<Option<FFI_ArrowArray>, ArrowError> {
        let mut array = FFI_ArrowArray::empty();
        let Some(get_next) = self.0.get_next else { return Err(released()) };
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
        let code = unsafe { get_next(&raw mut self.0, &raw mut array) };
        self.checked(code)?;
        Ok((!array.is_released()).then_some(array))
    }

    fn checked(&mut self, code: c_int) -> Result<(), ArrowError> {
        if code == 0 {
            return Ok(());
        }
        let mut message = format!("error {code}");
        if let Some(get_last_error) = self.0.get_last_error {
            // SAFETY: the stream is not released; the text, if there is one, lives until the next call on the stream.
            #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
            unsafe {
                let text = get_last_error(&raw mut self.0);
                if !text.is_null() {
                    message = CStr::from_ptr(text).to_string_lossy().into_owned();
                }
            }
        }
        Err(ArrowError::CDataInterface(message))
    }
}

fn released() -> ArrowError {
    ArrowError::CDataInterface("the stream was used before".to_owned())
}

fn read_array(schema: &Bound<'_, PyAny>, array: &Bound<'_, PyAny>) -> PyResult<RecordBatch> {
    let py = schema.py();
    let schema = pointer::<FFI_ArrowSchema>(schema, c"arrow_schema")?;
    let array = pointer::<FFI_ArrowArray>(array, c"arrow_array")?;
    // SAFETY: capsules of these names point to a schema, which is borrowed while its capsule lives, and to an array,
    // which `from_raw` moves out, leaving a released one behind. `from_ffi` trusts the two to belong together, as the
    // interface promises.
    #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
    let data = unsafe { ffi::from_ffi(FFI_ArrowArray::from_raw(array.as_ptr()), schema.as_ref()) };
    record_batch(py, data.map_err(|error| no_rows(py, &error))?)
}

/// The rows of a struct array. Buffers that are not aligned as Rust wants them are copied.
fn record_batch(py: Python<'_>, mut data: ArrayData) -> PyResult<RecordBatch> {
    if !matches!(data.data_type(), DataType::Struct(_)) || data.null_count() > 0 {
        let message = format!("an array of {} is no table; pass columns with names", data.data_type());
        return Err(errors::to_python(py, Error::InvalidRow { row: 0, message }));
    }
    data.align_buffers();
    Ok(RecordBatch::from(StructArray::from(data)))
}

fn pointer<T>(capsule: &Bound<'_, PyAny>, name: &'static CStr) -> PyResult<NonNull<T>> {
    let capsule = capsule.cast::<PyCapsule>().map_err(|_| {
        PyTypeError::new_err(format!("an Arrow object must hand out a capsule named `{}`", name.to_string_lossy()))
    })?;
    capsule.pointer_checked(Some(name)).map(NonNull::cast)
}

fn no_rows(py: Python<'_>, error: &ArrowError) -> PyErr {
    errors::to_python(py, Error::InvalidRow { row: 0, message: format!("the Arrow data cannot be read: {error}") })
}

fn failed(py: Python<'_>, error: ArrowError) -> PyErr {
    let message = "the columns cannot be exported".to_owned();
    errors::to_python(py, Error::Internal { message, source: Some(Box::new(error)) })
}
