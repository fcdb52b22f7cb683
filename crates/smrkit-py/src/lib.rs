//! The native module behind the Python package `smrkit`: runs, tables and layers as Python sees them.
//!
//! Users call the package `python/smrkit`, which has the documentation. Names here are private to it. Modules are in the order of their
//! dependencies.

mod error;
mod watch;
mod requests;
mod rows;
mod outcomes;
mod layer;
mod run;
mod answers;
mod sweep;
mod catalogue;
#[cfg(target_os = "linux")]
mod command;

#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::answers::{Advice, Fleet, advise, fleet, fleet_by, fleet_work};
    #[pymodule_export]
    use crate::catalogue::{drive_file, drives, layers, options};
    #[pymodule_export]
    use crate::catalogue::{trace_generate, trace_info, trace_read, trace_write};
    #[cfg(target_os = "linux")]
    #[pymodule_export]
    use crate::command::command;
    #[pymodule_export]
    #[allow(non_upper_case_globals, reason = "what Python calls it")]
    const __version__: &str = smrkit::VERSION;
    #[pymodule_export]
    use crate::layer::{Buffer, Geometry, LentDisk, register};
    #[pymodule_export]
    use crate::outcomes::Outcomes;
    #[pymodule_export]
    use crate::requests::Requests;
    #[pymodule_export]
    use crate::rows::Rows;
    #[pymodule_export]
    use crate::run::compare;
    #[pymodule_export]
    use crate::sweep::{SweepPlan, compute, results, statistics, sweep, sweep_page, sweep_text};
}
