//! The overview and the item tree as dicts.

use std::collections::BTreeMap;

use lance_context_spec::datagen::{FailureGroup, ItemId, ItemTree, Overview};
use pyo3::inspect::PyStaticExpr;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use super::folded;
use super::item_id::PyItemId;
use crate::rows::ROW_TYPE;

/// The keys of `lance_context.Overview`.
pub struct PyOverview(pub Overview);

impl<'py> IntoPyObject<'py> for PyOverview {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = ROW_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Overview {
            items,
            running,
            completed,
            filtered,
            failed,
            failures,
            failures_by_error_type,
            failures_by_run,
            completed_steps,
            unreadable,
        } = self.0;
        let overview = PyDict::new(py);
        overview.set_item("items", items)?;
        overview.set_item("running", running)?;
        overview.set_item("completed", completed)?;
        overview.set_item("filtered", filtered)?;
        overview.set_item("failed", failed)?;
        overview.set_item("failures", failures)?;
        overview.set_item("failures_by_error_type", groups(py, &failures_by_error_type)?)?;
        overview.set_item("failures_by_run", groups(py, &failures_by_run)?)?;
        overview.set_item("completed_steps", completed_steps)?;
        overview.set_item("unreadable", unreadable)?;
        Ok(overview)
    }
}

fn groups<'py>(py: Python<'py>, groups: &BTreeMap<String, FailureGroup>) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    for (name, FailureGroup { count, samples }) in groups {
        let group = PyDict::new(py);
        group.set_item(intern!(py, "count"), count)?;
        let samples = samples.iter().map(|sample| folded::failure(py, sample)).collect::<PyResult<Vec<_>>>()?;
        group.set_item(intern!(py, "samples"), samples)?;
        written.set_item(name, group)?;
    }
    Ok(written)
}

/// The parts of `lance_context.ItemTree`.
pub struct PyTree(pub ItemTree);

impl<'py> IntoPyObject<'py> for PyTree {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = ROW_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let tree = PyDict::new(py);
        tree.set_item("roots", ids(py, &self.0.roots)?)?;
        tree.set_item("orphans", ids(py, &self.0.orphans)?)?;
        let nodes = PyList::empty(py);
        for node in self.0.nodes.values() {
            let written = PyDict::new(py);
            written.set_item(intern!(py, "item"), folded::item(py, &node.item)?)?;
            written.set_item(intern!(py, "children"), ids(py, &node.children)?)?;
            nodes.append(written)?;
        }
        tree.set_item("nodes", nodes)?;
        tree.set_item("total", self.0.total)?;
        tree.set_item("text", self.0.to_string())?;
        Ok(tree)
    }
}

fn ids<'py>(py: Python<'py>, ids: &[ItemId]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, ids.iter().map(|id| Py::new(py, PyItemId(id.clone()))).collect::<PyResult<Vec<_>>>()?)
}
