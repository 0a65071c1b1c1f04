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
    let mut stream = unsafe { FFI_ArrowArrayStream::from_raw(stream.as_ptr()) };
    let arrays = arrays_of(&mut stream).map_err(|error| no_rows(py, &error))?;
    arrays.into_iter().map(|data| table(py, data)).collect()
}

/// The arrays of a stream. Arrow's own reader makes batches of them before their buffers can be aligned.
fn arrays_of(stream: &mut FFI_ArrowArrayStream) -> Result<Vec<ArrayData>, ArrowError> {
    let (Some(get_schema), Some(get_next)) = (stream.get_schema, stream.get_next) else {
        return Err(ArrowError::CDataInterface("the stream was read before".into()));
    };
    let mut schema = FFI_ArrowSchema::empty();
    // SAFETY: the functions of a stream that is not released take it and a place for what they return.
    #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
    let code = unsafe { get_schema(stream, &raw mut schema) };
    succeeded(stream, code)?;
    let data_type = DataType::try_from(&schema)?;
    let mut arrays = Vec::new();
    loop {
        let mut array = FFI_ArrowArray::empty();
        // SAFETY: as above.
        #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
        let code = unsafe { get_next(stream, &raw mut array) };
        succeeded(stream, code)?;
        if array.is_released() {
            return Ok(arrays);
        }
        // SAFETY: every array of a stream is of its schema, as the interface promises.
        #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
        arrays.push(unsafe { ffi::from_ffi_and_data_type(array, data_type.clone()) }?);
    }
}

fn succeeded(stream: &mut FFI_ArrowArrayStream, code: i32) -> Result<(), ArrowError> {
    if code == 0 {
        return Ok(());
    }
    // SAFETY: the function takes the stream, and returns null or a text that lives until the next call.
    #[expect(unsafe_code, reason = "Arrow data cross the border as C structures")]
    let message = stream.get_last_error.and_then(|get_last_error| unsafe {
        let message = get_last_error(stream);
        (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned())
    });
    Err(ArrowError::CDataInterface(message.unwrap_or_else(|| format!("error {code} of the operating system"))))
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
    table(py, data.map_err(|error| no_rows(py, &error))?)
}

/// The columns of a struct without nulls. Buffers that the sender did not align, such as those of decimals in a
/// file, are copied.
fn table(py: Python<'_>, mut data: ArrayData) -> PyResult<RecordBatch> {
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
