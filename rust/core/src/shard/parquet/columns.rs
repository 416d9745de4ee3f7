//! Which leaves of the schema a projection needs.

use std::{collections::BTreeSet, ops::Range};

use ::parquet::schema::types::{SchemaDescriptor, Type};
use arrow_schema::{DataType, Fields};

use super::super::{Projection, blob_field::BlobField, children::Children};
use crate::{Error, Result};

/// The leaves of each column.
#[derive(Debug)]
pub(super) struct LeafMap {
    columns: Vec<Leaves>,
    /// Of each leaf, the product of the sizes of the fixed-size lists around it.
    padding: Vec<u64>,
}

/// The leaves of a field, and of each of its children where it is a group.
#[derive(Debug)]
pub(super) struct Leaves {
    all: Range<usize>,
    children: Vec<Leaves>,
}

impl Leaves {
    /// Those from `next` on. The schema's depth was checked.
    fn of(field: &Type, next: &mut usize) -> Self {
        let start = *next;
        let children = if field.is_group() {
            field.get_fields().iter().map(|child| Self::of(child, next)).collect()
        } else {
            *next += 1;
            Vec::new()
        };
        Self { all: start..*next, children }
    }

    /// Adds those of some children; of all without that.
    fn add(&self, kept: Option<&Children>, leaves: &mut BTreeSet<usize>) -> Result<()> {
        let Some(kept) = kept else {
            leaves.extend(self.all.clone());
            return Ok(());
        };
        for (child, inner) in kept.iter() {
            self.child(child)?.add(inner, leaves)?;
        }
        Ok(())
    }

    /// Those of a child.
    pub(super) fn child(&self, child: usize) -> Result<&Self> {
        self.children.get(child).ok_or_else(missing)
    }

    /// The place of a child among those that have one of these leaves.
    pub(super) fn place(&self, child: usize, leaves: &BTreeSet<usize>) -> Option<usize> {
        let has = |of: &Self| leaves.range(of.all.clone()).next().is_some();
        let (before, rest) = self.children.split_at_checked(child)?;
        let is_there = rest.first().is_some_and(has);
        is_there.then(|| before.iter().filter(|child| has(child)).count())
    }
}

impl LeafMap {
    pub(super) fn new(schema: &SchemaDescriptor, fields: &Fields) -> Self {
        let mut next = 0;
        let columns = schema.root_schema().get_fields().iter();
        let columns = columns.map(|column| Leaves::of(column, &mut next)).collect();
        let mut padding = Vec::new();
        fields.iter().for_each(|field| add_padding(field.data_type(), 1, &mut padding));
        Self { columns, padding }
    }

    /// How many values a leaf has for each row at least, those of null lists included.
    pub(super) fn padding(&self, leaf: usize) -> u64 {
        self.padding.get(leaf).copied().unwrap_or(1)
    }

    /// The leaves of a column.
    pub(super) fn column(&self, column: usize) -> Result<&Leaves> {
        self.columns.get(column).ok_or_else(missing)
    }

    /// The only leaf of a column; `None` where it has several.
    pub(super) fn only(&self, column: usize) -> Option<usize> {
        let all = &self.columns.get(column)?.all;
        (all.len() == 1).then_some(all.start)
    }

    /// The leaf of a blob column.
    pub(super) fn blob(&self, blob: &BlobField) -> Result<usize> {
        let column = self.column(blob.column)?;
        let leaves = blob.path.iter().try_fold(column, |of, child| of.child(*child))?;
        if leaves.all.len() == 1 { Ok(leaves.all.start) } else { Err(missing()) }
    }

    /// The leaves of the small columns of a projection.
    pub(super) fn small(&self, projection: &Projection) -> Result<BTreeSet<usize>> {
        let mut leaves = BTreeSet::new();
        for small in &projection.small {
            self.column(small.column)?.add(small.children.as_ref(), &mut leaves)?;
        }
        Ok(leaves)
    }

    /// The columns that have one of these leaves, in order.
    pub(super) fn columns_of(&self, leaves: &BTreeSet<usize>) -> Vec<usize> {
        let has = |column: &Leaves| leaves.range(column.all.clone()).next().is_some();
        let columns = self.columns.iter().enumerate().filter(|(_, column)| has(column));
        columns.map(|(number, _)| number).collect()
    }

    /// Those of these leaves that are of a column.
    pub(super) fn of_column<'a>(
        &self,
        column: usize,
        leaves: &'a BTreeSet<usize>,
    ) -> impl Iterator<Item = usize> + use<'a> {
        let all = self.columns.get(column).map_or(0..0, |column| column.all.clone());
        leaves.range(all).copied()
    }
}

/// Adds the padding of the leaves of a column. The schema's depth was checked.
fn add_padding(of: &DataType, around: u64, leaves: &mut Vec<u64>) {
    match of {
        DataType::FixedSizeList(items, n) => {
            let n = around.saturating_mul((*n).max(0) as u64);
            add_padding(items.data_type(), n, leaves);
        }
        DataType::List(items)
        | DataType::LargeList(items)
        | DataType::ListView(items)
        | DataType::LargeListView(items)
        | DataType::Map(items, _) => add_padding(items.data_type(), around, leaves),
        DataType::Struct(fields) => {
            fields.iter().for_each(|field| add_padding(field.data_type(), around, leaves));
        }
        _ => leaves.push(around),
    }
}

pub(super) fn missing() -> Error {
    Error::schema("", "a projected column is missing from this shard")
}
