//! Columns become NumPy arrays, and single rows NumPy scalars, strings and bytes.

use arrow_array::{
    Array, ArrayRef,
    cast::AsArray,
    types::{BinaryViewType, StringViewType},
};
use arrow_schema::{DataType, TimeUnit};
use gristmill_core::{
    audio::SampleType,
    batch::{AlignedBuf, Batch, Column, PooledBuf},
    pipeline::Described,
};
use pyo3::{
    exceptions::PyNotImplementedError,
    intern,
    prelude::*,
    sync::PyOnceLock,
    types::{PyBytes, PyDict, PyString},
};

use crate::buffer::Buffer;

/// The element that Python gets.
pub(crate) fn batch_to_dict(
    py: Python<'_>,
    batch: Batch,
    single: bool,
) -> PyResult<Bound<'_, PyDict>> {
    let element = PyDict::new(py);
    for (name, column) in batch.columns {
        element.set_item(name, column_to_py(py, column, single)?)?;
    }
    Ok(element)
}

fn column_to_py(py: Python<'_>, column: Column, single: bool) -> PyResult<Bound<'_, PyAny>> {
    match column {
        Column::Samples { buf, sample_type, shape } => {
            samples_to_array(py, buf, sample_type, &shape)
        }
        Column::Arrow(array) if single => value(py, &array, 0),
        Column::Arrow(array) => array_to_numpy(py, &array),
        Column::Bytes(values) => {
            let bytes = |value: &Option<Vec<u8>>| match value {
                Some(bytes) => PyBytes::new(py, bytes).into_any(),
                None => py.None().into_bound(py),
            };
            match values.as_slice() {
                [one] if single => Ok(bytes(one)),
                all => objects(py, all.iter().map(|value| Ok(bytes(value)))),
            }
        }
        Column::Struct(fields) => {
            let dict = PyDict::new(py);
            for (name, field) in fields {
                dict.set_item(name, column_to_py(py, field, single)?)?;
            }
            Ok(dict.into_any())
        }
    }
}

/// An array of samples over memory of the core.
pub(crate) fn samples_to_array<'py>(
    py: Python<'py>,
    buf: PooledBuf,
    sample_type: SampleType,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    match sample_type {
        SampleType::Bf16 => from_buffer(py, buf, bfloat16(py)?, shape),
        other => from_buffer(py, buf, other.name(), shape),
    }
}

/// `ml_dtypes.bfloat16`: NumPy has no such type of its own.
fn bfloat16(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static BFLOAT16: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let found = BFLOAT16.get_or_try_init(py, || {
        Ok::<_, PyErr>(py.import("ml_dtypes")?.getattr("bfloat16")?.unbind())
    })?;
    Ok(found.bind(py).clone())
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
    buf: PooledBuf,
    dtype: impl IntoPyObject<'py>,
    shape: &[usize],
) -> PyResult<Bound<'py, PyAny>> {
    if buf.buf().as_bytes().is_empty() {
        return numpy(py, "empty")?.call1((shape.to_vec(), dtype));
    }
    let flat = numpy(py, "frombuffer")?.call1((Buffer::new(buf), dtype))?;
    match shape {
        [_] => Ok(flat),
        _ => flat.call_method1(intern!(py, "reshape"), (shape.to_vec(),)),
    }
}

fn from_bytes<'py>(
    py: Python<'py>,
    bytes: &[u8],
    dtype: &str,
    n: usize,
) -> PyResult<Bound<'py, PyAny>> {
    from_buffer(py, PooledBuf::free_standing(AlignedBuf::copied_from(bytes)), dtype, &[n])
}

/// An object array, which is what NumPy has for values without a dtype of their own.
fn objects<'py>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = PyResult<Bound<'py, PyAny>>>,
) -> PyResult<Bound<'py, PyAny>> {
    let array = numpy(py, "empty")?.call1((values.len(), "O"))?;
    for (i, value) in values.enumerate() {
        array.set_item(i, value?)?;
    }
    Ok(array)
}

/// All values of a column: an array of its dtype where it has one, else of objects.
fn array_to_numpy<'py>(py: Python<'py>, array: &ArrayRef) -> PyResult<Bound<'py, PyAny>> {
    let n = array.len();
    if let Some((dtype, width)) = fixed_width(array.data_type()) {
        let data = array.to_data();
        let start = data.offset() * width;
        let bytes = data.buffers().first().and_then(|b| b.as_slice().get(start..start + n * width));
        return from_bytes(py, bytes.unwrap_or_default(), dtype, n);
    }
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            let bytes: Vec<u8> = values.iter().map(u8::from).collect();
            from_bytes(py, &bytes, "?", n)
        }
        DataType::Date32 => {
            let days = array.as_primitive::<arrow_array::types::Date32Type>().values();
            let bytes: Vec<u8> = days.iter().flat_map(|&d| i64::from(d).to_ne_bytes()).collect();
            from_bytes(py, &bytes, "M8[D]", n)
        }
        DataType::FixedSizeList(_, width) => {
            let list = array.as_fixed_size_list();
            let flat = array_to_numpy(py, list.values())?;
            flat.call_method1(intern!(py, "reshape"), (n, *width))
        }
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                dict.set_item(field.name(), array_to_numpy(py, child)?)?;
            }
            Ok(dict.into_any())
        }
        DataType::Dictionary(..) => array_to_numpy(py, &dictionary_values(array)?),
        _ => objects(py, (0..n).map(|i| value(py, array, i))),
    }
}

/// One value of a column: a NumPy scalar, a string, bytes, an array, a dictionary, or `None`.
fn value<'py>(py: Python<'py>, array: &ArrayRef, i: usize) -> PyResult<Bound<'py, PyAny>> {
    if array.is_null(i) || *array.data_type() == DataType::Null {
        return Ok(py.None().into_bound(py));
    }
    let text = |s: &str| Ok(PyString::new(py, s).into_any());
    let bytes = |b: &[u8]| Ok(PyBytes::new(py, b).into_any());
    let list = |items: ArrayRef| match items.null_count() {
        0 => array_to_numpy(py, &items),
        // Numbers with nulls among them have no dtype.
        _ => objects(py, (0..items.len()).map(|k| value(py, &items, k))),
    };
    match array.data_type() {
        DataType::Utf8 => text(array.as_string::<i32>().value(i)),
        DataType::LargeUtf8 => text(array.as_string::<i64>().value(i)),
        DataType::Utf8View => text(array.as_byte_view::<StringViewType>().value(i)),
        DataType::Binary => bytes(array.as_binary::<i32>().value(i)),
        DataType::LargeBinary => bytes(array.as_binary::<i64>().value(i)),
        DataType::BinaryView => bytes(array.as_byte_view::<BinaryViewType>().value(i)),
        DataType::FixedSizeBinary(_) => bytes(array.as_fixed_size_binary().value(i)),
        DataType::List(_) => list(array.as_list::<i32>().value(i)),
        DataType::LargeList(_) => list(array.as_list::<i64>().value(i)),
        DataType::FixedSizeList(..) => list(array.as_fixed_size_list().value(i)),
        DataType::Struct(fields) => {
            let dict = PyDict::new(py);
            for (field, child) in fields.iter().zip(array.as_struct().columns()) {
                dict.set_item(field.name(), value(py, child, i)?)?;
            }
            Ok(dict.into_any())
        }
        DataType::Dictionary(..) => value(py, &dictionary_values(&array.slice(i, 1))?, 0),
        _ => array_to_numpy(py, &array.slice(i, 1))?.get_item(0),
    }
}

fn dictionary_values(array: &ArrayRef) -> PyResult<ArrayRef> {
    let dictionary = array.as_any_dictionary();
    arrow_select::take::take(dictionary.values().as_ref(), dictionary.keys(), None)
        .map_err(|e| PyNotImplementedError::new_err(e.to_string()))
}

/// The dtype and width of types whose Arrow buffer is a NumPy buffer.
fn fixed_width(data_type: &DataType) -> Option<(&'static str, usize)> {
    use DataType as T;
    Some(match data_type {
        T::Int8 => ("i1", 1),
        T::Int16 => ("i2", 2),
        T::Int32 => ("i4", 4),
        T::Int64 => ("i8", 8),
        T::UInt8 => ("u1", 1),
        T::UInt16 => ("u2", 2),
        T::UInt32 => ("u4", 4),
        T::UInt64 => ("u8", 8),
        T::Float16 => ("f2", 2),
        T::Float32 => ("f4", 4),
        T::Float64 => ("f8", 8),
        T::Date64 | T::Timestamp(TimeUnit::Millisecond, _) => ("M8[ms]", 8),
        T::Timestamp(TimeUnit::Second, _) => ("M8[s]", 8),
        T::Timestamp(TimeUnit::Microsecond, _) => ("M8[us]", 8),
        T::Timestamp(TimeUnit::Nanosecond, _) => ("M8[ns]", 8),
        T::Duration(TimeUnit::Second) => ("m8[s]", 8),
        T::Duration(TimeUnit::Millisecond) => ("m8[ms]", 8),
        T::Duration(TimeUnit::Microsecond) => ("m8[us]", 8),
        T::Duration(TimeUnit::Nanosecond) => ("m8[ns]", 8),
        _ => return None,
    })
}

/// `{column: (shape, dtype)}` of elements with these columns; `batch` is the batch axis, if any.
pub(crate) fn described_to_py<'py>(
    py: Python<'py>,
    columns: &[(String, Described)],
    batch: &[Option<usize>],
) -> PyResult<Bound<'py, PyDict>> {
    let spec = PyDict::new(py);
    for (name, column) in columns {
        let leaf = match column {
            Described::Samples(shape, sample_type) => {
                let shape = [batch, shape].concat();
                match sample_type {
                    SampleType::Bf16 => (shape, bfloat16(py)?).into_pyobject(py)?.into_any(),
                    other => (shape, other.name()).into_pyobject(py)?.into_any(),
                }
            }
            Described::Bytes => (batch.to_vec(), "object").into_pyobject(py)?.into_any(),
            Described::Struct(fields) => described_to_py(py, fields, batch)?.into_any(),
            Described::Arrow(data_type) => described_type(py, data_type, batch)?,
        };
        spec.set_item(name, leaf)?;
    }
    Ok(spec)
}

fn described_type<'py>(
    py: Python<'py>,
    data_type: &DataType,
    batch: &[Option<usize>],
) -> PyResult<Bound<'py, PyAny>> {
    let leaf =
        |shape: Vec<Option<usize>>, dtype: &str| Ok((shape, dtype).into_pyobject(py)?.into_any());
    match data_type {
        DataType::Boolean => leaf(batch.to_vec(), "bool"),
        DataType::Date32 => leaf(batch.to_vec(), "M8[D]"),
        DataType::Dictionary(_, values) => described_type(py, values, batch),
        DataType::FixedSizeList(item, width) => {
            let width = Some(usize::try_from(*width).unwrap_or(0));
            let dtype = fixed_width(item.data_type()).map_or("object", |(dtype, _)| dtype);
            leaf([batch, &[width]].concat(), dtype)
        }
        DataType::Struct(fields) => {
            let fields: Vec<_> = fields
                .iter()
                .map(|f| (f.name().clone(), Described::Arrow(f.data_type().clone())))
                .collect();
            Ok(described_to_py(py, &fields, batch)?.into_any())
        }
        DataType::List(item) | DataType::LargeList(item) if batch.is_empty() => {
            let dtype = fixed_width(item.data_type()).map_or("object", |(dtype, _)| dtype);
            leaf(vec![None], dtype)
        }
        other => match fixed_width(other) {
            Some((dtype, _)) => leaf(batch.to_vec(), dtype),
            None => leaf(batch.to_vec(), "object"),
        },
    }
}
