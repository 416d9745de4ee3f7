//! Reading a projection of one run of rows.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
    sync::Arc,
};

use ::parquet::{
    arrow::{
        ProjectionMask,
        arrow_reader::{ParquetRecordBatchReader, RowGroups, RowSelection, RowSelector},
        parquet_to_arrow_field_levels,
    },
    errors::ParquetError,
};
use arrow_array::{Array, ArrayRef, RecordBatch, RecordBatchOptions, StructArray, cast::AsArray};
use arrow_schema::{ArrowError, DataType, Field, Schema};

use super::{
    super::{
        Projection, Table, blob::BlobColumn, children::Children, gathered::Gathered, guard,
        table::arrays_bytes,
    },
    checked_pages::CheckedGroup,
    columns::{LeafMap, Leaves, missing},
    fetch::Fetched,
    footer::{Footer, refused},
    number_lists,
    runs::RowRun,
    size::ChunkPart,
    values,
};
use crate::{Error, Result, memory::BufferPool, store::RangeReader};

/// The most that the columns of one run may grow to.
pub(super) const MAX_DECODED: u64 = 1 << 30;

/// How many columns are decoded at a time. Decoders take some kilobytes of each column until all of its
/// rows are there.
const COLUMNS_AT_ONCE: usize = 32;

/// Decoded columns, by their numbers in the schema.
type Columns = BTreeMap<usize, ArrayRef>;

/// What is read of a run for a projection.
#[derive(Debug)]
pub(super) struct Plan<'a> {
    footer: &'a Footer,
    leaves: &'a LeafMap,
    run: &'a RowRun,
    projection: &'a Projection,
    /// Leaves that are decoded: of small columns, and of blobs that are not read by value.
    decoded: BTreeSet<usize>,
    /// The leaf of each blob column, and whether it is read value by value.
    blobs: Vec<(usize, bool)>,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        footer: &'a Footer,
        leaves: &'a LeafMap,
        run: &'a RowRun,
        projection: &'a Projection,
    ) -> Result<Self> {
        projection.check_schema(&footer.schema)?;
        let mut decoded = leaves.small(projection)?;
        let mut blobs = Vec::with_capacity(projection.blobs.len());
        for blob in &projection.blobs {
            let leaf = leaves.blob(blob)?;
            let by_value = values::is_readable_by_value(footer.chunk(run.group, leaf)?);
            if !by_value {
                decoded.insert(leaf);
            }
            blobs.push((leaf, by_value));
        }
        Ok(Self { footer, leaves, run, projection, decoded, blobs })
    }

    fn part(&self, leaf: usize) -> Result<ChunkPart<'a>> {
        let RowRun { group, rows } = self.run;
        Ok(ChunkPart {
            chunk: self.footer.chunk(*group, leaf)?,
            pages: self.footer.pages.pages(*group, leaf),
            rows: rows.clone(),
            n_rows: self.footer.row_groups().get(*group).map_or(0, |g| g.num_rows() as u64),
            padding: self.leaves.padding(leaf),
        })
    }

    /// The ranges of the file that are read first.
    pub(super) fn ranges(&self) -> Result<Vec<Range<u64>>> {
        let mut ranges = Vec::new();
        for leaf in &self.decoded {
            ranges.extend(self.part(*leaf)?.first_ranges());
        }
        Ok(ranges)
    }

    /// Reads what decoding needs.
    fn fetch(&self, reader: &RangeReader) -> Result<Fetched> {
        let mut fetched = Fetched::read(reader, self.ranges()?.into_iter())?;
        let mut dictionaries = Vec::new();
        for leaf in &self.decoded {
            dictionaries.extend(self.part(*leaf)?.missing_dictionary(&fetched)?);
        }
        fetched.add(reader, dictionaries.into_iter())?;
        Ok(fetched)
    }

    /// The leaves of blobs that are read value by value, in the order of the projection.
    pub(super) fn by_value(&self) -> impl Iterator<Item = Option<usize>> {
        self.blobs.iter().map(|(leaf, by_value)| by_value.then_some(*leaf))
    }

    /// Bytes that are read at most, and bytes for where values are, as far as `is_known` does not have them.
    pub(super) fn stored_bytes(&self, is_known: impl Fn(usize) -> bool) -> Result<u64> {
        let n_rows = self.run.rows.end - self.run.rows.start;
        let unknown = self.by_value().flatten().filter(|leaf| !is_known(*leaf)).count() as u64;
        let mut read = 0_u64;
        for leaf in &self.decoded {
            for range in self.part(*leaf)?.ranges() {
                read = read.saturating_add(range.end - range.start);
            }
        }
        Ok(read.saturating_add(unknown.saturating_mul(n_rows.saturating_mul(values::ROW_BYTES))))
    }

    /// Bytes of memory beyond those of the values.
    pub(super) fn besides_bytes(&self, gap: u64) -> Result<usize> {
        let gathered = Gathered::new(self.ranges()?.into_iter(), gap);
        let schema = Schema::new(self.projection.small_fields(&self.footer.schema));
        Ok(arrays_bytes(&schema).saturating_add(gathered.scratch_bytes() as usize))
    }

    /// Reads and decodes the columns. Where the values of a blob column are is asked of `locate`, by
    /// its leaf.
    pub(super) fn load(
        &self,
        reader: &RangeReader,
        limit: usize,
        on_size: &dyn Fn(usize),
        is_known: impl Fn(usize) -> bool,
        mut locate: impl FnMut(usize) -> Result<(Arc<BlobColumn>, usize)>,
    ) -> Result<Table> {
        let n_rows = (self.run.rows.end - self.run.rows.start) as usize;
        let stored = self.stored_bytes(is_known)?;
        check_limit(stored, limit)?;
        let fetched = self.fetch(reader)?;
        let (mut size, mut n_values) = (stored, BTreeMap::new());
        for leaf in &self.decoded {
            let part = self.part(*leaf)?.decoded_size(&fetched)?;
            size = size.saturating_add(part.bytes);
            n_values.insert(*leaf, part.n_values);
        }
        check_limit(size, limit)?;
        let arrays = arrays_bytes(&Schema::new(self.projection.small_fields(&self.footer.schema)));
        on_size((size as usize).saturating_add(arrays));
        let mut own_bytes = 0;
        let mut blobs: Vec<Option<Arc<BlobColumn>>> = Vec::with_capacity(self.blobs.len());
        for leaf in self.by_value() {
            let located = leaf.map(&mut locate).transpose()?;
            own_bytes += located.as_ref().map_or(0, |(_, n_bytes)| *n_bytes);
            blobs.push(located.map(|(column, _)| column));
        }
        let columns = if n_rows == 0 {
            Columns::new()
        } else {
            let mut columns = self.lists(&fetched, &n_values, reader.store().buffers())?;
            self.decode(&fetched, &mut columns)?;
            columns
        };
        let (small, decoded) = self.assemble(&columns, n_rows)?;
        let mut decoded = decoded.into_iter();
        let blobs = blobs.into_iter().map(|known| match known {
            Some(known) => Ok(known),
            None => decoded.next().ok_or_else(missing),
        });
        let blobs = blobs.collect::<Result<_>>()?;
        // Views go on using the pages that were read.
        let has_views = columns.values().any(|column| has_views(column.data_type()));
        let views = if has_views { fetched.n_bytes() } else { 0 };
        let n_bytes: usize = columns.values().map(Array::get_buffer_memory_size).sum();
        let n_bytes = n_bytes.saturating_add(arrays);
        Ok(Table::new(small, n_bytes + views + own_bytes, blobs, Vec::new()))
    }

    /// The columns that are lists of numbers, whose leaves have so many values.
    fn lists(
        &self,
        fetched: &Fetched,
        n_values: &BTreeMap<usize, u64>,
        pool: &Arc<BufferPool>,
    ) -> Result<Columns> {
        let mut columns = Columns::new();
        for number in self.leaves.columns_of(&self.decoded) {
            let field = self.footer.schema.fields().get(number).ok_or_else(missing)?;
            let Some(leaf) = self.leaves.only(number) else { continue };
            let n = n_values.get(&leaf).copied().unwrap_or(0);
            let part = self.part(leaf)?;
            let lists = number_lists::decode(fetched, &part, field.data_type(), n, pool)?;
            columns.extend(lists.map(|lists| (number, lists)));
        }
        Ok(columns)
    }

    /// Adds the columns that are not there yet, decoded by the crate.
    fn decode(&self, fetched: &Fetched, columns: &mut Columns) -> Result<()> {
        let mut leaves = self.decoded.clone();
        for leaf in columns.keys().filter_map(|number| self.leaves.only(*number)) {
            leaves.remove(&leaf);
        }
        let group = CheckedGroup {
            fetched: Arc::new(fetched.clone()),
            metadata: Arc::clone(self.footer.arrow.metadata()),
            group: self.run.group,
        };
        for numbers in self.leaves.columns_of(&leaves).chunks(COLUMNS_AT_ONCE) {
            let arrays =
                guard::contain("a row group", || self.decode_some(&group, &leaves, numbers))?;
            columns.extend(numbers.iter().copied().zip(arrays));
        }
        Ok(())
    }

    /// Decodes these leaves of some columns.
    fn decode_some(
        &self,
        group: &CheckedGroup,
        leaves: &BTreeSet<usize>,
        numbers: &[usize],
    ) -> Result<Vec<ArrayRef>> {
        let rows = &self.run.rows;
        let n_rows = (rows.end - rows.start) as usize;
        let not_decoded = |e: ParquetError| refused(&e, "a row group does not decode");
        let arrow = &self.footer.arrow;
        let wanted = numbers.iter().flat_map(|number| self.leaves.of_column(*number, leaves));
        let mask = ProjectionMask::leaves(arrow.parquet_schema(), wanted);
        let fields = Some(self.footer.schema.fields());
        let levels = parquet_to_arrow_field_levels(arrow.parquet_schema(), mask, fields);
        let selection = (n_rows < group.num_rows()).then(|| {
            RowSelection::from(vec![
                RowSelector::skip(rows.start as usize),
                RowSelector::select(n_rows),
            ])
        });
        let mut reader = ParquetRecordBatchReader::try_new_with_row_groups(
            &levels.map_err(not_decoded)?,
            group,
            n_rows,
            selection,
        )
        .map_err(not_decoded)?;
        let whole = reader.next().transpose().map_err(|e| undecodable(&e))?;
        let whole = whole.ok_or_else(|| Error::corrupt("a row group without its rows"))?;
        if whole.num_rows() != n_rows {
            let n = whole.num_rows();
            return Err(Error::corrupt(format!("{n} rows of {n_rows} in a row group")));
        }
        Ok(whole.columns().to_vec())
    }

    /// The small columns in the projection's order, and the blobs that were decoded.
    fn assemble(
        &self,
        columns: &Columns,
        n_rows: usize,
    ) -> Result<(RecordBatch, Vec<Arc<BlobColumn>>)> {
        let column = |number: usize| columns.get(&number);
        let part = |number: usize, kept: Option<&Children>| {
            let whole = column(number).ok_or_else(missing)?;
            with_children(whole, (self.leaves.column(number)?, &self.decoded), kept)
        };
        let mut small = Vec::with_capacity(self.projection.small.len());
        for wanted in &self.projection.small {
            small.push(part(wanted.column, wanted.children.as_ref())?);
        }
        let mut blobs = Vec::new();
        let decoded = self.projection.blobs.iter().zip(&self.blobs);
        for (blob, _) in decoded.filter(|(_, (_, by_value))| !by_value) {
            let field = self.footer.schema.fields().get(blob.column).ok_or_else(missing)?;
            let array = part(blob.column, blob.only(field.data_type()).as_ref())?;
            blobs.push(Arc::new(BlobColumn::in_memory(&array)?));
        }
        let schema = Arc::new(Schema::new(self.projection.small_fields(&self.footer.schema)));
        let options = RecordBatchOptions::new().with_row_count(Some(n_rows));
        let small = RecordBatch::try_new_with_options(schema, small, &options);
        Ok((small.map_err(|e| undecodable(&e))?, blobs))
    }
}

/// A struct with these of its children, of which it has those whose leaves were decoded.
fn with_children(
    whole: &ArrayRef,
    (leaves, decoded): (&Leaves, &BTreeSet<usize>),
    kept: Option<&Children>,
) -> Result<ArrayRef> {
    let Some(kept) = kept else { return Ok(Arc::clone(whole)) };
    let whole = whole.as_struct_opt().ok_or_else(missing)?;
    let (mut fields, mut arrays) = (Vec::new(), Vec::new());
    for (child, inner) in kept.iter() {
        let at = leaves.place(child, decoded);
        let found = at.and_then(|at| whole.fields().get(at).zip(whole.columns().get(at)));
        let (field, array) = found.ok_or_else(missing)?;
        let array = with_children(array, (leaves.child(child)?, decoded), inner)?;
        fields.push(Arc::new(Field::clone(field).with_data_type(array.data_type().clone())));
        arrays.push(array);
    }
    let part = StructArray::try_new_with_length(
        fields.into(),
        arrays,
        whole.nulls().cloned(),
        whole.len(),
    );
    Ok(Arc::new(part.map_err(|e| undecodable(&e))?))
}

fn undecodable(error: &ArrowError) -> Error {
    Error::corrupt(format!("a row group does not decode: {error}"))
}

fn has_views(data_type: &DataType) -> bool {
    let is_view =
        |data_type: &DataType| matches!(data_type, DataType::Utf8View | DataType::BinaryView);
    let schema = Schema::new(vec![Field::new("", data_type.clone(), true)]);
    schema.flattened_fields().iter().any(|field| is_view(field.data_type()))
}

pub(super) fn check_limit(n_bytes: u64, limit: usize) -> Result<()> {
    let limit = (limit as u64).min(MAX_DECODED);
    if n_bytes <= limit {
        return Ok(());
    }
    Err(Error::limit(format!(
        "the columns of some rows of a row group take up to {n_bytes} bytes, and {limit} are the \
         most (the memory budget, or 1 GiB); raise memory_budget, ask for fewer columns, or write \
         the shard with smaller row groups and a page index (write_page_index=True)"
    )))
}
