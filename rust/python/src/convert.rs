//! Columns become NumPy arrays, and single rows NumPy scalars, strings and bytes.

use gristmill_audio::SampleType;
use gristmill_core::{
    batch::{self, Batch, Binary, Column, Dtype, Value},
    memory::{self, AlignedBuf},
};
use pyo3::{
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyList, PySlice, PyString},
};

use crate::{
    buffer::Buffer,
    bytes::{LARGE, large_bytes},
    errors::into_py_err,
};

/// How values are converted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Conversion {
    pub(crate) binary: Binary,
    /// Threads that may fill `bytes`.
    pub(crate) n_threads: usize,
}

/// The element that Python gets.
pub(crate) fn batch_to_dict(
    py: Python<'_>,
    batch: Batch,
    how: Conversion,
) -> PyResult<Bound<'_, PyDict>> {
    let element = PyDict::new(py);
    for (name, column) in batch.columns {
        element.set_item(name, column_to_py(py, column, how)?)?;
    }
    Ok(element)
}

fn column_to_py(py: Python<'_>, column: Column, how: Conversion) -> PyResult<Bound<'_, PyAny>> {
    match column {
        Column::Samples { buf, sample_type, shape } => {
            samples_to_array(py, buf, sample_type, &shape)
        }
        Column::Values { buf, dtype, shape } => {
            let (buf, range) = buf.into_buffer().map_err(|error| into_py_err(py, &error))?;
            from_buffer(py, Buffer::part(buf, range), dtype.name, &shape)
        }
        Column::Objects { cells, shape } => {
            let n = cells.len();
            let cells = PyList::new(py, cells_to_py(py, cells, how)?)?;
            object_array(py, cells.into_any(), n, &shape)
        }
        Column::Ragged { items, lengths, shape } => ragged(py, *items, &lengths, &shape, how),
        Column::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, field) in fields {
                dict.set_item(name, column_to_py(py, field, how)?)?;
            }
            Ok(dict.into_any())
        }
        Column::One(value) => {
            let values = cells_to_py(py, vec![value], how)?;
            Ok(values.into_iter().next().unwrap_or_else(|| py.None().into_bound(py)))
        }
    }
}

/// The values of a column, large `bytes` made all together.
fn cells_to_py(
    py: Python<'_>,
    cells: Vec<Value>,
    how: Conversion,
) -> PyResult<Vec<Bound<'_, PyAny>>> {
    let mut large = Vec::new();
    let mut others = Vec::with_capacity(cells.len());
    for cell in cells {
        others.push(match cell {
            Value::Blob(row) if how.binary == Binary::Bytes && row.as_ref().len() >= LARGE => {
                large.push(row);
                None
            }
            other => Some(other),
        });
    }
    let mut large = large_bytes(py, large, how.n_threads)?.into_iter().map(Bound::into_any);
    let value = |cell: Option<Value>| match cell {
        Some(value) => value_to_py(py, value, how),
        None => Ok(large.next().unwrap_or_else(|| py.None().into_bound(py))),
    };
    others.into_iter().map(value).collect()
}

/// One value: a NumPy scalar, a string, bytes, an array, a dictionary, or `None`.
fn value_to_py(py: Python<'_>, value: Value, how: Conversion) -> PyResult<Bound<'_, PyAny>> {
    match value {
        Value::None => Ok(py.None().into_bound(py)),
        Value::Scalar(dtype, bytes) => {
            let bytes = PyBytes::new(py, bytes.get(..dtype.width).unwrap_or_default());
            numpy(py, "frombuffer")?.call1((bytes, dtype.name))?.get_item(0)
        }
        // `new` panics where the interpreter has no memory.
        Value::Text(text) => Ok(PyString::from_bytes(py, text.as_bytes())?.into_any()),
        Value::Bytes(bytes) if how.binary == Binary::Numpy => {
            from_bytes(py, &bytes, Dtype::U8.name, bytes.len())
        }
        Value::Blob(row) if how.binary == Binary::Numpy => {
            let n = row.as_ref().len();
            from_buffer(py, Buffer::new(row), Dtype::U8.name, &[n])
        }
        Value::Bytes(bytes) => {
            let fill = |to: &mut [u8]| {
                to.copy_from_slice(&bytes);
                Ok(())
            };
            Ok(PyBytes::new_with(py, bytes.len(), fill)?.into_any())
        }
        Value::Blob(bytes) => Ok(PyBytes::new(py, bytes.as_ref()).into_any()),
        Value::Decimal(text) => {
            static DECIMAL: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
            DECIMAL.import(py, "decimal", "Decimal")?.call1((text,))
        }
        Value::Array(column) => column_to_py(py, *column, how),
        Value::Pairs(pairs) => {
            let list = PyList::empty(py);
            for (key, value) in pairs {
                list.append((value_to_py(py, key, how)?, value_to_py(py, value, how)?))?;
            }
            Ok(list.into_any())
        }
        Value::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, field) in fields {
                dict.set_item(name, value_to_py(py, field, how)?)?;
            }
            Ok(dict.into_any())
        }
    }
}

/// An array of samples over memory of the core.
pub(crate) fn samples_to_array<'py>(
    py: Python<'py>,
    buf: memory::Buffer,
    sample_type: SampleType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    from_buffer(py, Buffer::new(buf), samples_dtype(py, sample_type)?, shape)
}

/// The dtype as NumPy takes it: it has no `bfloat16` of its own.
fn samples_dtype(py: Python<'_>, sample_type: SampleType) -> PyResult<Bound<'_, PyAny>> {
    static BFLOAT16: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    match sample_type {
        SampleType::Bf16 => Ok(BFLOAT16.import(py, "ml_dtypes", "bfloat16")?.clone()),
        other => Ok(PyString::new(py, other.name()).into_any()),
    }
}

fn numpy<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    static NUMPY: PyOnceLock<Py<PyModule>> = PyOnceLock::new();
    NUMPY
        .get_or_try_init(py, || Ok::<_, PyErr>(py.import("numpy")?.unbind()))?
        .bind(py)
        .getattr(name)
}

fn from_buffer<'py>(
    py: Python<'py>,
    buf: Buffer,
    dtype: impl IntoPyObject<'py>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    if buf.is_empty() {
        return numpy(py, "empty")?.call1((shape.to_vec(), dtype));
    }
    let flat = numpy(py, "frombuffer")?.call1((buf, dtype))?;
    match shape {
        [_] => Ok(flat),
        _ => flat.call_method1(intern!(py, "reshape"), (shape.to_vec(),)),
    }
}

/// An array of this dtype over a copy of `bytes`.
pub(crate) fn from_bytes<'py>(
    py: Python<'py>,
    bytes: &[u8],
    dtype: &str,
    n: usize,
) -> PyResult<Bound<'py, PyAny>> {
    let mut buf = AlignedBuf::zeroed(bytes.len()).map_err(|error| into_py_err(py, &error))?;
    buf.as_bytes_mut().copy_from_slice(bytes);
    from_buffer(py, Buffer::new(memory::Buffer::unpooled(buf)), dtype, &[n])
}

/// An array of arrays: one list after another of the items.
fn ragged<'py>(
    py: Python<'py>,
    items: Column,
    lengths: &[Option<usize>],
    shape: &[usize],
    how: Conversion,
) -> PyResult<Bound<'py, PyAny>> {
    let equal = match (&items, lengths) {
        (Column::Values { shape, .. }, [Some(first), ..]) if shape.len() == 1 => {
            lengths.iter().all(|length| length.as_ref() == Some(first)).then_some(*first)
        }
        _ => None,
    };
    let items = column_to_py(py, items, how)?;
    if let Some(length) = equal {
        // NumPy cuts rows of one length faster than Python's slices do.
        let rows = items.call_method1(intern!(py, "reshape"), ((lengths.len(), length),))?;
        return object_array(py, rows, lengths.len(), shape);
    }
    let mut start = 0;
    let cells = lengths.iter().map(|length| {
        let Some(length) = length else { return Ok(py.None().into_bound(py)) };
        let end = start + *length as isize;
        let cell = items.get_item(PySlice::new(py, start, end, 1));
        start = end;
        cell
    });
    objects(py, cells, shape)
}

/// An object array, which is what NumPy has for values without a dtype of their own.
fn objects<'py>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let values: Vec<_> = values.collect::<PyResult<_>>()?;
    let n = values.len();
    object_array(py, PyList::new(py, values)?.into_any(), n, shape)
}

/// An object array of the `n` objects of an iterable, arrays and lists as they are.
fn object_array<'py>(
    py: Python<'py>,
    values: Bound<'py, PyAny>,
    n: usize,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    let array = numpy(py, "fromiter")?.call1((values, "O", n))?;
    match shape {
        [_] => Ok(array),
        _ => array.call_method1(intern!(py, "reshape"), (shape.to_vec(),)),
    }
}

/// What a column's arrays look like.
#[pyclass(frozen, get_all, module = "gristmill._core")]
#[derive(Debug)]
pub(crate) struct ColumnSpec {
    /// `None` for an axis whose length is not known.
    shape: Vec<Option<usize>>,
    /// As NumPy takes it.
    dtype: Py<PyAny>,
}

/// `{column: ColumnSpec}`, nested for structs; `batch_shape` is the batch axis, if any.
pub(crate) fn element_spec_to_py<'py>(
    py: Python<'py>,
    columns: &[(String, batch::ColumnSpec)],
    batch_shape: &[Option<usize>],
) -> PyResult<Bound<'py, PyDict>> {
    let spec = PyDict::new(py);
    for (name, column) in columns {
        let (shape, dtype) = match column {
            batch::ColumnSpec::Samples(shape, sample_type) => {
                (shape, samples_dtype(py, *sample_type)?)
            }
            batch::ColumnSpec::Array(shape, dtype) => {
                let name = dtype.map_or("object", |dtype| dtype.name);
                (shape, PyString::new(py, name).into_any())
            }
            batch::ColumnSpec::Struct(fields) => {
                spec.set_item(name, element_spec_to_py(py, fields, batch_shape)?)?;
                continue;
            }
        };
        let shape = [batch_shape, shape].concat();
        spec.set_item(name, ColumnSpec { shape, dtype: dtype.unbind() })?;
    }
    Ok(spec)
}
