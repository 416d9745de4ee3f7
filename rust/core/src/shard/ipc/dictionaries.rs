//! The values of dictionary-encoded columns, read when a projected column needs them.
//!
//! In a stream, the dictionary batches before a record batch hold for it: the last whole dictionary
//! and the deltas after that. In a file all dictionary batches hold for all record batches, and a
//! dictionary may not be replaced.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use arrow_array::{Array, ArrayRef, new_null_array};
use arrow_schema::{Field, Fields, Schema};
use arrow_select::concat::concat;

use super::{
    super::{
        guard,
        table::{LARGE_DICTIONARY, dictionary_bytes},
    },
    body::CompactBody,
    index::{DictionaryEntry, MessageIndex, changed},
    layout::BatchLayout,
    schema,
    selection::Selection,
};
use crate::{Error, Result, store::RangeReader, sync::lock_std};

/// The last state of each dictionary that was needed. Large ones are kept by the tables that use
/// them, which count for the budget, and read again when no table has them.
#[derive(Debug, Default)]
pub(super) struct DictionaryCache {
    states: Mutex<HashMap<i64, State>>,
}

/// A dictionary made of these messages: a whole one and the deltas after it.
#[derive(Debug)]
struct State {
    messages: Vec<u64>,
    values: Weak<dyn Array>,
    /// Keeps `values` alive, unless they are large.
    _kept: Option<ArrayRef>,
}

/// The values of dictionaries, by their ids.
pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

/// A look-up of the dictionaries that hold for a record batch.
struct Lookup<'i, 's> {
    reader: &'i RangeReader,
    index: &'i MessageIndex,
    states: &'s mut HashMap<i64, State>,
    /// The dictionaries being read, each needed by the one before it.
    path: Vec<i64>,
    /// The most bytes that all of them may take together, and how many of these are left.
    limit: usize,
    left: u64,
}

impl DictionaryCache {
    /// The dictionaries that these fields need in a record batch that is message `before`, of no more
    /// than `limit` bytes together.
    pub(super) fn needed(
        &self,
        reader: &RangeReader,
        index: &MessageIndex,
        fields: &Fields,
        before: u64,
        limit: usize,
    ) -> Result<Dictionaries> {
        let ids = schema::dictionary_ids(fields);
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        // Held while reading: other threads that wait here need the same dictionaries.
        let mut states = lock_std(&self.states);
        let (path, left) = (Vec::new(), limit as u64);
        let mut lookup = Lookup { reader, index, states: &mut states, path, limit, left };
        lookup.all(&ids, before)
    }
}

/// Bytes in the file of the dictionaries that these fields need, without those that dictionaries
/// need.
pub(super) fn stored_bytes(index: &MessageIndex, fields: &Fields, before: u64) -> u64 {
    let bytes = schema::dictionary_ids(fields).into_iter().map(|id| {
        let batches = index.dictionaries_of(id, before);
        // A whole dictionary replaces those before it.
        let whole = batches.iter().rposition(|d| !d.is_delta).unwrap_or(0);
        let bodies = batches.iter().skip(whole).map(|d| d.batch.body.end - d.batch.body.start);
        bodies.fold(0, u64::saturating_add)
    });
    bytes.fold(0, u64::saturating_add)
}

/// Gives a null to dictionaries without values, except those of whole columns.
///
/// Where a struct is null, pyarrow writes the key 0 for its fields, whether the dictionary has a value or
/// not, and `arrow-ipc` refuses keys of nothing.
pub(super) fn fill_empty(dictionaries: &mut Dictionaries, fields: &Fields) {
    let is_column = |id| fields.iter().any(|field| schema::dictionary_id(field) == Some(id));
    for (id, values) in dictionaries {
        if values.is_empty() && !is_column(*id) {
            *values = new_null_array(values.data_type(), 1);
        }
    }
}

impl<'i> Lookup<'i, '_> {
    /// The values of these dictionaries before message `before`. One without any batch is left
    /// out: its column has nulls only.
    fn all(&mut self, ids: &[i64], before: u64) -> Result<Dictionaries> {
        let mut found = Dictionaries::new();
        for id in ids {
            if let Some(values) = self.one(*id, before)? {
                found.insert(*id, values);
            }
        }
        Ok(found)
    }

    fn one(&mut self, id: i64, before: u64) -> Result<Option<ArrayRef>> {
        if self.path.contains(&id) {
            return Err(Error::corrupt(format!("dictionary {id} is made of itself")));
        }
        let chain = self.chain(id, before)?;
        let messages: Vec<u64> = chain.iter().map(|d| d.batch.span.number).collect();
        let cached = self.states.get(&id).filter(|s| messages.starts_with(&s.messages));
        let cached = cached.and_then(|s| Some((s.messages.len(), vec![s.values.upgrade()?])));
        let (done, mut parts) = cached.unwrap_or_default();
        for cached in &parts {
            self.charge(dictionary_bytes(cached) as u64)?;
        }
        self.path.push(id);
        for dictionary in chain.iter().skip(done) {
            let next = self.read(dictionary);
            parts.push(next.map_err(|e| dictionary.batch.span.locate(e))?);
        }
        self.path.pop();
        // Appended at once: one by one, each of many small deltas would copy the dictionary.
        let values = match parts.as_slice() {
            [] => None,
            [one] => Some(Arc::clone(one)),
            parts => Some(append(parts)?),
        };
        if let Some(values) = &values {
            let kept = (dictionary_bytes(values) < LARGE_DICTIONARY).then(|| Arc::clone(values));
            self.states.insert(id, State { messages, values: Arc::downgrade(values), _kept: kept });
        }
        Ok(values)
    }

    /// The batches that make up dictionary `id` before message `before`.
    fn chain(&self, id: i64, before: u64) -> Result<&'i [DictionaryEntry]> {
        let is_file = self.index.is_file;
        let batches = self.index.dictionaries_of(id, before);
        let Some(whole) = batches.iter().rposition(|d| !d.is_delta) else {
            return match batches.first() {
                None => Ok(batches),
                Some(_) => Err(Error::corrupt(format!("a delta before its dictionary {id}"))),
            };
        };
        if is_file && whole > 0 {
            return Err(Error::corrupt(format!(
                "dictionary {id} is replaced, which only a stream may do; write the shard again"
            )));
        }
        Ok(batches.get(whole..).unwrap_or_default())
    }

    /// Charges bytes to the limit, before they are read or decompressed.
    fn charge(&mut self, n_bytes: u64) -> Result<()> {
        let left = self.left.checked_sub(n_bytes);
        self.left = left.ok_or_else(|| {
            Error::limit(format!(
                "the dictionaries of one record batch take more than the memory budget of {} \
                 bytes; raise memory_budget, or ask for fewer columns",
                self.limit
            ))
        })?;
        Ok(())
    }

    fn read(&mut self, dictionary: &DictionaryEntry) -> Result<ArrayRef> {
        let DictionaryEntry { id, batch, .. } = dictionary;
        let value_type = schema::dictionary_values(self.index.schema.fields(), *id)
            .ok_or_else(|| Error::corrupt(format!("no column uses dictionary {id}")))?;
        let fields: Fields = vec![Field::new("values", value_type, true)].into();
        let nested = self.all(&schema::dictionary_ids(&fields), batch.span.number)?;
        let body_len = batch.body.end - batch.body.start;
        let layout = batch.with_header(self.reader, |message| {
            let dictionary = message.header_as_dictionary_batch().ok_or_else(changed)?;
            let data = dictionary.data();
            let data = data.ok_or_else(|| Error::corrupt("a dictionary batch without data"))?;
            BatchLayout::new(&data, body_len, message.version())
        })?;
        let mut selection = Selection::default();
        for (field, span) in fields.iter().zip(layout.spans(&fields)?) {
            selection.add_field(&layout, field, &span)?;
        }
        let ranges = || selection.buffers.iter().cloned();
        self.charge(ranges().map(|range| range.end - range.start).sum())?;
        let body = CompactBody::read(self.reader, batch.body.start, ranges())?;
        let schema = Arc::new(Schema::new(fields));
        self.charge(body.decompressed(&layout, &selection)?.bytes)?;
        let decoded = body.decode(&layout, &selection, schema, &nested)?;
        decoded
            .columns()
            .first()
            .cloned()
            .ok_or_else(|| Error::corrupt("an empty dictionary batch"))
    }
}

fn append(parts: &[ArrayRef]) -> Result<ArrayRef> {
    let parts: Vec<&dyn Array> = parts.iter().map(AsRef::as_ref).collect();
    guard::contain("a delta dictionary", || {
        concat(&parts)
            .map_err(|e| Error::corrupt(format!("a delta does not fit its dictionary: {e}")))
    })
}
