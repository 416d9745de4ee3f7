//! Values of Arrow arrays become the columns of a batch.
//!
//! The walk goes down the type. At each level it knows the arrays ("parts", one for each record
//! batch that rows come from) and the [`Runs`] of values wanted of them; a list turns the runs of
//! its rows into those of its items, a dictionary into those of its values. At the bottom runs of
//! numbers are copied as they lie into one contiguous buffer.

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::DataType;

use super::{
    Column,
    dtype::{Dtype, ZERO},
    gathered::{Fault, Gathered},
    limit::Limit,
    lists::{self, Lists, list_item},
    runs::{Origin, Runs, part_of, referred_values},
    space::{self, Space},
    style::{Ragged, Style},
    value::{Value, value},
};
use crate::error::Error;

/// Whether a list of these has no array of its own, but dictionaries.
pub(super) fn is_record(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) => true,
        DataType::Dictionary(_, values) => is_record(values),
        DataType::RunEndEncoded(_, values) => is_record(values.data_type()),
        _ => false,
    }
}

/// How columns are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Gather<'a> {
    pub(super) style: Style,
    pub(super) limit: &'a Limit,
    /// Where columns get their memory; `None` for the allocator.
    pub(super) space: Option<&'a Space>,
}

impl<'a> Gather<'a> {
    /// Of values in memory, without a style, into memory of the allocator's.
    pub(super) fn plain(limit: &'a Limit) -> Self {
        Self { style: Style::default(), limit, space: None }
    }

    /// The column of these values.
    pub(super) fn column(
        self,
        path: &str,
        data_type: &DataType,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Gathered, Fault> {
        if let Some(dtype) = Dtype::of(data_type) {
            return self.numbers(path, dtype, parts, runs).map(Gathered::from);
        }
        if let Some(item) = list_item(data_type) {
            let item = item.data_type();
            return match self.style.ragged {
                _ if is_record(item) => self.objects(parts, runs).map(Gathered::from),
                Ragged::Object => self.ragged(path, item, parts, runs).map(Gathered::from),
                Ragged::Pad => self.padded(path, item, parts, runs),
                Ragged::Error => self.equal(path, item, parts, runs),
            };
        }
        match data_type {
            DataType::Struct(fields) => {
                let runs = runs.without_nulls(parts, self.limit)?;
                let mut columns = Vec::with_capacity(fields.len());
                for (k, field) in fields.iter().enumerate() {
                    let child = |part: &ArrayRef| {
                        part.as_struct_opt().and_then(|parent| parent.columns().get(k).cloned())
                    };
                    let children: Vec<ArrayRef> = parts.iter().filter_map(child).collect();
                    let path = format!("{path}.{}", field.name());
                    let gathered = self.column(&path, field.data_type(), &children, &runs)?;
                    gathered.add_to(&mut columns, field.name());
                }
                Ok(Column::Struct(columns).into())
            }
            DataType::Dictionary(_, values) => self.encoded(path, values, parts, runs),
            DataType::RunEndEncoded(_, values) => {
                self.encoded(path, values.data_type(), parts, runs)
            }
            DataType::FixedSizeList(item, width) if !is_record(item.data_type()) => {
                let width = usize::try_from(*width).unwrap_or(0);
                self.fixed(path, item.data_type(), width, parts, runs)
            }
            _ => self.objects(parts, runs).map(Gathered::from),
        }
    }

    /// Numbers, copied as they lie.
    fn numbers(
        self,
        path: &str,
        dtype: Dtype,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Column, Fault> {
        let width = dtype.width;
        self.limit.take(runs.len(), width)?;
        let mut buf = space::buffer(self.space, runs.len() * width)?;
        let data: Vec<_> = parts.iter().map(Array::to_data).collect();
        let (mut rest, mut done) = (buf.as_bytes_mut(), 0);
        for run in runs.iter() {
            let (into, behind) = std::mem::take(&mut rest)
                .split_at_mut_checked(run.len * width)
                .ok_or_else(|| Error::corrupt("runs of more values than there are"))?;
            rest = behind;
            let missing = |at: usize| self.missing(path, dtype, done + at);
            match run.from {
                Origin::Null => fill(into, missing(0)?.get(..width)),
                Origin::Pad => {
                    let padding = match self.style.fill {
                        Some(_) => missing(0)?,
                        None => ZERO,
                    };
                    fill(into, padding.get(..width));
                }
                Origin::Part(part) => {
                    let array = part_of(parts, part, run)?;
                    if dtype.is_bits() {
                        let bits = array.as_boolean().values().slice(run.start, run.len);
                        into.iter_mut().zip(&bits).for_each(|(to, bit)| *to = u8::from(bit));
                    } else {
                        let stored = dtype.stored();
                        let bytes = data.get(part).and_then(|data| {
                            let first = data.offset() + run.start;
                            let buffer = data.buffers().first()?.as_slice();
                            buffer.get(first * stored..(first + run.len) * stored)
                        });
                        let bytes = bytes.ok_or_else(|| Error::corrupt("a column is too short"))?;
                        copy_widened(bytes, stored, into, width);
                    }
                    let nulls = array.nulls().map(|nulls| nulls.slice(run.start, run.len));
                    if let Some(nulls) = nulls.filter(|nulls| nulls.null_count() > 0) {
                        for at in (0..run.len).filter(|at| nulls.is_null(*at)) {
                            let place = into.get_mut(at * width..(at + 1) * width);
                            fill(place.unwrap_or_default(), missing(at)?.get(..width));
                        }
                    }
                }
            }
            done += run.len;
        }
        Ok(Column::Values { buf, dtype, shape: vec![runs.len()] })
    }

    /// What stands at a place without a value.
    fn missing(self, path: &str, dtype: Dtype, at: usize) -> Result<[u8; 8], Fault> {
        let fault = |reason: String| Fault::At { path: path.to_owned(), at, reason };
        let Some(fill) = self.style.fill else { return Err(fault(NULL.to_owned())) };
        dtype.fill(fill).ok_or_else(|| {
            fault(format!(
                "fill_value {fill} is not a value of dtype {}, and a null or padding needs one; \
                 fill_value= also takes a mapping by column",
                dtype.long_name()
            ))
        })
    }

    /// A list column as one array of arrays.
    fn ragged(
        self,
        path: &str,
        item: &DataType,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Column, Fault> {
        let lists = Lists::of(parts, runs, self.limit)?;
        let items = lists.items(self.limit)?;
        let inner = self.column(path, item, &lists::values(parts)?, &items);
        let inner = inner.map_err(|fault| fault.lift(|at| lists.holding(at)))?;
        Ok(Column::Ragged {
            items: Box::new(inner.column),
            lengths: lists
                .nulls()
                .zip(lists.lengths())
                .map(|(n, len)| (!n).then_some(len))
                .collect(),
            shape: vec![runs.len()],
        })
    }

    /// A list column as one array, rows lengthened to the longest.
    fn padded(
        self,
        path: &str,
        item: &DataType,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Gathered, Fault> {
        let lists = Lists::of(parts, runs, self.limit)?;
        self.check_null_lists(path, &lists)?;
        let width = lists.lengths().max().unwrap_or(0);
        let mut gathered = self.items(path, item, parts, &lists, width)?;
        self.limit.take(runs.len(), Dtype::I32.width)?;
        i32::try_from(width)
            .map_err(|_| Error::limit("a list has more items than lengths can count"))?;
        let lengths = lists.lengths().map(|length| (length as i32).to_ne_bytes());
        let buf = space::filled(self.space, lengths)?;
        let own = Column::Values { buf, dtype: Dtype::I32, shape: vec![runs.len()] };
        gathered.lengths.insert(0, own);
        Ok(gathered)
    }

    /// A list column as one array, all rows being of one length.
    fn equal(
        self,
        path: &str,
        item: &DataType,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Gathered, Fault> {
        let lists = Lists::of(parts, runs, self.limit)?;
        self.check_null_lists(path, &lists)?;
        let mut there = lists.lengths().zip(lists.nulls()).filter(|(_, is_null)| !is_null);
        let width = there.next().map_or(0, |(len, _)| len);
        let odd = |(len, is_null): (usize, bool)| !is_null && len != width;
        if let Some(at) = lists.lengths().zip(lists.nulls()).position(odd) {
            let len = lists.lengths().nth(at).unwrap_or(0);
            let reason = format!(
                "a list of {len} items in a batch that begins with one of {width}; give \
                 ragged=\"pad\" or ragged=\"object\", or take single rows (batch_size=None)"
            );
            return Err(Fault::At { path: path.to_owned(), at, reason });
        }
        self.items(path, item, parts, &lists, width)
    }

    fn check_null_lists(self, path: &str, lists: &Lists) -> Result<(), Fault> {
        match lists.nulls().position(|is_null| is_null) {
            Some(at) if self.style.fill.is_none() => {
                Err(Fault::At { path: path.to_owned(), at, reason: NULL.to_owned() })
            }
            _ => Ok(()),
        }
    }

    /// The items of lists that are lengthened to `width`, as a column of rows.
    fn items(
        self,
        path: &str,
        item: &DataType,
        parts: &[ArrayRef],
        lists: &Lists,
        width: usize,
    ) -> Result<Gathered, Fault> {
        let items = lists.items_padded(width, self.limit)?;
        self.folded(path, item, parts, &items, (lists.len(), width))
    }

    /// Items, as many as rows of `width` have, as a column of these rows.
    fn folded(
        self,
        path: &str,
        item: &DataType,
        parts: &[ArrayRef],
        items: &Runs,
        (n, width): (usize, usize),
    ) -> Result<Gathered, Fault> {
        let inner = self.column(path, item, &lists::values(parts)?, items);
        let mut inner = inner.map_err(|fault| fault.lift(|at| at / width.max(1)))?;
        inner.fold(n, width);
        Ok(inner)
    }

    /// A fixed-size list column; what is around it is null where it is null.
    fn fixed(
        self,
        path: &str,
        item: &DataType,
        width: usize,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Gathered, Fault> {
        let runs = runs.without_nulls(parts, self.limit)?;
        self.limit.take(runs.len(), width)?;
        let mut items = Runs::default();
        for run in runs.iter() {
            let first = run.start.checked_mul(width);
            let first = first.ok_or_else(|| Error::corrupt("a fixed-size list is too wide"))?;
            items.push(run.from, first, run.len * width);
        }
        self.folded(path, item, parts, &items, (runs.len(), width))
    }

    /// The values that dictionaries or run-end encoded arrays refer to.
    fn encoded(
        self,
        path: &str,
        values: &DataType,
        parts: &[ArrayRef],
        runs: &Runs,
    ) -> Result<Gathered, Fault> {
        let referred = runs.referred(parts, self.limit)?;
        let parts: Vec<_> = parts.iter().map(referred_values).collect::<Result<_, _>>()?;
        self.column(path, values, &parts, &referred)
    }

    /// Values without a dtype.
    fn objects(self, parts: &[ArrayRef], runs: &Runs) -> Result<Column, Fault> {
        self.limit.take(runs.len(), size_of::<Value>())?;
        let mut cells = Vec::with_capacity(runs.len());
        for run in runs.iter() {
            let Origin::Part(part) = run.from else {
                cells.extend(std::iter::repeat_with(|| Value::None).take(run.len));
                continue;
            };
            let array = part_of(parts, part, run)?;
            for at in run.start..run.end() {
                cells.push(value(array, at, self.limit)?);
            }
        }
        Ok(Column::Objects { cells, shape: vec![runs.len()] })
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

/// Copies values of `stored` bytes as values of `width`: as they lie, or 32-bit integers as 64-bit
/// ones.
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
