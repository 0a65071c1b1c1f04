//! What operations report, as plain Python objects.

use std::convert::Infallible;

use lance_context_spec::{DoctorReport, Finding, MergeReport, OptimizeReport, Stats};
use pyo3::inspect::{PyStaticConstant, PyStaticExpr};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList, PyNone};
use pyo3::{Borrowed, type_hint_identifier, type_hint_subscript};

const REPORT_TYPE: PyStaticExpr = type_hint_subscript!(
    type_hint_identifier!("builtins", "dict"),
    type_hint_identifier!("builtins", "str"),
    type_hint_identifier!("typing", "Any")
);

/// The result of an operation that reports nothing: `None`, where `()` would be an empty tuple.
pub struct Done;

impl<'py> IntoPyObject<'py> for Done {
    type Target = PyNone;
    type Output = Borrowed<'py, 'py, PyNone>;
    type Error = Infallible;

    const OUTPUT_TYPE: PyStaticExpr = PyStaticExpr::Constant { value: PyStaticConstant::None };

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Infallible> {
        Ok(PyNone::get(py))
    }
}

/// The fields of `lance_context.MergeReport` by name.
pub struct PyMergeReport(pub MergeReport);

impl<'py> IntoPyObject<'py> for PyMergeReport {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = REPORT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let MergeReport { generations, rows, deleted, version } = self.0;
        let report = PyDict::new(py);
        report.set_item("generations", generations)?;
        report.set_item("rows", rows)?;
        report.set_item("deleted", deleted)?;
        report.set_item("version", version)?;
        Ok(report)
    }
}

/// The fields of `lance_context.OptimizeReport` by name.
pub struct PyOptimizeReport(pub OptimizeReport);

impl<'py> IntoPyObject<'py> for PyOptimizeReport {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = REPORT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let OptimizeReport {
            generations,
            fragments_removed,
            fragments_added,
            versions_removed,
            bytes_removed,
            version,
        } = self.0;
        let report = PyDict::new(py);
        report.set_item("generations", generations)?;
        report.set_item("fragments_removed", fragments_removed)?;
        report.set_item("fragments_added", fragments_added)?;
        report.set_item("versions_removed", versions_removed)?;
        report.set_item("bytes_removed", bytes_removed)?;
        report.set_item("version", version)?;
        Ok(report)
    }
}

/// The fields of each `lance_context.Finding` by name.
pub struct PyDoctorReport(pub DoctorReport);

impl<'py> IntoPyObject<'py> for PyDoctorReport {
    type Target = PyList;
    type Output = Bound<'py, PyList>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = type_hint_subscript!(type_hint_identifier!("builtins", "list"), REPORT_TYPE);

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let findings = PyList::empty(py);
        for Finding { severity, code, subject, message, repaired } in self.0.findings {
            let finding = PyDict::new(py);
            finding.set_item("severity", severity.name())?;
            finding.set_item("code", code)?;
            finding.set_item("subject", subject)?;
            finding.set_item("message", message)?;
            finding.set_item("repaired", repaired)?;
            findings.append(finding)?;
        }
        Ok(findings)
    }
}

/// The fields of `lance_context.StoreStats` by name.
pub struct PyStats(pub Stats);

impl<'py> IntoPyObject<'py> for PyStats {
    type Target = PyDict;
    type Output = Bound<'py, PyDict>;
    type Error = PyErr;

    const OUTPUT_TYPE: PyStaticExpr = REPORT_TYPE;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Self::Output> {
        let Stats {
            rows,
            base_rows,
            fragments,
            generations,
            generation_bytes,
            unsealed_rows,
            wal_bytes,
            wal_entries,
            version,
            versions,
            quarantined,
            seal_on_add,
            fsync,
            maintenance_error,
        } = self.0;
        let report = PyDict::new(py);
        report.set_item("rows", rows)?;
        report.set_item("base_rows", base_rows)?;
        report.set_item("fragments", fragments)?;
        report.set_item("generations", generations)?;
        report.set_item("generation_bytes", generation_bytes)?;
        report.set_item("unsealed_rows", unsealed_rows)?;
        report.set_item("wal_bytes", wal_bytes)?;
        report.set_item("wal_entries", wal_entries)?;
        report.set_item("version", version)?;
        report.set_item("versions", versions)?;
        report.set_item("quarantined", quarantined)?;
        report.set_item("seal_on_add", seal_on_add)?;
        report.set_item("fsync", fsync)?;
        report.set_item("maintenance_error", maintenance_error)?;
        Ok(report)
    }
}
