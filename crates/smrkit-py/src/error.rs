//! Converts errors of the library to Python's exceptions. Messages name options as Python's arguments.

use std::borrow::Cow;

use pyo3::prelude::*;
use smrkit::error::Error;
use smrkit::message::worded;

/// The text that replaces the placeholder of an option in a message: its Python argument, or what to do if there is none.
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
    let message = worded(&error.message(), &argument);
    let create = || py.import("smrkit._errors")?.getattr(class(error))?.call1((message,));
    create().map_or_else(|import_error| import_error, PyErr::from_value)
}

/// The text of a JSON file, from what the serializer returns.
pub fn json_file(py: Python, json: serde_json::Result<String>) -> PyResult<String> {
    Ok(json.map_err(json_error).raised(py)? + "\n")
}

/// The error for JSON that can't be written or read.
pub fn json_error(error: serde_json::Error) -> Error {
    Error::Usage(error.to_string())
}

/// Converts a result's error to an exception.
pub trait Raised<T> {
    /// The result with the exception as its error.
    fn raised(self, py: Python) -> PyResult<T>;
}

impl<T> Raised<T> for Result<T, Error> {
    fn raised(self, py: Python) -> PyResult<T> {
        self.map_err(|error| exception(py, &error))
    }
}
