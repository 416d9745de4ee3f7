//! The items of lists: lists, large lists, list views, fixed-size lists and maps.

use std::sync::Arc;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::{DataType, FieldRef};

use super::{
    limit::Limit,
    runs::{Origin, Runs, part_of},
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

/// Where the items of each list lie.
#[derive(Debug)]
enum Places<'a> {
    Narrow(&'a [i32]),
    Wide(&'a [i64]),
    NarrowViews(&'a [i32], &'a [i32]),
    WideViews(&'a [i64], &'a [i64]),
    Fixed(usize),
}

impl Places<'_> {
    /// The first item of a list, and their number.
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

/// A list array taken apart.
struct Items<'a> {
    places: Places<'a>,
    values: ArrayRef,
}

impl<'a> Items<'a> {
    fn of(array: &'a ArrayRef) -> Result<Self> {
        let (places, values) = match array.data_type() {
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Places::Narrow(list.value_offsets()), Arc::clone(list.values()))
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Places::Wide(list.value_offsets()), Arc::clone(list.values()))
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                let places = Places::NarrowViews(list.value_offsets(), list.value_sizes());
                (places, Arc::clone(list.values()))
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                let places = Places::WideViews(list.value_offsets(), list.value_sizes());
                (places, Arc::clone(list.values()))
            }
            DataType::FixedSizeList(_, width) => {
                let list = array.as_fixed_size_list();
                let width = usize::try_from(*width).unwrap_or(0);
                (Places::Fixed(width), Arc::clone(list.values()))
            }
            DataType::Map(..) => {
                let map = array.as_map();
                let entries: ArrayRef = Arc::new(map.entries().clone());
                (Places::Narrow(map.value_offsets()), entries)
            }
            other => return Err(Error::corrupt(format!("{other} is not a list"))),
        };
        Ok(Self { places, values })
    }
}

/// The arrays of items.
pub(super) fn values(parts: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    parts.iter().map(|part| Ok(Items::of(part)?.values)).collect()
}

/// The items of one list, and the array that they are in.
pub(super) fn items_of(array: &ArrayRef, at: usize) -> Result<(ArrayRef, usize, usize)> {
    let items = Items::of(array)?;
    let (start, len) = items.places.get(at).ok_or_else(outside)?;
    if start.checked_add(len).is_none_or(|end| end > items.values.len()) {
        return Err(outside());
    }
    Ok((items.values, start, len))
}

/// The lists of a plan: where the items of each are, and where a list is null or padding.
#[derive(Debug, Default)]
pub(super) struct Lists {
    places: Vec<(Origin, usize, usize)>,
}

impl Lists {
    /// Looks every list up.
    pub(super) fn of(parts: &[ArrayRef], runs: &Runs, limit: &Limit) -> Result<Self> {
        limit.take(runs.len(), size_of::<(Origin, usize, usize)>())?;
        let parts_items = parts.iter().map(Items::of).collect::<Result<Vec<_>>>()?;
        let mut places = Vec::with_capacity(runs.len());
        for run in runs.iter() {
            let Origin::Part(part) = run.from else {
                places.extend(std::iter::repeat_n((run.from, 0, 0), run.len));
                continue;
            };
            let array = part_of(parts, part, run)?;
            let items = parts_items.get(part).ok_or_else(outside)?;
            for at in run.start..run.end() {
                if array.is_null(at) {
                    places.push((Origin::Null, 0, 0));
                    continue;
                }
                let (start, len) = items.places.get(at).ok_or_else(outside)?;
                places.push((run.from, start, len));
            }
        }
        Ok(Self { places })
    }

    /// The number of lists.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// Whether each list is null.
    pub(super) fn nulls(&self) -> impl Iterator<Item = bool> {
        self.places.iter().map(|(from, ..)| *from == Origin::Null)
    }

    /// The number of items of each list; missing ones have none.
    pub(super) fn lengths(&self) -> impl ExactSizeIterator<Item = usize> {
        self.places.iter().map(|(.., len)| *len)
    }

    /// The list that holds item `at` of all of them, one list after another.
    pub(super) fn holding(&self, at: usize) -> usize {
        let mut ends = self.lengths().scan(0, |end, len| {
            *end += len;
            Some(*end)
        });
        ends.position(|end| at < end).unwrap_or(0)
    }

    /// The items of all lists, one list after another.
    pub(super) fn items(&self, limit: &Limit) -> Result<Runs> {
        limit.take(self.lengths().try_fold(0, usize::checked_add).unwrap_or(usize::MAX), 1)?;
        let mut runs = Runs::default();
        for (from, start, len) in &self.places {
            runs.push(*from, *start, *len);
        }
        Ok(runs)
    }

    /// The same, each list lengthened to `width` items, which are null in a null list.
    pub(super) fn items_padded(&self, width: usize, limit: &Limit) -> Result<Runs> {
        limit.take(self.places.len(), width)?;
        let mut runs = Runs::default();
        for (from, start, len) in &self.places {
            runs.push(*from, *start, *len);
            let behind = if *from == Origin::Null { Origin::Null } else { Origin::Pad };
            runs.push(behind, 0, width.saturating_sub(*len));
        }
        Ok(runs)
    }
}

fn outside() -> Error {
    Error::corrupt("the items of a list lie outside its column")
}
