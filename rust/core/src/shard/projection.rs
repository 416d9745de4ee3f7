//! Which columns are wanted, and which of them are read row by row.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields, Schema, SchemaRef};

use super::schema;
use crate::{Error, Result};

/// The name of the child that holds the bytes in a struct of audio, image or file.
const BYTES: &str = "bytes";

/// The wanted columns of shards, by the schema that these have in common.
#[derive(Clone, Debug)]
pub struct Projection {
    source: SchemaRef,
    pub(super) small: Vec<SmallColumn>,
    small_schema: SchemaRef,
    pub(super) blobs: Vec<BlobField>,
}

/// A column of [`Table::columns`](super::Table::columns).
#[derive(Clone, Debug)]
pub(super) struct SmallColumn {
    /// Its index in the schema.
    pub(super) column: usize,
    /// A struct's children to keep; `None` keeps the column whole.
    pub(super) children: Option<Vec<usize>>,
}

/// A blob column's field in the schema.
#[derive(Clone, Debug)]
pub(super) struct BlobField {
    /// The column's index.
    pub(super) column: usize,
    /// The index of `bytes`, where the column is a struct.
    pub(super) child: Option<usize>,
    /// Whether offsets have 64 bits.
    pub(super) large: bool,
}

impl Projection {
    /// The given columns in the given order (`None`: all, in the schema's order). Those in
    /// `blob_columns` are read row by row.
    ///
    /// A blob column is a binary or large binary column, or a struct whose child `bytes` is one.
    /// Such a struct stays among the small columns, without `bytes`, when it has other children.
    /// Of a blob column that is not in `columns`, only `bytes` is read.
    ///
    /// # Errors
    ///
    /// `Schema` for a column that does not exist or is not of a blob's type.
    pub fn new(
        schema: &Schema,
        columns: Option<&[String]>,
        blob_columns: &[String],
    ) -> Result<Self> {
        Self::build(schema, columns, blob_columns, true)
    }

    /// As [`Projection::new`], but of a blob column's struct only `bytes` is read.
    ///
    /// # Errors
    ///
    /// As [`Projection::new`].
    pub fn without_siblings(
        schema: &Schema,
        columns: Option<&[String]>,
        blob_columns: &[String],
    ) -> Result<Self> {
        Self::build(schema, columns, blob_columns, false)
    }

    /// Only the children beside `bytes` of this blob column's struct; `None` where there are none.
    pub fn of_siblings(schema: &Schema, blob_column: &str) -> Option<Self> {
        let names = [blob_column.to_owned()];
        let mut projection = Self::new(schema, Some(&names), &names).ok()?;
        projection.blobs.clear();
        (!projection.small.is_empty()).then_some(projection)
    }

    /// These columns (`None`: all) without what is read row by row: of a struct with binary `bytes`,
    /// such as audio, only the other children.
    ///
    /// # Errors
    ///
    /// `Schema` for a column that does not exist.
    pub fn of_small(schema: &Schema, columns: Option<&[String]>) -> Result<Self> {
        let is_blob = |field: &&FieldRef| {
            matches!(field.data_type(), DataType::Struct(_))
                && columns.is_none_or(|columns| columns.contains(field.name()))
                && blob_column(schema, field.name()).is_ok()
        };
        let blobs = schema.fields().iter().filter(is_blob);
        let blobs: Vec<String> = blobs.map(|field| field.name().clone()).collect();
        let mut projection = Self::new(schema, columns, &blobs)?;
        projection.blobs.clear();
        Ok(projection)
    }

    /// Only the columns that may be blobs; `None` where there are none.
    pub(super) fn of_blobs(schema: &Schema) -> Option<Self> {
        let names = schema.fields().iter().map(|field| field.name());
        let names: Vec<_> =
            names.filter(|name| blob_column(schema, name).is_ok()).cloned().collect();
        if names.is_empty() { None } else { Self::new(schema, Some(&[]), &names).ok() }
    }

    fn build(
        schema: &Schema,
        columns: Option<&[String]>,
        blob_columns: &[String],
        siblings: bool,
    ) -> Result<Self> {
        let mut blobs = Vec::with_capacity(blob_columns.len());
        for name in blob_columns {
            blobs.push(blob_column(schema, name)?);
        }
        let mut wanted: Vec<usize> = Vec::new();
        match columns {
            None => wanted.extend(0..schema.fields().len()),
            Some(names) => {
                for name in names {
                    let column = find(schema, name)?;
                    if !wanted.contains(&column) {
                        wanted.push(column);
                    }
                }
            }
        }
        let mut small = Vec::with_capacity(wanted.len());
        for column in wanted {
            match blobs.iter().find(|blob| blob.column == column) {
                None => small.push(SmallColumn { column, children: None }),
                Some(blob) => {
                    let children = siblings.then(|| blob.siblings(schema)).flatten();
                    small.extend(children.map(|c| SmallColumn { column, children: Some(c) }));
                }
            }
        }
        Ok(Self::of_columns(Arc::new(schema.clone()), small, blobs))
    }

    fn of_columns(source: SchemaRef, small: Vec<SmallColumn>, blobs: Vec<BlobField>) -> Self {
        let small_schema = Arc::new(Schema::empty());
        let mut projection = Self { source, small, small_schema, blobs };
        let fields = projection.small_fields(&projection.source);
        projection.small_schema = Arc::new(Schema::new(fields));
        projection
    }

    /// The fields of [`Table::columns`](super::Table::columns).
    pub fn small_schema(&self) -> SchemaRef {
        Arc::clone(&self.small_schema)
    }

    /// How many blob columns there are; they keep the order in which they were given.
    pub fn n_blobs(&self) -> usize {
        self.blobs.len()
    }

    /// The same columns by their names in a shard, whose own schema this is.
    ///
    /// # Errors
    ///
    /// `Schema` for a column that the shard does not have, or whose `bytes` are not binary there.
    pub(super) fn of_shard(&self, shard: &SchemaRef) -> Result<Self> {
        let name = |column: usize| self.source.fields().get(column).map(|field| field.name());
        let small = self.small.iter().filter_map(|small| {
            let name = name(small.column)?;
            Some(find(shard, name).map(|column| self.small_of_shard(small, shard, column)))
        });
        let small = small.collect::<Result<Vec<_>>>()?;
        let blobs = self.blobs.iter().filter_map(|blob| name(blob.column));
        let blobs = blobs.map(|name| blob_column(shard, name)).collect::<Result<_>>()?;
        Ok(Self::of_columns(Arc::clone(shard), small, blobs))
    }

    /// The column of a shard that `small` is, with the same children by name.
    fn small_of_shard(&self, small: &SmallColumn, shard: &Schema, column: usize) -> SmallColumn {
        let data_type = |schema: &Schema, at: usize| {
            schema.fields().get(at).map(|field| field.data_type().clone())
        };
        let types = (data_type(&self.source, small.column), data_type(shard, column));
        let children = match (&small.children, types) {
            (Some(kept), (Some(DataType::Struct(children)), Some(DataType::Struct(own)))) => {
                let names = kept.iter().filter_map(|child| children.get(*child));
                Some(names.filter_map(|child| Some(own.find(child.name())?.0)).collect())
            }
            _ => None,
        };
        SmallColumn { column, children }
    }

    /// Refuses a shard of another schema.
    pub(super) fn check_schema(&self, shard: &SchemaRef) -> Result<()> {
        if Arc::ptr_eq(&self.source, shard) {
            return Ok(());
        }
        match schema::first_difference(self.source.fields(), shard.fields()) {
            None => Ok(()),
            Some((column, what)) => Err(Error::schema(
                column,
                format!("not as in the schema that was asked for: {what}"),
            )),
        }
    }

    /// The small columns' fields as this shard has them: dictionary ids differ between shards.
    pub(super) fn small_fields(&self, shard: &Schema) -> Vec<FieldRef> {
        let field = |small: &SmallColumn| {
            let field = shard.fields().get(small.column)?;
            match (&small.children, field.data_type()) {
                (Some(kept), DataType::Struct(children)) => {
                    Some(with_children(field, children, kept))
                }
                _ => Some(Arc::clone(field)),
            }
        };
        self.small.iter().filter_map(field).collect()
    }

    /// The blob columns' fields, a struct reduced to its `bytes`.
    pub(super) fn blob_fields(&self, shard: &Schema) -> Vec<FieldRef> {
        let field = |blob: &BlobField| {
            let field = shard.fields().get(blob.column)?;
            match (blob.child, field.data_type()) {
                (Some(child), DataType::Struct(children)) => {
                    Some(with_children(field, children, &[child]))
                }
                _ => Some(Arc::clone(field)),
            }
        };
        self.blobs.iter().filter_map(field).collect()
    }
}

impl BlobField {
    /// The struct's children beside `bytes`, if there are any.
    fn siblings(&self, schema: &Schema) -> Option<Vec<usize>> {
        let DataType::Struct(children) = schema.fields().get(self.column)?.data_type() else {
            return None;
        };
        let kept: Vec<usize> = (0..children.len()).filter(|i| Some(*i) != self.child).collect();
        (!kept.is_empty()).then_some(kept)
    }
}

fn with_children(field: &Field, children: &Fields, kept: &[usize]) -> FieldRef {
    let kept: Fields = kept.iter().filter_map(|index| children.get(*index).cloned()).collect();
    Arc::new(field.clone().with_data_type(DataType::Struct(kept)))
}

fn find(schema: &Schema, name: &str) -> Result<usize> {
    schema.fields().iter().position(|field| field.name() == name).ok_or_else(|| {
        let names: Vec<_> = schema.fields().iter().map(|f| f.name().as_str()).collect();
        Error::schema(name, format!("there is no such column; there are: {}", names.join(", ")))
    })
}

fn blob_column(schema: &Schema, name: &str) -> Result<BlobField> {
    let column = find(schema, name)?;
    let data_type = schema.fields().get(column).map(|field| field.data_type());
    let large = |data_type: &DataType| match data_type {
        DataType::Binary => Some(false),
        DataType::LargeBinary => Some(true),
        _ => None,
    };
    let found = match data_type {
        Some(DataType::Struct(children)) => children
            .find(BYTES)
            .and_then(|(child, field)| Some((Some(child), large(field.data_type())?))),
        Some(data_type) => large(data_type).map(|large| (None, large)),
        None => None,
    };
    let (child, large) = found.ok_or_else(|| {
        let is = data_type.map(ToString::to_string).unwrap_or_default();
        Error::schema(
            name,
            format!(
                "encoded audio must be binary or a struct with binary 'bytes', but this is {is}"
            ),
        )
    })?;
    Ok(BlobField { column, child, large })
}
