//! The items of lists: lists, large lists, list views, fixed-size lists and maps.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::{DataType, FieldRef};

use super::{
    copy_plan::{CopyPlan, CopySource, array_of},
    size_limit::SizeLimit,
};
use crate::error::{Error, Result};

/// The field of a list's items, if the type is a list of variable length.
pub(super) fn list_item(data_type: &DataType) -> Option<&FieldRef> {
    use DataType as T;
    match data_type {
        T::List(item) | T::LargeList(item) | T::ListView(item) | T::LargeListView(item) => {
            Some(item)
        }
        _ => None,
    }
}

/// The offsets of the items of each list.
#[derive(Debug)]
enum Offsets<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    NarrowViews(&'a [i32], &'a [i32]),
    WideViews(&'a [i64], &'a [i64]),
    Fixed(usize),
}

impl Offsets<'_> {
    /// The index of a list's first item, and the number of its items.
    fn get(&self, at: usize) -> Option<(usize, usize)> {
        let (start, len) = match self {
            Self::Fixed(width) => return Some((at.checked_mul(*width)?, *width)),
            Self::Narrow(offsets) => {
                let start = i64::from(*offsets.get(at)?);
                (start, i64::from(*offsets.get(at + 1)?) - start)
            }
            Self::Wide(offsets) => {
                let start = *offsets.get(at)?;
                (start, offsets.get(at + 1)?.checked_sub(start)?)
            }
            Self::NarrowViews(offsets, sizes) => {
                (i64::from(*offsets.get(at)?), i64::from(*sizes.get(at)?))
            }
            Self::WideViews(offsets, sizes) => (*offsets.get(at)?, *sizes.get(at)?),
        };
        Some((usize::try_from(start).ok()?, usize::try_from(len).ok()?))
    }
}

/// The offsets and the items of a list array.
struct ListArray<'a> {
    offsets: Offsets<'a>,
    items: ArrayRef,
}

impl<'a> ListArray<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let (offsets, items) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Offsets::Narrow(list.value_offsets()), Arc::clone(list.values()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Offsets::Wide(list.value_offsets()), Arc::clone(list.values()))
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let offsets = Offsets::NarrowViews(list.value_offsets(), list.value_sizes());
                (offsets, Arc::clone(list.values()))
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let offsets = Offsets::WideViews(list.value_offsets(), list.value_sizes());
                (offsets, Arc::clone(list.values()))
            }
            DataType::FixedSizeList(_, width) => {
                let list = array.as_fixed_size_list();
                let width = usize::try_from(*width).unwrap_or(0);
                (Offsets::Fixed(width), Arc::clone(list.values()))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                (Offsets::Narrow(map.value_offsets()), entries)
            }
            other => return Err(Error::corrupt(format!("{other} is not a list"))),
        };
        Ok(Self { offsets, items })
    }
}

/// The arrays of items.
pub(super) fn item_arrays(arrays: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    arrays.iter().map(|array| Ok(ListArray::of(array)?.items)).collect()
}

/// The array of one list's items, the index of the first, and their number.
pub(crate) fn items_of(array: &ArrayRef, at: usize) -> Result<(ArrayRef, usize, usize)> {
    let list = ListArray::of(array)?;
    let (start, len) = list.offsets.get(at).ok_or_else(outside)?;
    if start.checked_add(len).is_none_or(|end| end > list.items.len()) {
        return Err(outside());
    }
    Ok((list.items, start, len))
}

/// The lists of a plan.
#[derive(Debug, Default)]
pub(super) struct Lists {
    /// The source of each list's items, the index of the first, and their number.
    items: Vec<(CopySource, usize, usize)>,
}

impl Lists {
    /// The lists that `plan` names.
    pub(super) fn of(arrays: &[ArrayRef], plan: &CopyPlan, limit: &SizeLimit) -> Result<Self> {
        limit.take(plan.len(), size_of::<(CopySource, usize, usize)>())?;
        let lists = arrays.iter().map(ListArray::of).collect::<Result<Vec<_>>>()?;
        let mut items = Vec::with_capacity(plan.len());
        for range in plan.iter() {
            let CopySource::Array(number) = range.source else {
                items.extend(std::iter::repeat_n((range.source, 0, 0), range.len));
                continue;
            };
            let array = array_of(arrays, number, range)?;
            let list = lists.get(number).ok_or_else(outside)?;
            for at in range.start..range.end() {
                if array.is_null(at) {
                    items.push((CopySource::Null, 0, 0));
                    continue;
                }
                let (start, len) = list.offsets.get(at).ok_or_else(outside)?;
                items.push((range.source, start, len));
            }
        }
        Ok(Self { items })
    }

    /// The number of lists.
    pub(super) fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether each list is null.
    pub(super) fn nulls(&self) -> impl Iterator<Item = bool> {
        self.items.iter().map(|(source, ..)| *source == CopySource::Null)
    }

    /// The number of items of each list; 0 for missing ones.
    pub(super) fn lengths(&self) -> impl ExactSizeIterator<Item = usize> {
        self.items.iter().map(|(.., len)| *len)
    }

    /// The index of the list that has item `at` of all lists' items.
    pub(super) fn list_of(&self, at: usize) -> usize {
        let mut ends = self.lengths().scan(0, |end, len| {
            *end += len;
            Some(*end)
        });
        ends.position(|end| at < end).unwrap_or(0)
    }

    /// The items of all lists.
    pub(super) fn items(&self, limit: &SizeLimit) -> Result<CopyPlan> {
        limit.take(self.lengths().try_fold(0, usize::checked_add).unwrap_or(usize::MAX), 1)?;
        let mut plan = CopyPlan::default();
        for (source, start, len) in &self.items {
            plan.push(*source, *start, *len);
        }
        Ok(plan)
    }

    /// The items of all lists, each padded or cut to `width` items, which are null in a null list.
    pub(super) fn items_padded(&self, width: usize, limit: &SizeLimit) -> Result<CopyPlan> {
        limit.take(self.items.len(), width)?;
        let mut plan = CopyPlan::default();
        for (source, start, len) in &self.items {
            plan.push(*source, *start, (*len).min(width));
            let is_null = *source == CopySource::Null;
            let padding = if is_null { CopySource::Null } else { CopySource::Padding };
            plan.push(padding, 0, width.saturating_sub(*len));
        }
        Ok(plan)
    }
}

fn outside() -> Error {
    Error::corrupt("the items of a list lie outside its column")
}
