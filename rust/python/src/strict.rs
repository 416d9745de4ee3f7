//! Which findings are errors, as Python says it.

use gristmill_audio::Strict;
use pyo3::prelude::*;

use crate::options::unknown;

/// `True`, `False` or `"pedantic"`.
#[derive(Clone, Debug, FromPyObject)]
pub(crate) enum StrictArg {
    Flag(bool),
    Name(String),
}

impl StrictArg {
    pub(crate) fn parse(&self) -> PyResult<Strict> {
        match self {
            Self::Flag(is_strict) => Ok((*is_strict).into()),
            Self::Name(name) if name == "pedantic" => Ok(Strict::Pedantic),
            Self::Name(other) => Err(unknown("strict", other)),
        }
    }
}
