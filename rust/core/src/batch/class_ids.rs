//! Class ids of one data set as those of a mixture, whose data sets list other classes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int64Array, LargeListArray, LargeListViewArray, ListArray,
    ListViewArray, RecordBatch, StructArray, cast::AsArray, types::Int64Type,
};
use arrow_schema::{ArrowError, DataType, Schema};

use crate::{
    error::{Error, Result},
    shard::Table,
};

/// For columns of a data set's tables, the ids that its class ids become.
#[derive(Debug, Default)]
pub(crate) struct ClassIds(Vec<Column>);

#[derive(Debug)]
struct Column {
    /// Its index in the tables.
    index: usize,
    /// The names of the struct fields that lead to the ids.
    fields: Vec<String>,
    /// By the data set's id.
    ids: Vec<i64>,
}

impl ClassIds {
    /// Adds the class ids at this dotted path: `ids` has the new one of each.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] where no 64-bit integers are there.
    pub(crate) fn add(&mut self, schema: &Schema, path: &str, ids: Vec<i64>) -> Result<()> {
        let rest_of = |name: &str| path.strip_prefix(name).filter(|rest| is_path(rest));
        // A column's own name may have dots.
        let columns = schema.fields().iter().enumerate();
        let columns = columns.filter(|(_, field)| rest_of(field.name()).is_some());
        let found = columns.max_by_key(|(_, field)| field.name().len());
        let rest = found.and_then(|(_, field)| rest_of(field.name())).unwrap_or_default();
        let fields: Vec<String> = rest.split('.').skip(1).map(str::to_owned).collect();
        let Some((index, _)) = found.filter(|(_, f)| has_ids(f.data_type(), &fields)) else {
            return Err(Error::schema(
                path,
                "its class ids are no int64, as datasets writes them, and so cannot become those of \
                 a mixture; write the column as int64, or leave it out with columns=[...]",
            ));
        };
        self.0.push(Column { index, fields, ids });
        Ok(())
    }

    /// The table with the ids of the mixture. Negative ids, which mean no class, stay; those beyond
    /// the data set's classes become -1.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Corrupt`] where the table is not of the schema.
    pub(crate) fn apply(&self, mut table: Table) -> Result<Table> {
        if self.0.is_empty() {
            return Ok(table);
        }
        let mut columns = table.columns.columns().to_vec();
        for Column { index, fields, ids } in &self.0 {
            if let Some(column) = columns.get_mut(*index) {
                *column = with_ids(column, fields, ids).map_err(|e| corrupt(&e))?;
                table.n_bytes = table.n_bytes.saturating_add(column.get_buffer_memory_size());
            }
        }
        table.columns =
            RecordBatch::try_new(table.columns.schema(), columns).map_err(|e| corrupt(&e))?;
        Ok(table)
    }
}

/// Whether this may follow the name of a column in a dotted path.
fn is_path(rest: &str) -> bool {
    rest.is_empty() || rest.starts_with('.')
}

fn corrupt(error: &ArrowError) -> Error {
    Error::corrupt(error.to_string())
}

/// Whether these fields lead to 64-bit integers.
fn has_ids(data_type: &DataType, fields: &[String]) -> bool {
    use DataType as T;
    match data_type {
        T::Int64 => fields.is_empty(),
        T::Struct(children) => fields.split_first().is_some_and(|(name, rest)| {
            children.find(name).is_some_and(|(_, child)| has_ids(child.data_type(), rest))
        }),
        T::List(item)
        | T::LargeList(item)
        | T::ListView(item)
        | T::LargeListView(item)
        | T::FixedSizeList(item, _) => has_ids(item.data_type(), fields),
        _ => false,
    }
}

fn with_ids(array: &ArrayRef, fields: &[String], ids: &[i64]) -> Result<ArrayRef, ArrowError> {
    let of_list = |values: &ArrayRef| with_ids(values, fields, ids);
    Ok(match array.data_type() {
        DataType::Int64 => Arc::new(mapped(array.as_primitive::<Int64Type>(), ids)),
        DataType::Struct(children) => {
            let (children, mut columns, nulls) =
                (children.clone(), array.as_struct().columns().to_vec(), array.nulls());
            if let Some((name, rest)) = fields.split_first()
                && let Some((k, _)) = children.find(name)
                && let Some(column) = columns.get_mut(k)
            {
                *column = with_ids(column, rest, ids)?;
            }
            Arc::new(StructArray::try_new_with_length(
                children,
                columns,
                nulls.cloned(),
                array.len(),
            )?)
        }
        DataType::List(_) => {
            let (item, offsets, values, nulls) = array.as_list::<i32>().clone().into_parts();
            Arc::new(ListArray::try_new(item, offsets, of_list(&values)?, nulls)?)
        }
        DataType::LargeList(_) => {
            let (item, offsets, values, nulls) = array.as_list::<i64>().clone().into_parts();
            Arc::new(LargeListArray::try_new(item, offsets, of_list(&values)?, nulls)?)
        }
        DataType::ListView(_) => {
            let list: &ListViewArray = array.as_list_view::<i32>();
            let (item, offsets, sizes, values, nulls) = list.clone().into_parts();
            Arc::new(ListViewArray::try_new(item, offsets, sizes, of_list(&values)?, nulls)?)
        }
        DataType::LargeListView(_) => {
            let list: &LargeListViewArray = array.as_list_view::<i64>();
            let (item, offsets, sizes, values, nulls) = list.clone().into_parts();
            Arc::new(LargeListViewArray::try_new(item, offsets, sizes, of_list(&values)?, nulls)?)
        }
        DataType::FixedSizeList(..) => {
            let (item, width, values, nulls) = array.as_fixed_size_list().clone().into_parts();
            Arc::new(FixedSizeListArray::try_new(item, width, of_list(&values)?, nulls)?)
        }
        _ => Arc::clone(array),
    })
}

fn mapped(array: &Int64Array, ids: &[i64]) -> Int64Array {
    array.unary(|id| match usize::try_from(id) {
        Ok(at) => ids.get(at).copied().unwrap_or(-1),
        Err(_) => id,
    })
}
