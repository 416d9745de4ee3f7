//! Which columns are wanted, and which of them are read row by row.

use std::sync::Arc;

use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Schema, SchemaRef};

use super::{
    Table,
    blob_field::{BlobField, has_binary, holds_paths, is_bytes},
    children::Children,
    extension, guard, nested, schema,
};
use crate::{Error, Result};

/// The wanted columns of shards, by the schema that these have in common.
#[derive(Clone, Debug)]
pub struct Projection {
    source: SchemaRef,
    pub(super) small: Vec<SmallColumn>,
    /// The small columns as they are read, before extension types become what they stand for, and fields
    /// of structs columns of their own.
    read_schema: SchemaRef,
    small_schema: SchemaRef,
    pub(super) blobs: Vec<BlobField>,
    /// Whether one more blob column follows, which is text: paths of recordings. Its blobs are null.
    has_paths: bool,
}

/// A field of a struct by its dotted path, and by the index of each field on it.
type Part = (String, Vec<usize>);

/// A column of [`Table::columns`](super::Table::columns).
#[derive(Clone, Debug)]
pub(super) struct SmallColumn {
    /// Its index in the schema.
    pub(super) column: usize,
    /// A struct's children to keep; `None` keeps the column whole.
    pub(super) children: Option<Children>,
    /// The field that is wanted of it; `None` for the column.
    pub(super) field: Option<Part>,
}

/// What a projection has beside the columns that are named.
#[derive(Clone, Copy, Default)]
struct Kind {
    /// The children beside `bytes` of blob columns.
    siblings: bool,
    /// Paths of recordings, as the last blob column.
    paths: bool,
}

impl Kind {
    const WITH_SIBLINGS: Self = Self { siblings: true, paths: false };
}

impl SmallColumn {
    fn whole(column: usize) -> Self {
        Self { column, children: None, field: None }
    }

    fn some(column: usize, children: Children) -> Self {
        Self { column, children: Some(children), field: None }
    }

    /// The field at this path of a column. Of structs with recordings, only that is read.
    fn of_field(schema: &Schema, column: usize, name: String, path: Vec<usize>) -> Result<Self> {
        let of = schema.fields().get(column).map_or(&DataType::Null, |field| field.data_type());
        if let Some(top) = name.strip_suffix(".bytes").filter(|_| is_bytes_at(of, &path)) {
            let what = format!(
                "the encoded bytes come with their column: name {top:?}, and audio=None to leave \
                 them encoded"
            );
            return Err(Error::schema(&*name, what));
        }
        // Whole columns can be read by some of their rows.
        let (children, path) =
            if has_binary(of) { Children::only(of, &path) } else { (None, path) };
        Ok(Self { column, children, field: Some((name, path)) })
    }

    /// What is beside the bytes of a blob that is the field of a struct, if anything is.
    fn beside(schema: &Schema, blob: &BlobField, name: String, own: &[usize]) -> Option<Self> {
        let of = schema.fields().get(blob.column)?.data_type();
        let bytes = blob.path.get(own.len()..)?;
        let children = Children::without(nested::type_at(of, own).as_ref()?, bytes)?;
        let (children, path) = (Children::at(own, children), vec![0; own.len()]);
        Some(Self { column: blob.column, children: Some(children), field: Some((name, path)) })
    }
}

/// Whether a path leads to the `bytes` of a struct.
fn is_bytes_at(of: &DataType, path: &[usize]) -> bool {
    let Some((last, path)) = path.split_last() else { return false };
    let parent = nested::type_at(of, path);
    matches!(&parent, Some(DataType::Struct(children)) if is_bytes(children, *last))
}

/// Whether this column, or the field at this dotted path, is text.
fn is_of_paths(schema: &Schema, name: &str) -> bool {
    nested::field_at(schema, name).is_some_and(|field| holds_paths(field.data_type()))
}

impl Projection {
    /// The given columns in the given order (`None`: all, in the schema's order). Those in
    /// `blob_columns` are read row by row. The dotted path of a field, of structs or of lists of them,
    /// makes a column of that name.
    ///
    /// A blob column is a binary column of any layout, or a struct whose child `bytes` is one.
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
        Self::build(schema, columns, blob_columns, Kind::WITH_SIBLINGS)
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
        Self::build(schema, columns, blob_columns, Kind::default())
    }

    /// As [`Projection::new`], but the last blob column may be text, the paths of recordings. It stays
    /// among the small columns, and its blobs are null.
    ///
    /// # Errors
    ///
    /// As [`Projection::new`].
    pub(crate) fn with_paths(
        schema: &Schema,
        columns: Option<&[String]>,
        blob_columns: &[String],
    ) -> Result<Self> {
        Self::build(schema, columns, blob_columns, Kind { paths: true, ..Kind::WITH_SIBLINGS })
    }

    /// Only the children beside `bytes` of this blob column's struct; `None` where there are none.
    /// Of a column of paths, that column.
    pub fn of_siblings(schema: &Schema, blob_column: &str) -> Option<Self> {
        let names = [blob_column.to_owned()];
        let mut projection = Self::with_paths(schema, Some(&names), &names).ok()?;
        projection.blobs.clear();
        projection.has_paths = false;
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
                && BlobField::find(schema, field.name()).is_ok()
        };
        let blobs = schema.fields().iter().filter(is_blob);
        let blobs: Vec<String> = blobs.map(|field| field.name().clone()).collect();
        let mut projection = Self::new(schema, columns, &blobs)?;
        projection.blobs.clear();
        let mut small = projection.small;
        for column in small.iter_mut().filter(|column| column.children.is_none()) {
            let of = schema.fields().get(column.column).map(|field| field.data_type());
            column.children = of.and_then(|of| Children::where_not(of, &is_bytes));
        }
        Ok(Self::of_columns(projection.source, small, Vec::new(), false))
    }

    /// Only the columns that may be blobs; `None` where there are none.
    pub(super) fn of_blobs(schema: &Schema) -> Option<Self> {
        let names = schema.fields().iter().map(|field| field.name());
        let names: Vec<_> =
            names.filter(|name| BlobField::find(schema, name).is_ok()).cloned().collect();
        if names.is_empty() { None } else { Self::new(schema, Some(&[]), &names).ok() }
    }

    fn build(
        schema: &Schema,
        columns: Option<&[String]>,
        blob_columns: &[String],
        kind: Kind,
    ) -> Result<Self> {
        let mut blobs = Vec::with_capacity(blob_columns.len());
        let mut has_paths = false;
        for (name, left) in blob_columns.iter().zip((0..blob_columns.len()).rev()) {
            if kind.paths && left == 0 && is_of_paths(schema, name) {
                has_paths = true;
            } else {
                blobs.push(BlobField::find(schema, name)?);
            }
        }
        let mut wanted: Vec<(usize, Option<Part>)> = Vec::new();
        match columns {
            None => wanted.extend((0..schema.fields().len()).map(|column| (column, None))),
            Some(names) => {
                for name in names {
                    let (column, path) = nested::find(schema, name)?;
                    let field = (!path.is_empty()).then(|| (name.clone(), path));
                    if !wanted.contains(&(column, field.clone())) {
                        wanted.push((column, field));
                    }
                }
            }
        }
        let mut small = Vec::with_capacity(wanted.len());
        for (column, field) in wanted {
            let mut own = blobs.iter().filter(|blob| blob.column == column);
            if let Some((name, path)) = field {
                match own.find(|blob| blob.part.as_ref() == Some(&name)) {
                    Some(blob) if kind.siblings => {
                        small.extend(SmallColumn::beside(schema, blob, name, &path));
                    }
                    Some(_) => {}
                    None => small.push(SmallColumn::of_field(schema, column, name, path)?),
                }
                continue;
            }
            match own.next() {
                None => small.push(SmallColumn::whole(column)),
                // A struct comes without the recording in it that is a column of its own.
                Some(blob) if kind.siblings || blob.part.is_some() => {
                    let children = blob.siblings(schema);
                    small.extend(children.map(|children| SmallColumn::some(column, children)));
                }
                Some(_) => {}
            }
        }
        Ok(Self::of_columns(Arc::new(schema.clone()), small, blobs, has_paths))
    }

    fn of_columns(
        source: SchemaRef,
        small: Vec<SmallColumn>,
        blobs: Vec<BlobField>,
        has_paths: bool,
    ) -> Self {
        let empty = Arc::new(Schema::empty());
        let read_schema = Arc::clone(&empty);
        let mut projection =
            Self { source, small, read_schema, small_schema: empty, blobs, has_paths };
        projection.read_schema = Arc::new(Schema::new(projection.small_fields(&projection.source)));
        projection.small_schema = projection.named_schema();
        projection
    }

    /// The columns that are read, with the fields that were asked for in place of their structs.
    fn named_schema(&self) -> SchemaRef {
        let stands_for_other = |field: &FieldRef| extension::meaning(field).is_some();
        if !self.has_fields() && !self.read_schema.fields().iter().any(stands_for_other) {
            return Arc::clone(&self.read_schema);
        }
        let named = |(small, read): (&SmallColumn, &FieldRef)| {
            let meaning = extension::meaning(read);
            let own = |of| Arc::new(Field::new(read.name(), of, read.is_nullable()));
            let read = meaning.map_or_else(|| Arc::clone(read), own);
            match &small.field {
                None => Some(read),
                Some((name, path)) => nested::column_at(&read, name, path).map(Arc::new),
            }
        };
        let fields = self.small.iter().zip(self.read_schema.fields());
        Arc::new(Schema::new(fields.filter_map(named).collect::<Vec<_>>()))
    }

    fn has_fields(&self) -> bool {
        self.small.iter().any(|small| small.field.is_some())
    }

    /// A table of [`Projection::read_schema`] as one of [`Projection::small_schema`].
    pub(super) fn with_fields(&self, mut table: Table) -> Result<Table> {
        if Arc::ptr_eq(&self.small_schema, &self.read_schema) {
            return Ok(table);
        }
        let corrupt = |e: ArrowError| Error::corrupt(format!("a field of a column: {e}"));
        let read = table.columns.schema();
        let columns = table.columns.columns().iter().zip(&self.small);
        let columns = columns.zip(self.read_schema.fields());
        let mut new_bytes = 0;
        let columns = guard::contain("a field of a column", || {
            let columns = columns.map(|((column, small), field)| {
                let meant = extension::values(column, field).map_err(corrupt)?;
                new_bytes += meant.as_ref().map_or(0, |meant| meant.len().div_ceil(8));
                let column = meant.as_ref().unwrap_or(column);
                match &small.field {
                    None => Ok(Arc::clone(column)),
                    Some((_, path)) => nested::values_at(column, path).map_err(corrupt),
                }
            });
            columns.collect::<Result<Vec<_>>>()
        })?;
        let fields = self.small_schema.fields().iter().zip(read.fields()).zip(&columns);
        let fields = fields.zip(&self.small).map(|(((named, read), column), small)| {
            // Dictionary ids differ between shards, and so do the names of lists' items.
            let data_type = column.data_type().clone();
            let is_as_read = small.field.is_none() && data_type == *read.data_type();
            let field = if is_as_read { read } else { named };
            Arc::new(Field::clone(field).with_data_type(data_type))
        });
        let schema = Arc::new(Schema::new(fields.collect::<Vec<_>>()));
        let options = RecordBatchOptions::new().with_row_count(Some(table.n_rows()));
        let batch = RecordBatch::try_new_with_options(schema, columns, &options);
        table.columns = batch.map_err(corrupt)?;
        table.n_bytes = table.n_bytes.saturating_add(new_bytes);
        if self.has_fields() {
            // Two columns may have the same values, and a batch can take them over only once.
            table.buffers.clear();
        }
        Ok(table)
    }

    /// Whether this small column is a field of a struct.
    pub(crate) fn is_part(&self, name: &str) -> bool {
        self.small.iter().filter_map(|small| small.field.as_ref()).any(|(part, _)| part == name)
    }

    /// The fields of the small columns as formats read them.
    pub(super) fn read_schema(&self) -> SchemaRef {
        Arc::clone(&self.read_schema)
    }

    /// The fields of [`Table::columns`](super::Table::columns).
    pub fn small_schema(&self) -> SchemaRef {
        Arc::clone(&self.small_schema)
    }

    /// How many blob columns there are; they keep the order in which they were given.
    pub fn n_blobs(&self) -> usize {
        self.blobs.len() + usize::from(self.has_paths)
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
            let of_shard = |(column, _)| self.small_of_shard(small, shard, column);
            Some(nested::find(shard, name).map(of_shard))
        });
        let small = small.collect::<Result<Vec<_>>>()?;
        let blobs = self.blobs.iter().filter_map(|blob| blob.part.as_ref().or(name(blob.column)));
        let blobs = blobs.map(|name| BlobField::find(shard, name)).collect::<Result<_>>()?;
        Ok(Self::of_columns(Arc::clone(shard), small, blobs, self.has_paths))
    }

    /// The column of a shard that `small` is, with the same children by name.
    fn small_of_shard(&self, small: &SmallColumn, shard: &Schema, column: usize) -> SmallColumn {
        let data_type = |schema: &Schema, at: usize| {
            schema.fields().get(at).map(|field| field.data_type().clone())
        };
        let types = data_type(&self.source, small.column).zip(data_type(shard, column));
        let children = small.children.as_ref().zip(types);
        let children = children.and_then(|(kept, (of, own))| kept.of_shard(&of, &own));
        // Fields are taken of the columns that all shards have.
        SmallColumn { column, children, field: None }
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
            Some(
                small.children.as_ref().map_or_else(|| Arc::clone(field), |kept| kept.field(field)),
            )
        };
        self.small.iter().filter_map(field).collect()
    }

    /// The fields of these blob columns, a struct reduced to its `bytes`.
    pub(super) fn blob_fields(
        &self,
        shard: &Schema,
        is_wanted: impl Fn(&BlobField) -> bool,
    ) -> Vec<FieldRef> {
        let field = |blob: &BlobField| {
            let field = shard.fields().get(blob.column)?;
            let kept = blob.only(field.data_type());
            Some(kept.map_or_else(|| Arc::clone(field), |kept| kept.field(field)))
        };
        self.blobs.iter().filter(|blob| is_wanted(blob)).filter_map(field).collect()
    }
}
