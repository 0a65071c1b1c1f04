//! The overview and the item tree as the frozen classes of the Python package.

use std::collections::BTreeMap;

use lance_context_spec::datagen::{FailureGroup, ItemId, ItemTree, Overview};
use pyo3::inspect::PyStaticExpr;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use pyo3::{IntoPyObjectExt, type_hint_identifier};

use super::folded::{self, MODULE, each};
use super::item_id::PyItemId;
use super::record::Record;
use crate::rows::PausedCollector;

static OVERVIEW: Record<10> = Record::new(
    MODULE,
    "Overview",
    [
        "items",
        "running",
        "completed",
        "filtered",
        "failed",
        "failures",
        "failures_by_error_type",
        "failures_by_run",
        "completed_steps",
        "unreadable",
    ],
);
static GROUP: Record<2> = Record::new(MODULE, "FailureGroup", ["count", "samples"]);
static NODE: Record<2> = Record::new("lance_context.tree", "ItemNode", ["item", "children"]);
static TREE: Record<5> = Record::new("lance_context.tree", "ItemTree", ["roots", "orphans", "nodes", "total", "text"]);

/// Counts that become an `Overview`.
pub struct PyOverview(pub Overview);

impl<'py> IntoPyObject<'py> for PyOverview {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_identifier!("lance_context.datagen_types", "Overview");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let overview = self.0;
        let parts = [
            overview.items.into_bound_py_any(py)?,
            overview.running.into_bound_py_any(py)?,
            overview.completed.into_bound_py_any(py)?,
            overview.filtered.into_bound_py_any(py)?,
            overview.failed.into_bound_py_any(py)?,
            overview.failures.into_bound_py_any(py)?,
            groups(py, &overview.failures_by_error_type)?.into_any(),
            groups(py, &overview.failures_by_run)?.into_any(),
            overview.completed_steps.into_bound_py_any(py)?,
            overview.unreadable.into_bound_py_any(py)?,
        ];
        OVERVIEW.make(py, parts)
    }
}

fn groups<'py>(py: Python<'py>, groups: &BTreeMap<String, FailureGroup>) -> PyResult<Bound<'py, PyDict>> {
    let written = PyDict::new(py);
    for (name, FailureGroup { count, samples }) in groups {
        let samples = each(py, samples, folded::failure)?.into_any();
        written.set_item(name, GROUP.make(py, [count.into_bound_py_any(py)?, samples])?)?;
    }
    Ok(written)
}

/// Items that become an `ItemTree`.
pub struct PyTree(pub ItemTree);

impl<'py> IntoPyObject<'py> for PyTree {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_identifier!("lance_context.tree", "ItemTree");

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let _collector = PausedCollector::new(py)?;
        let nodes = PyDict::new(py);
        for (id, node) in &self.0.nodes {
            let parts = [folded::item(py, &node.item)?, ids(py, &node.children)?.into_any()];
            nodes.set_item(id.as_str(), NODE.make(py, parts)?)?;
        }
        let parts = [
            ids(py, &self.0.roots)?.into_any(),
            ids(py, &self.0.orphans)?.into_any(),
            nodes.into_any(),
            self.0.total.into_bound_py_any(py)?,
            self.0.to_string().into_bound_py_any(py)?,
        ];
        TREE.make(py, parts)
    }
}

fn ids<'py>(py: Python<'py>, ids: &[ItemId]) -> PyResult<Bound<'py, PyList>> {
    PyList::new(py, ids.iter().map(|id| Py::new(py, PyItemId(id.clone()))).collect::<PyResult<Vec<_>>>()?)
}
