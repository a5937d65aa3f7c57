//! The SSD model for Python: `wattbell_ssd._model`. The package's `__init__.pyi` documents it for users.

use pyo3::create_exception;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyInt};
use std::sync::{Mutex, PoisonError};
use wattbell_ssd::{Condition, Endpoint, EndpointError, EndpointOptions, GuardedEndpoint, Profile, LAST_PS};

create_exception!(wattbell_ssd, DriveError, PyValueError, "Reports in one line a call that the drive refuses.");

fn refused(error: EndpointError) -> PyErr {
    DriveError::new_err(error.to_string())
}

/// A time of Python; one that is too large or negative is an error of ours, as one that goes back is.
fn time_ps(value: &Bound<'_, PyAny>) -> PyResult<u64> {
    if !value.is_instance_of::<PyInt>() {
        return Err(PyTypeError::new_err("a time is an int, in picoseconds"));
    }
    let out = |_| DriveError::new_err(format!("time {value} ps: times are from 0 to {LAST_PS} ps"));
    value.extract::<u64>().map_err(out)
}

/// An NVMe SSD model with its link up, at TLP level.
#[pyclass(module = "wattbell_ssd")]
struct Drive {
    /// The drive, locked only because Python may see it in two threads.
    endpoint: Mutex<GuardedEndpoint>,
}

impl Drive {
    fn with<T>(&mut self, work: impl FnOnce(&mut Endpoint) -> Result<T, EndpointError>) -> PyResult<T> {
        self.endpoint.get_mut().unwrap_or_else(PoisonError::into_inner).with(work).map_err(refused)
    }
}

#[pymethods]
impl Drive {
    #[new]
    #[pyo3(signature = (profile = "intel-660p-1tb", *, seed = 0, condition = "test-data", store = true, rail = false, ready_us = None))]
    fn new(
        profile: &str,
        seed: u64,
        condition: &str,
        store: bool,
        rail: bool,
        ready_us: Option<u32>,
    ) -> PyResult<Self> {
        let condition = match condition {
            "test-data" => Condition::TestData,
            "full" => Condition::Full,
            "empty" => Condition::Empty,
            other => return Err(DriveError::new_err(format!("condition `{other}`: it is test-data, full or empty"))),
        };
        let options = EndpointOptions { seed, condition, store, rail, ready_us };
        Ok(Self { endpoint: Mutex::new(GuardedEndpoint::new(profile, options).map_err(refused)?) })
    }

    fn push(&mut self, #[pyo3(from_py_with = time_ps)] time_ps: u64, tlp: &[u8]) -> PyResult<()> {
        self.with(|endpoint| endpoint.receive(time_ps, tlp))
    }

    fn advance<'py>(
        &mut self,
        py: Python<'py>,
        #[pyo3(from_py_with = time_ps)] time_ps: u64,
    ) -> PyResult<Vec<(u64, Bound<'py, PyBytes>)>> {
        let sent = self.with(|endpoint| {
            endpoint.advance(time_ps)?;
            Ok(std::iter::from_fn(|| endpoint.take()).collect::<Vec<_>>())
        });
        Ok(sent?.into_iter().map(|(at, tlp)| (at, PyBytes::new(py, &tlp))).collect())
    }

    fn next_ps(&mut self) -> PyResult<Option<u64>> {
        self.with(|endpoint| Ok(endpoint.next_ps()))
    }

    fn take_rail(&mut self) -> PyResult<Vec<(u64, i64, i64)>> {
        self.with(|endpoint| {
            let step = |(at, rail): (u64, wattbell_ssd::Rail)| (at, rail.current_na, rail.voltage_nv);
            Ok(std::iter::from_fn(|| endpoint.take_rail()).map(step).collect())
        })
    }

    #[getter]
    fn now_ps(&mut self) -> PyResult<u64> {
        self.with(|endpoint| Ok(endpoint.now_ps()))
    }

    #[getter]
    fn energy_pj(&mut self) -> PyResult<u64> {
        self.with(|endpoint| Ok(endpoint.energy_pj()))
    }

    #[getter]
    fn power_nw(&mut self) -> PyResult<u64> {
        self.with(|endpoint| Ok(endpoint.power_nw()))
    }

    #[getter]
    fn link_state(&mut self) -> PyResult<String> {
        self.with(|endpoint| Ok(format!("{:?}", endpoint.link_state()).replace('_', ".")))
    }

    #[getter]
    fn power_state(&mut self) -> PyResult<u8> {
        self.with(|endpoint| Ok(endpoint.power_state()))
    }

    #[getter]
    fn outstanding_reads(&mut self) -> PyResult<usize> {
        self.with(|endpoint| Ok(endpoint.outstanding_reads()))
    }

    #[getter]
    fn discarded_tlps(&mut self) -> PyResult<u64> {
        self.with(|endpoint| Ok(endpoint.discarded_tlps()))
    }
}

#[pyfunction]
fn profiles() -> Vec<&'static str> {
    Profile::built_in().collect()
}

#[pyfunction]
fn profile_text(name: &str) -> PyResult<&'static str> {
    Profile::built_in_text(name).map_err(|error| refused(error.into()))
}

#[pymodule]
fn _model(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("DriveError", module.py().get_type::<DriveError>())?;
    module.add_class::<Drive>()?;
    module.add_function(wrap_pyfunction!(profiles, module)?)?;
    module.add_function(wrap_pyfunction!(profile_text, module)?)
}
