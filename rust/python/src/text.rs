//! Text of the core that may name a path.

use std::borrow::Cow;

use gristmill_core::store::path_bytes;
use pyo3::{
    prelude::*,
    types::{PyBytes, PyString},
};

/// The same in Python, where bytes of a path that are no UTF-8 are lone surrogates, as `os.fsdecode`
/// has them.
pub(crate) fn text<'py>(py: Python<'py>, core: &str) -> PyResult<Bound<'py, PyString>> {
    match path_bytes(core) {
        Cow::Borrowed(_) => Ok(PyString::new(py, core)),
        Cow::Owned(bytes) => {
            let decoded =
                PyBytes::new(py, &bytes).call_method1("decode", ("utf-8", "surrogateescape"))?;
            Ok(decoded.cast_into()?)
        }
    }
}
