//! Converts errors of the library to Python's exceptions, with fields named as Python's arguments.

use std::borrow::Cow;

use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::message::worded;

/// The Python argument that sets a field.
fn argument(field: &str) -> Cow<'static, str> {
    match field {
        "sort" => "`smrkit trace convert --sort`, or by sorting the table by its times".into(),
        other => other.to_string().into(),
    }
}

/// The name of the exception class for an error.
fn class(error: &Error) -> &'static str {
    match error.cause() {
        Error::Usage(_) => "UsageError",
        Error::Impossible(_) => "ImpossibleError",
        Error::Input(_) | Error::NoRoom(_) | Error::Io { writing: false, .. } => "InputError",
        Error::Fault(_) => "FaultError",
        _ => "Error",
    }
}

/// The exception for an error.
pub fn exception(py: Python, error: &Error) -> PyErr {
    let made = || py.import("smrkit._errors")?.getattr(class(error))?.call1((worded(&error.message(), &argument),));
    made().map_or_else(|failed| failed, PyErr::from_value)
}

/// A result whose error is an exception.
pub trait Raised<T> {
    /// Raises the error.
    fn raised(self, py: Python) -> PyResult<T>;
}

impl<T> Raised<T> for Result<T, Error> {
    fn raised(self, py: Python) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
