//! The one map from the core's errors to Python's exceptions.

use std::io;

use gristmill_audio::{DecodeError, Reason};
use gristmill_core::{
    Error, ErrorKind,
    shown::{MAX_MESSAGE, shown},
    store::errno_of,
};
use pyo3::{
    exceptions::{PyMemoryError, PyOSError, PyValueError},
    prelude::*,
    types::PyDict,
};

use crate::text::text;

pyo3::import_exception!(gristmill.errors, InternalError);

/// The exception for `error`. Classes of our own come from `gristmill.errors`.
pub(crate) fn into_py_err(py: Python<'_>, error: &Error) -> PyErr {
    match error.kind() {
        ErrorKind::Io(e) => {
            os_error(py, e, error).map_or_else(|failure| failure, |e| explained(py, e))
        }
        ErrorKind::OutOfMemory { .. } => PyMemoryError::new_err(error.to_string()),
        ErrorKind::Config(_) | ErrorKind::Closed => match text(py, &error.to_string()) {
            Ok(message) => explained(py, PyValueError::new_err(message.unbind())),
            Err(failure) => failure,
        },
        _ => ours(py, error).unwrap_or_else(|failure| failure),
    }
}

/// The same with a note where its message is explained. Classes of our own add theirs themselves.
fn explained(py: Python<'_>, error: PyErr) -> PyErr {
    let explain = || py.import("gristmill.troubleshooting")?.getattr("explain");
    match explain().and_then(|explain| explain.call1((error.value(py),))) {
        Ok(_) => error,
        Err(failure) => failure,
    }
}

/// `OSError` picks its subclass (`FileNotFoundError` and so on) by the number.
fn os_error(py: Python<'_>, e: &io::Error, error: &Error) -> PyResult<PyErr> {
    Ok(match (errno_of(e), &error.at().shard) {
        (Some(code), Some(shard)) => {
            // The number and the path are shown by `OSError` itself.
            let reason = e.to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            let at = error.at().byte.map(|byte| format!(" at byte {byte}")).unwrap_or_default();
            let what = format!("{reason}{at}");
            PyOSError::new_err((
                code,
                shown(&what, MAX_MESSAGE).into_owned(),
                text(py, shard)?.unbind(),
            ))
        }
        _ => PyOSError::new_err(text(py, &error.to_string())?.unbind()),
    })
}

fn ours(py: Python<'_>, error: &Error) -> PyResult<PyErr> {
    let at = error.at();
    let attributes = PyDict::new(py);
    let shard = at.shard.as_deref().map(|shard| text(py, shard)).transpose()?;
    let class = match error.kind() {
        ErrorKind::Corrupt(_) => {
            attributes.set_item("shard", &shard)?;
            attributes.set_item("message", at.message)?;
            attributes.set_item("byte", at.byte)?;
            "CorruptShardError"
        }
        ErrorKind::Schema { column, .. } => {
            attributes.set_item("column", column)?;
            "SchemaError"
        }
        ErrorKind::Decode(DecodeError { codec, reason }) => {
            if let Reason::Limit(exceeded) = reason {
                attributes.set_item("limit", exceeded.limit)?;
            }
            attributes.set_item("shard", &shard)?;
            attributes.set_item("row", at.row)?;
            attributes.set_item("codec", codec.map(gristmill_audio::Codec::key))?;
            attributes.set_item("reason", reason.key())?;
            match reason {
                Reason::UnsupportedCodec(_) => "UnsupportedCodecError",
                Reason::Limit(_) => "LimitError",
                _ => "DecodeError",
            }
        }
        ErrorKind::Limit(_) => "LimitError",
        _ => "InternalError",
    };
    let class = py.import("gristmill.errors")?.getattr(class)?;
    Ok(PyErr::from_value(class.call((text(py, &error.to_string())?,), Some(&attributes))?))
}
