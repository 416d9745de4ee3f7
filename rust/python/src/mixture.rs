//! A mixture of data sets as it comes from Python.

use gristmill_core::{
    Error,
    engine::{self, MixtureOptions},
    order::Stop,
    shard::Labels,
};
use pyo3::prelude::*;

use crate::{
    errors::into_py_err,
    options::{Options, named},
};

/// The options of a mixture: those of its data sets, which have the options of batches in common.
#[pyclass(frozen, new = "from_fields", module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Mixture {
    data_sets: Vec<Py<Options>>,
    weights: Vec<u64>,
    stop: String,
    labels: String,
}

/// The options of a data set, or of a mixture.
#[derive(Debug, FromPyObject)]
pub(crate) enum StreamOptions<'py> {
    DataSet(Bound<'py, Options>),
    Mixture(Bound<'py, Mixture>),
}

impl StreamOptions<'_> {
    /// The core's options.
    pub(crate) fn parse(&self) -> PyResult<engine::Options> {
        match self {
            Self::DataSet(options) => options.get().parse(),
            Self::Mixture(mixture) => mixture.get().parse(mixture.py()),
        }
    }
}

impl Mixture {
    fn parse(&self, py: Python<'_>) -> PyResult<engine::Options> {
        let parse = |options: &Py<Options>| options.get().parse();
        let mut parsed =
            self.data_sets.iter().map(parse).collect::<PyResult<Vec<_>>>()?.into_iter();
        let first = parsed.next();
        let none = || into_py_err(py, &Error::internal("a mixture has no data sets"));
        let mut options = first.ok_or_else(none)?;
        options.sources.extend(parsed.flat_map(|other| other.sources));
        let stop = named("stop", &Stop::ALL, &self.stop)?;
        let labels = named("labels", &Labels::ALL, &self.labels)?;
        options.mixture = Some(MixtureOptions { weights: self.weights.clone(), stop, labels });
        Ok(options)
    }
}
