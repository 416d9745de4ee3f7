//! Which leaves of the schema a projection needs.

use std::{collections::BTreeSet, ops::Range};

use ::parquet::schema::types::{SchemaDescriptor, Type};
use arrow_schema::{DataType, Fields};

use super::super::Projection;
use crate::{Error, Result};

/// The leaves of each column, and of each child of a column that is a group.
#[derive(Debug)]
pub(super) struct LeafMap {
    columns: Vec<ColumnLeaves>,
    /// Of each leaf, the product of the sizes of the fixed-size lists around it.
    padding: Vec<u64>,
}

#[derive(Debug)]
struct ColumnLeaves {
    all: Range<usize>,
    children: Vec<Range<usize>>,
}

impl LeafMap {
    pub(super) fn new(schema: &SchemaDescriptor, fields: &Fields) -> Self {
        let mut next = 0;
        let columns = schema.root_schema().get_fields().iter().map(|column| {
            let start = next;
            let mut children = Vec::new();
            if column.is_group() {
                for child in column.get_fields() {
                    let first = next;
                    next += n_leaves(child);
                    children.push(first..next);
                }
            } else {
                next += 1;
            }
            ColumnLeaves { all: start..next, children }
        });
        let columns = columns.collect();
        let mut padding = Vec::new();
        fields.iter().for_each(|field| add_padding(field.data_type(), 1, &mut padding));
        Self { columns, padding }
    }

    /// How many values a leaf has for each row at least, those of null lists included.
    pub(super) fn padding(&self, leaf: usize) -> u64 {
        self.padding.get(leaf).copied().unwrap_or(1)
    }

    fn column(&self, column: usize) -> Result<&ColumnLeaves> {
        self.columns.get(column).ok_or_else(missing)
    }

    /// The only leaf of a column; `None` where it has several.
    pub(super) fn only(&self, column: usize) -> Option<usize> {
        let all = &self.columns.get(column)?.all;
        (all.len() == 1).then_some(all.start)
    }

    /// The leaf of a blob column, or of its child.
    pub(super) fn blob(&self, column: usize, child: Option<usize>) -> Result<usize> {
        let column = self.column(column)?;
        let leaves = child.map_or(Some(&column.all), |child| column.children.get(child));
        leaves.filter(|leaves| leaves.len() == 1).map(|leaves| leaves.start).ok_or_else(missing)
    }

    /// The leaves of the small columns of a projection.
    pub(super) fn small(&self, projection: &Projection) -> Result<BTreeSet<usize>> {
        let mut leaves = BTreeSet::new();
        for small in &projection.small {
            let column = self.column(small.column)?;
            match &small.children {
                None => leaves.extend(column.all.clone()),
                Some(kept) => {
                    for child in kept {
                        leaves.extend(column.children.get(*child).cloned().ok_or_else(missing)?);
                    }
                }
            }
        }
        Ok(leaves)
    }

    /// The columns that have one of these leaves, in order.
    pub(super) fn columns_of(&self, leaves: &BTreeSet<usize>) -> Vec<usize> {
        let has = |column: &ColumnLeaves| leaves.range(column.all.clone()).next().is_some();
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

    /// The children of a column that have one of these leaves, in order.
    pub(super) fn children_of(
        &self,
        column: usize,
        leaves: &BTreeSet<usize>,
    ) -> Result<Vec<usize>> {
        let children = self.column(column)?.children.iter().enumerate();
        let with = children.filter(|(_, child)| leaves.range((*child).clone()).next().is_some());
        Ok(with.map(|(number, _)| number).collect())
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

/// The schema's depth was checked.
fn n_leaves(of: &Type) -> usize {
    if of.is_group() { of.get_fields().iter().map(|child| n_leaves(child)).sum() } else { 1 }
}

pub(super) fn missing() -> Error {
    Error::schema("", "a projected column is missing from this shard")
}
