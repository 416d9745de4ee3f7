//! Gathering the values of Arrow arrays into the columns of a batch.
//!
//! The recursion goes down the type. At each level it has the arrays, one for each record batch that
//! rows are in, and a [`CopyPlan`] of their values. A list turns the plan of its rows into one of its
//! items, a dictionary into one of its values. At the bottom, ranges of numbers are copied into one
//! contiguous buffer.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use super::{
    Column,
    copy_plan::{CopyPlan, CopySource, array_of},
    dtype::{Dtype, ZERO},
    encoded::{plain_type, referred_values},
    gathered_column::{ColumnError, GatheredColumn},
    lists::{self, Lists, list_item},
    reservation::{self, Reservation},
    size_limit::SizeLimit,
    style::{Ragged, Style},
    taken_over::stored_bytes,
    value::{Value, value},
};
use crate::{error::Error, memory::Buffer};

/// Whether values are structs: a list of these is a list of Python dictionaries.
pub(super) fn is_record(data_type: &DataType) -> bool {
    matches!(plain_type(data_type), DataType::Struct(_))
}

/// The values of a column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Values<'a> {
    /// The dotted path of the column.
    pub(super) path: &'a str,
    pub(super) data_type: &'a DataType,
    pub(super) arrays: &'a [ArrayRef],
    pub(super) plan: &'a CopyPlan,
}

/// How columns are gathered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather<'a> {
    pub(super) style: Style,
    pub(super) limit: &'a SizeLimit,
    /// For the columns' memory; `None` for unpooled buffers.
    pub(super) reservation: Option<&'a Reservation>,
    /// What was read of rows alone, which columns may take over.
    pub(super) buffers: &'a [Arc<Buffer>],
}

impl<'a> Gather<'a> {
    /// With the default style, into unpooled buffers.
    pub(super) fn plain(limit: &'a SizeLimit) -> Self {
        Self { style: Style::default(), limit, reservation: None, buffers: &[] }
    }

    /// The column of these values.
    pub(super) fn column(self, values: Values<'_>) -> Result<GatheredColumn, ColumnError> {
        if let Some(dtype) = Dtype::of(values.data_type) {
            return self.numbers(values, dtype).map(GatheredColumn::from);
        }
        if let Some(item) = list_item(values.data_type) {
            let item = item.data_type();
            return match self.style.ragged {
                _ if is_record(item) => self.objects(values).map(GatheredColumn::from),
                Ragged::Object => self.ragged(values, item).map(GatheredColumn::from),
                Ragged::Pad | Ragged::Width(_) => self.padded(values, item),
                Ragged::Error => self.equal(values, item),
            };
        }
        match values.data_type {
            DataType::Struct(fields) => {
                let plan = values.plan.without_nulls(values.arrays, self.limit)?;
                let mut columns = Vec::with_capacity(fields.len());
                for (k, field) in fields.iter().enumerate() {
                    let child = |array: &ArrayRef| {
                        array.as_struct_opt().and_then(|parent| parent.columns().get(k).cloned())
                    };
                    let children: Vec<ArrayRef> = values.arrays.iter().filter_map(child).collect();
                    let gathered = self.column(Values {
                        path: &format!("{}.{}", values.path, field.name()),
                        data_type: field.data_type(),
                        arrays: &children,
                        plan: &plan,
                    })?;
                    gathered.add_to(&mut columns, field.name());
                }
                Ok(Column::Struct(columns).into())
            }
            DataType::Dictionary(_, data_type) => self.encoded(values, data_type),
            DataType::RunEndEncoded(_, field) => self.encoded(values, field.data_type()),
            DataType::FixedSizeList(item, width) if !is_record(item.data_type()) => {
                let width = usize::try_from(*width).unwrap_or(0);
                self.fixed(values, item.data_type(), width)
            }
            _ => self.objects(values).map(GatheredColumn::from),
        }
    }

    /// A column of numbers.
    fn numbers(self, values: Values<'_>, dtype: Dtype) -> Result<Column, ColumnError> {
        let Values { path, arrays, plan, .. } = values;
        let width = dtype.width;
        self.limit.take(plan.len(), width)?;
        if let Some(buf) = self.taken_over(values, dtype) {
            return Ok(Column::Values { buf, dtype, shape: vec![plan.len()] });
        }
        let mut buf = reservation::buffer(self.reservation, plan.len() * width)?;
        let data: Vec<_> = arrays.iter().map(Array::to_data).collect();
        let (mut rest, mut done) = (buf.as_bytes_mut(), 0);
        for range in plan.iter() {
            let (into, behind) = std::mem::take(&mut rest)
                .split_at_mut_checked(range.len * width)
                .ok_or_else(|| Error::corrupt("ranges of more values than there are"))?;
            rest = behind;
            let missing = |at: usize| self.missing(path, dtype, done + at);
            match range.source {
                CopySource::Null => fill(into, missing(0)?.get(..width)),
                CopySource::Padding => {
                    let padding = match self.style.fill {
                        Some(_) => missing(0)?,
                        None => ZERO,
                    };
                    fill(into, padding.get(..width));
                }
                CopySource::Array(number) => {
                    let array = array_of(arrays, number, range)?;
                    if dtype.is_bits() {
                        let bits = array.as_boolean().values().slice(range.start, range.len);
                        into.iter_mut().zip(&bits).for_each(|(to, bit)| *to = u8::from(bit));
                    } else {
                        let stored = dtype.stored();
                        let bytes =
                            data.get(number).and_then(|data| stored_bytes(data, range, stored));
                        let bytes = bytes.ok_or_else(|| Error::corrupt("a column is too short"))?;
                        copy_widened(bytes, stored, into, width);
                    }
                    let nulls = array.nulls().map(|nulls| nulls.slice(range.start, range.len));
                    if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
                        for at in (0..range.len).filter(|at| nulls.is_null(*at)) {
                            let value = into.get_mut(at * width..(at + 1) * width);
                            fill(value.unwrap_or_default(), missing(at)?.get(..width));
                        }
                    }
                }
            }
            done += range.len;
        }
        Ok(Column::Values { buf: buf.into(), dtype, shape: vec![plan.len()] })
    }

    /// The fill value at this index, where a value is missing.
    fn missing(self, path: &str, dtype: Dtype, at: usize) -> Result<[u8; 8], ColumnError> {
        let error = |reason: String| ColumnError::At { path: path.to_owned(), at, reason };
        let Some(fill) = self.style.fill else { return Err(error(NULL.to_owned())) };
        dtype.fill(fill).ok_or_else(|| {
            error(format!(
                "fill_value {fill} is not a value of dtype {}, and a null or padding needs one; \
                 fill_value= also takes a mapping by column",
                dtype.long_name()
            ))
        })
    }

    /// A list column as an array of arrays.
    fn ragged(self, values: Values<'_>, item: &DataType) -> Result<Column, ColumnError> {
        let lists = Lists::of(values.arrays, values.plan, self.limit)?;
        let items = self.items(values, item, &lists.items(self.limit)?);
        let items = items.map_err(|error| error.map_index(|at| lists.list_of(at)))?;
        let lengths = lists.nulls().zip(lists.lengths());
        Ok(Column::Ragged {
            items: Box::new(items.column),
            lengths: lengths.map(|(is_null, len)| (!is_null).then_some(len)).collect(),
            shape: vec![lists.len()],
        })
    }

    /// The items of lists.
    fn items(
        self,
        values: Values<'_>,
        item: &DataType,
        items: &CopyPlan,
    ) -> Result<GatheredColumn, ColumnError> {
        let arrays = lists::item_arrays(values.arrays)?;
        self.column(Values { data_type: item, arrays: &arrays, plan: items, ..values })
    }

    /// A list column as one array, with rows padded to the longest, or padded and cut to a length.
    fn padded(self, values: Values<'_>, item: &DataType) -> Result<GatheredColumn, ColumnError> {
        let lists = self.valid_lists(values)?;
        let width = match self.style.ragged {
            Ragged::Width(width) => width,
            _ => lists.lengths().max().unwrap_or(0),
        };
        let style = Style { ragged: self.style.ragged.within(), ..self.style };
        let mut gathered = Self { style, ..self }.padded_items(values, item, &lists, width)?;
        self.limit.take(lists.len(), Dtype::I32.width)?;
        i32::try_from(width)
            .map_err(|_| Error::limit("a list has more items than lengths can count"))?;
        let lengths = lists.lengths().map(|length| (length.min(width) as i32).to_ne_bytes());
        let buf = reservation::filled(self.reservation, lengths)?;
        let own = Column::Values { buf: buf.into(), dtype: Dtype::I32, shape: vec![lists.len()] };
        gathered.lengths.insert(0, own);
        Ok(gathered)
    }

    /// A list column as one array, whose rows must have equal lengths.
    fn equal(self, values: Values<'_>, item: &DataType) -> Result<GatheredColumn, ColumnError> {
        let lists = self.valid_lists(values)?;
        let mut valid = lists.lengths().zip(lists.nulls()).filter(|(_, is_null)| !is_null);
        let width = valid.next().map_or(0, |(len, _)| len);
        let odd = |(len, is_null): (usize, bool)| !is_null && len != width;
        if let Some(at) = lists.lengths().zip(lists.nulls()).position(odd) {
            let len = lists.lengths().nth(at).unwrap_or(0);
            let reason = format!(
                "a list of {len} items in a batch that begins with one of {width}; give \
                 ragged=\"pad\" or ragged=\"object\", or take single rows (batch_size=None)"
            );
            return Err(ColumnError::At { path: values.path.to_owned(), at, reason });
        }
        self.padded_items(values, item, &lists, width)
    }

    /// The lists of a column. Without a fill value, none may be null.
    fn valid_lists(self, values: Values<'_>) -> Result<Lists, ColumnError> {
        let lists = Lists::of(values.arrays, values.plan, self.limit)?;
        let null = lists.nulls().position(|is_null| is_null);
        match null {
            Some(at) if self.style.fill.is_none() => {
                let (path, reason) = (values.path.to_owned(), NULL.to_owned());
                Err(ColumnError::At { path, at, reason })
            }
            _ => Ok(lists),
        }
    }

    /// The items of lists, padded to `width`, as an array of rows.
    fn padded_items(
        self,
        values: Values<'_>,
        item: &DataType,
        lists: &Lists,
        width: usize,
    ) -> Result<GatheredColumn, ColumnError> {
        let items = lists.items_padded(width, self.limit)?;
        self.reshaped(values, item, &items, (lists.len(), width))
    }

    /// Items as an array of `n` rows of `width`.
    fn reshaped(
        self,
        values: Values<'_>,
        item: &DataType,
        items: &CopyPlan,
        (n, width): (usize, usize),
    ) -> Result<GatheredColumn, ColumnError> {
        let items = self.items(values, item, items);
        let mut items = items.map_err(|error| error.map_index(|at| at / width.max(1)))?;
        items.reshape(n, width);
        Ok(items)
    }

    /// A fixed-size list column. The items of a null list are missing.
    fn fixed(
        self,
        values: Values<'_>,
        item: &DataType,
        width: usize,
    ) -> Result<GatheredColumn, ColumnError> {
        let plan = values.plan.without_nulls(values.arrays, self.limit)?;
        self.limit.take(plan.len(), width)?;
        let mut items = CopyPlan::default();
        for range in plan.iter() {
            let first = range.start.checked_mul(width);
            let first = first.ok_or_else(|| Error::corrupt("a fixed-size list is too wide"))?;
            items.push(range.source, first, range.len * width);
        }
        self.reshaped(values, item, &items, (plan.len(), width))
    }

    /// The values that dictionaries or run-end encoded arrays refer to.
    fn encoded(
        self,
        values: Values<'_>,
        data_type: &DataType,
    ) -> Result<GatheredColumn, ColumnError> {
        let plan = values.plan.referred(values.arrays, self.limit)?;
        let arrays = values.arrays.iter().map(referred_values).collect::<Result<Vec<_>, _>>()?;
        self.column(Values { data_type, arrays: &arrays, plan: &plan, ..values })
    }

    /// A column of values without a dtype.
    fn objects(self, values: Values<'_>) -> Result<Column, ColumnError> {
        let Values { arrays, plan, .. } = values;
        self.limit.take(plan.len(), size_of::<Value>())?;
        let mut cells = Vec::with_capacity(plan.len());
        for range in plan.iter() {
            let CopySource::Array(number) = range.source else {
                cells.extend(std::iter::repeat_with(|| Value::None).take(range.len));
                continue;
            };
            let array = array_of(arrays, number, range)?;
            for at in range.start..range.end() {
                cells.push(value(array, at, self.limit)?);
            }
        }
        Ok(Column::Objects { cells, shape: vec![plan.len()] })
    }
}

const NULL: &str = "a null cannot stand in a batch of numbers or of lists of one shape; give \
                    fill_value=, leave the column out, exclude the row, or take single rows \
                    (batch_size=None)";

/// Repeats the same bytes.
fn fill(into: &mut [u8], bytes: Option<&[u8]>) {
    let bytes = bytes.unwrap_or_default();
    match bytes.split_first() {
        Some((first, rest)) if rest.iter().all(|byte| byte == first) => into.fill(*first),
        Some(_) => into.chunks_exact_mut(bytes.len()).for_each(|to| to.copy_from_slice(bytes)),
        None => {}
    }
}

/// Copies values of `stored` bytes as values of `width` bytes. Where these differ, they are 32-bit
/// and 64-bit integers.
fn copy_widened(bytes: &[u8], stored: usize, into: &mut [u8], width: usize) {
    if stored == width && bytes.len() == into.len() {
        into.copy_from_slice(bytes);
        return;
    }
    for (value, to) in bytes.chunks_exact(4).zip(into.chunks_exact_mut(8)) {
        let narrow = value.first_chunk().map_or(0, |value| i32::from_ne_bytes(*value));
        to.copy_from_slice(&i64::from(narrow).to_ne_bytes());
    }
}
