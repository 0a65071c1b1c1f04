//! Item ids as Python values.

use lance_context_spec::datagen::ItemId;
use pyo3::exceptions::PyTypeError;
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::type_object::PyTypeInfo;
use pyo3::types::{PyString, PyTuple};
use pyo3::{Borrowed, type_hint_union};

use crate::{errors, value};

/// The id of an item: `root`, or `root/step:branch/step:branch…` for one that was expanded from another.
///
/// Inside a segment `/`, `:`, `%` and control characters are percent-encoded, so an id has exactly one text. Ids are
/// equal when their texts are (also to a plain `str`), hash like them, and sort as the tree in preorder: a parent
/// before its children, branches by number. They can be pickled.
///
/// Text that comes from elsewhere, such as a path or a url, is a key: `from_source_key` makes an id of it.
#[pyclass(frozen, name = "DatagenItemId", module = "lance_context")]
pub struct PyItemId(pub ItemId);

#[pymethods]
impl PyItemId {
    /// Reads id text, as `parse` does.
    #[new]
    fn new(text: ItemIdArg) -> Self {
        Self(text.0)
    }

    /// The id of the root item for a raw key, such as a file path or a url.
    #[staticmethod]
    fn from_source_key(py: Python<'_>, key: &str) -> PyResult<Self> {
        ItemId::from_source_key(key).map(Self).map_err(|error| errors::to_python(py, error))
    }

    /// Reads id text; raises `ValueError` for text that is no id.
    #[staticmethod]
    fn parse(text: ItemIdArg) -> Self {
        Self(text.0)
    }

    /// The id of child number `branch` that step `step` expands this item into.
    fn child(&self, py: Python<'_>, step: &str, branch: i64) -> PyResult<Self> {
        self.0.child(step, branch).map(Self).map_err(|error| errors::to_python(py, error))
    }

    /// The item that this one was expanded from; `None` for a root.
    #[getter]
    fn parent(&self) -> Option<Self> {
        self.0.parent().map(Self)
    }

    /// The root item; a root's is itself.
    #[getter]
    fn root(&self) -> Self {
        Self(self.0.root())
    }

    /// The step that expanded the parent into this item; `None` for a root.
    #[getter]
    fn origin_step(&self) -> Option<String> {
        self.0.origin_step()
    }

    /// The number of this item among its step's children; `None` for a root.
    #[getter]
    fn branch_idx(&self) -> Option<i64> {
        self.0.branch_idx()
    }

    /// Whether the item has no parent.
    #[getter]
    fn is_root(&self) -> bool {
        self.0.is_root()
    }

    /// The raw key of the root.
    #[getter]
    fn source_key(&self) -> String {
        self.0.source_key()
    }

    /// How many steps below its root the item is.
    #[getter]
    fn depth(&self) -> usize {
        self.0.depth()
    }

    fn __str__(&self) -> &str {
        self.0.as_str()
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        Ok(format!("DatagenItemId({})", PyString::new(py, self.0.as_str()).repr()?))
    }

    /// That of the text, so that an id finds what is keyed by text.
    fn __hash__(&self, py: Python<'_>) -> PyResult<isize> {
        PyString::new(py, self.0.as_str()).hash()
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> bool {
        match other.cast::<Self>() {
            Ok(other) => self.0 == other.get().0,
            Err(_) => {
                other.cast::<PyString>().is_ok_and(|text| text.to_str().is_ok_and(|text| text == self.0.as_str()))
            }
        }
    }

    fn __lt__(&self, other: PyRef<'_, Self>) -> bool {
        self.0 < other.0
    }

    fn __le__(&self, other: PyRef<'_, Self>) -> bool {
        self.0 <= other.0
    }

    fn __gt__(&self, other: PyRef<'_, Self>) -> bool {
        self.0 > other.0
    }

    fn __ge__(&self, other: PyRef<'_, Self>) -> bool {
        self.0 >= other.0
    }

    #[pyo3(signature = () -> "tuple[object, tuple[str]]")]
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyTuple>)> {
        let parse = Self::type_object(py).getattr(intern!(py, "parse"))?;
        Ok((parse, PyTuple::new(py, [self.0.as_str()])?))
    }
}

/// An argument `str | DatagenItemId`; a str is id text.
pub struct ItemIdArg(pub ItemId);

impl<'a, 'py> FromPyObject<'a, 'py> for ItemIdArg {
    type Error = PyErr;

    const INPUT_TYPE: PyStaticExpr = type_hint_union!(PyString::TYPE_HINT, PyItemId::TYPE_HINT);

    fn extract(object: Borrowed<'a, 'py, PyAny>) -> PyResult<Self> {
        if let Ok(id) = object.cast::<PyItemId>() {
            return Ok(Self(id.get().0.clone()));
        }
        let Ok(text) = object.cast::<PyString>() else {
            let got = value::type_name(&object);
            return Err(PyTypeError::new_err(format!(
                "an item id is a `str` of id text or a `DatagenItemId`, not {got}"
            )));
        };
        ItemId::parse(text.to_str()?).map(Self).map_err(|error| errors::to_python(object.py(), error))
    }
}
