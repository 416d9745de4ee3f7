//! Class ids of a shard, or of a data set, as those of all, which list other classes.

use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Int64Array, LargeListArray, LargeListViewArray, ListArray,
    ListViewArray, RecordBatch, StructArray, cast::AsArray, types::Int64Type,
};
use arrow_schema::{ArrowError, DataType, Schema};

use super::Table;
use crate::error::{Error, Result};

/// For dotted paths, the new id of each class.
pub(super) type NewIds = Vec<(String, Arc<[i64]>)>;

/// For columns of tables, the ids that their class ids become.
#[derive(Debug, Default)]
pub(crate) struct ClassIds(Vec<Column>);

#[derive(Debug)]
struct Column {
    /// Its index in the tables.
    index: usize,
    /// The names of the struct fields that lead to the ids.
    fields: Vec<String>,
    /// By the class id.
    ids: Arc<[i64]>,
}

impl ClassIds {
    /// Those of the columns of this schema.
    pub(super) fn of(schema: &Schema, new: &NewIds) -> Self {
        let mut columns = Vec::new();
        for (path, ids) in new {
            let Some((found, fields)) = locate(schema, path) else { continue };
            // A struct is there once for each of its fields that becomes a column.
            let name = schema.fields().get(found).map(|field| field.name());
            for (index, field) in schema.fields().iter().enumerate() {
                if Some(field.name()) == name {
                    let (fields, ids) = (fields.clone(), Arc::clone(ids));
                    columns.push(Column { index, fields, ids });
                }
            }
        }
        Self(columns)
    }

    /// Adds the class ids at this dotted path: `ids` has the new one of each. A column that `is_part`
    /// is the field of a struct, which may be there as well.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] where no 64-bit integers are there.
    pub(crate) fn add(
        &mut self,
        schema: &Schema,
        path: &str,
        ids: Vec<i64>,
        is_part: impl Fn(&str) -> bool,
    ) -> Result<()> {
        let leaf = leaf_type(schema, path);
        if leaf != Some(&DataType::Int64) {
            return Err(Error::schema(
                path,
                "its class ids are no int64, as datasets writes them, and so cannot become those of \
                 a mixture; write the column as int64, or leave it out with columns=[...]",
            ));
        }
        let ids: Arc<[i64]> = ids.into();
        for (index, fields) in columns_of(schema, path) {
            self.0.push(Column { index, fields, ids: Arc::clone(&ids) });
            if !schema.fields().get(index).is_some_and(|field| is_part(field.name())) {
                break;
            }
        }
        Ok(())
    }

    /// The table with the new ids. Negative ids, which mean no class, stay; those beyond the classes
    /// become -1.
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

/// The column at a dotted path, and the struct fields from there on; `None` without such a column.
fn locate(schema: &Schema, path: &str) -> Option<(usize, Vec<String>)> {
    columns_of(schema, path).into_iter().next()
}

/// All columns that a dotted path may begin with, and the fields from there on. The longest name is the
/// first, since a column's own name may have dots.
fn columns_of(schema: &Schema, path: &str) -> Vec<(usize, Vec<String>)> {
    let columns = schema.fields().iter().enumerate().filter_map(|(index, field)| {
        let rest = path.strip_prefix(field.name().as_str()).filter(|rest| is_path(rest))?;
        Some((rest.len(), index, rest.split('.').skip(1).map(str::to_owned).collect()))
    });
    let mut columns: Vec<(usize, usize, Vec<String>)> = columns.collect();
    columns.sort_by_key(|(rest, ..)| *rest);
    columns.into_iter().map(|(_, index, fields)| (index, fields)).collect()
}

/// The type of the class ids at a dotted path, through lists; `None` where there is nothing.
pub(super) fn leaf_type<'a>(schema: &'a Schema, path: &str) -> Option<&'a DataType> {
    use DataType as T;
    let (index, fields) = locate(schema, path)?;
    let (mut data_type, mut fields) = (schema.fields().get(index)?.data_type(), fields.iter());
    loop {
        data_type = match data_type {
            T::Struct(children) => children.find(fields.next()?)?.1.data_type(),
            T::List(item)
            | T::LargeList(item)
            | T::ListView(item)
            | T::LargeListView(item)
            | T::FixedSizeList(item, _) => item.data_type(),
            leaf => return fields.next().is_none().then_some(leaf),
        };
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
