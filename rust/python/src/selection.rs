//! Which rows take part, and how often, as it comes from Python.
#![expect(clippy::too_many_arguments, reason = "one a field, and all of them by name")]

use gristmill_core::{
    order::Draws,
    select::{Condition, Op, Picks, RowSpec, RowTable, Scalar, Split, TimeKind, WeightSpec},
};
use pyo3::{prelude::*, pybacked::PyBackedBytes};

use crate::options::{Group, named, unknown};

/// A value to compare with: a time is its kind, and nanoseconds.
#[derive(Debug, FromPyObject)]
enum ScalarArg {
    Bool(bool),
    Int(i128),
    Float(f64),
    Text(String),
    Bytes(PyBackedBytes),
    Time(String, i128),
}

/// `(column, operator, values)`.
type ConditionArg = (String, String, Vec<Option<ScalarArg>>);

/// How often rows come: one of `column`, `rows`, `values` and `power`, the last two with `by`.
#[pyclass(frozen, new = "from_fields", module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct Sampling {
    column: Option<String>,
    /// Doubles.
    rows: Option<PyBackedBytes>,
    by: Option<String>,
    values: Option<Vec<(ScalarArg, f64)>>,
    power: Option<f64>,
    seed: u64,
    draws: Option<u64>,
    reshuffle_each_epoch: bool,
}

/// Which rows of a data set take part, of its options.
pub(crate) fn selection(options: &Group<'_>) -> PyResult<RowSpec> {
    let table = options.group("table")?.map(|table| {
        let indices: Option<PyBackedBytes> = table.get("indices")?;
        let indices = indices.map(|bytes| words(&bytes).into());
        Ok::<_, PyErr>(RowTable { runs: table.get("runs")?, indices })
    });
    let picks = options.group("rows")?.map(|rows| {
        let data: PyBackedBytes = rows.get("data")?;
        Ok::<_, PyErr>(if rows.get("is_mask")? {
            Picks::Mask(data.iter().map(|byte| *byte != 0).collect())
        } else {
            Picks::Indices(words(&data).into())
        })
    });
    let condition = |(column, op, values): ConditionArg| {
        let values = values.iter().map(|value| match value {
            None => Ok(Scalar::Null),
            Some(value) => value.parse(),
        });
        let op = named("filters", &Op::ALL, &op)?;
        Ok(Condition { column, op, values: values.collect::<PyResult<_>>()? })
    };
    let all = |all: Vec<ConditionArg>| all.into_iter().map(condition).collect::<PyResult<_>>();
    let filters: Vec<Vec<ConditionArg>> = options.get("filters")?;
    let split = options.group("split")?.map(|split| {
        let (name, seed, by, first, last) = split.call("native", ())?;
        Ok::<_, PyErr>(Split { name, seed, by, first, last })
    });
    Ok(RowSpec {
        table: table.transpose()?,
        picks: picks.transpose()?,
        filters: filters.into_iter().map(all).collect::<PyResult<_>>()?,
        split: split.transpose()?,
    })
}

impl Sampling {
    /// The core's.
    pub(crate) fn parse(&self) -> PyResult<(Draws, WeightSpec)> {
        let column = || self.by.clone().unwrap_or_default();
        let weights = match (&self.column, &self.rows, &self.values, self.power) {
            (Some(column), ..) => WeightSpec::Column(column.clone()),
            (_, Some(bytes), ..) => {
                WeightSpec::Rows(words(bytes).into_iter().map(f64::from_bits).collect())
            }
            (_, _, Some(values), _) => {
                let values = values.iter().map(|(value, weight)| Ok((value.parse()?, *weight)));
                WeightSpec::Values { column: column(), weights: values.collect::<PyResult<_>>()? }
            }
            (.., power) => WeightSpec::Balanced { column: column(), power: power.unwrap_or(1.0) },
        };
        let draws =
            Draws { seed: self.seed, per_epoch: self.draws, reshuffle: self.reshuffle_each_epoch };
        Ok((draws, weights))
    }
}

impl ScalarArg {
    fn parse(&self) -> PyResult<Scalar> {
        Ok(match self {
            Self::Bool(value) => Scalar::Bool(*value),
            Self::Int(value) => Scalar::Int(*value),
            Self::Float(value) => Scalar::Float(*value),
            Self::Text(text) => Scalar::Text(text.clone()),
            Self::Bytes(bytes) => Scalar::Bytes(bytes.to_vec()),
            Self::Time(kind, nanoseconds) => {
                let kind = match kind.as_str() {
                    "naive" => TimeKind::Naive,
                    "aware" => TimeKind::Aware,
                    "duration" => TimeKind::Duration,
                    "of_day" => TimeKind::OfDay,
                    other => return Err(unknown("a kind of time", other)),
                };
                Scalar::Time(kind, *nanoseconds)
            }
        })
    }
}

/// 64-bit words.
fn words(bytes: &[u8]) -> Vec<u64> {
    bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect()
}
