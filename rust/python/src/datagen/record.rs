//! Instances of the frozen classes of the Python package, made without calling them.
//!
//! The `__init__` of a frozen dataclass sets one attribute after another in Python, which takes most of the time of a
//! fold with many values. Setting them from here is what it does, several times faster.

use pyo3::exceptions::PyTypeError;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyString, PyType};
use pyo3::{ffi, intern, prelude::*};

/// One of the classes, by its module and name, with its `N` fields in the order of their declaration.
pub struct Record<const N: usize> {
    module: &'static str,
    class: &'static str,
    fields: [&'static str; N],
    known: PyOnceLock<(Py<PyType>, [Py<PyString>; N])>,
}

impl<const N: usize> Record<N> {
    pub const fn new(module: &'static str, class: &'static str, fields: [&'static str; N]) -> Self {
        Self { module, class, fields, known: PyOnceLock::new() }
    }

    /// An instance with those values, in the order of the fields.
    ///
    /// # Errors
    ///
    /// `TypeError` when the class has other fields.
    #[expect(unsafe_code, reason = "a frozen class refuses every other way to set an attribute, or is slow")]
    pub fn make<'py>(&self, py: Python<'py>, values: [Bound<'py, PyAny>; N]) -> PyResult<Bound<'py, PyAny>> {
        let (class, fields) = self.known.get_or_try_init(py, || self.find(py))?;
        // SAFETY: what `object.__new__` does; the class is a Python class without fields of another kind than slots.
        let made = unsafe {
            let made = ffi::PyType_GenericAlloc(class.bind(py).as_type_ptr(), 0);
            Bound::from_owned_ptr_or_err(py, made)?
        };
        for (field, value) in fields.iter().zip(values) {
            // SAFETY: what `object.__setattr__` does, with three objects that are alive.
            if unsafe { ffi::PyObject_GenericSetAttr(made.as_ptr(), field.as_ptr(), value.as_ptr()) } != 0 {
                return Err(PyErr::fetch(py));
            }
        }
        Ok(made)
    }

    fn find(&self, py: Python<'_>) -> PyResult<(Py<PyType>, [Py<PyString>; N])> {
        let class = py.import(self.module)?.getattr(self.class)?.cast_into::<PyType>()?;
        let declared: Vec<String> = class.getattr(intern!(py, "__match_args__"))?.extract()?;
        if declared != self.fields {
            let message = format!("`{}` has the fields {declared:?} instead of {:?}", self.class, self.fields);
            return Err(PyTypeError::new_err(message));
        }
        Ok((class.unbind(), self.fields.map(|field| PyString::intern(py, field).unbind())))
    }
}
