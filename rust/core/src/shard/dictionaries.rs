//! The values of dictionary-encoded columns, read when a projected column needs them.
//!
//! In a stream, a record batch sees the dictionary batches before it: the last whole dictionary and
//! the deltas after that. In a file all dictionary batches hold for all record batches, and none
//! may be replaced.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use arrow_array::{Array, ArrayRef};
use arrow_schema::{Field, Fields, Schema};
use arrow_select::concat::concat;

use super::{
    body::{CompactBody, Selection},
    guard,
    index::{BatchEntry, DictionaryEntry, MessageIndex, changed},
    layout::BatchLayout,
    schema,
    source::Source,
};
use crate::{Error, Result};

/// The last state of each dictionary that was needed.
#[derive(Debug, Default)]
pub(super) struct DictionaryCache {
    states: Mutex<HashMap<i64, State>>,
}

/// Larger dictionaries are kept by the tables that need them, which count for the budget, and read
/// again where there is none. Smaller ones are kept by their shard.
pub(super) const LARGE: usize = 64 << 10;

/// A dictionary made of these messages, a whole one and the deltas after it.
#[derive(Debug)]
struct State {
    messages: Vec<u64>,
    values: Weak<dyn Array>,
    /// The same, unless it is large.
    _kept: Option<ArrayRef>,
}

/// The values of dictionaries, by their ids.
pub(super) type Dictionaries = HashMap<i64, ArrayRef>;

/// Bytes of these values, without what else lies in the memory that they lie in.
pub(super) fn n_bytes(values: &dyn Array) -> usize {
    let own = values.to_data().get_slice_memory_size();
    own.unwrap_or_else(|_| values.get_array_memory_size())
}

/// One look-up: the dictionaries as a record batch sees them.
struct Lookup<'i, 's> {
    source: &'i Source,
    index: &'i MessageIndex,
    states: &'s mut HashMap<i64, State>,
    /// The dictionaries being read, each needed by the one before it.
    path: Vec<i64>,
    /// What all of them may take together, in bytes, and what is left of that.
    limit: usize,
    left: u64,
}

impl DictionaryCache {
    /// The dictionaries that these fields need in this record batch, of no more than `limit` bytes
    /// together.
    pub(super) fn needed(
        &self,
        source: &Source,
        index: &MessageIndex,
        fields: &Fields,
        entry: &BatchEntry,
        limit: usize,
    ) -> Result<Dictionaries> {
        let mut ids = Vec::new();
        fields.iter().for_each(|field| schema::dictionary_ids(field, &mut ids));
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        // Whoever else waits here needs the same dictionaries.
        let mut states = self.states.lock().unwrap_or_else(PoisonError::into_inner);
        let (path, left) = (Vec::new(), limit as u64);
        let mut lookup = Lookup { source, index, states: &mut states, path, limit, left };
        lookup.all(&ids, entry.frame.message)
    }
}

/// Bytes in the file of the dictionaries that these fields need, but for those needed by other
/// dictionaries.
pub(super) fn stored(index: &MessageIndex, fields: &Fields, before: u64) -> u64 {
    let mut ids = Vec::new();
    fields.iter().for_each(|field| schema::dictionary_ids(field, &mut ids));
    let needed = index
        .dictionaries
        .iter()
        .filter(|d| ids.contains(&d.id) && (index.is_file || d.batch.frame.message < before));
    // A whole dictionary takes the place of those before it.
    let mut bytes = HashMap::<i64, u64>::new();
    for dictionary in needed {
        let sum = bytes.entry(dictionary.id).or_default();
        let body = dictionary.batch.body.end - dictionary.batch.body.start;
        *sum = if dictionary.is_delta { sum.saturating_add(body) } else { body };
    }
    bytes.values().fold(0, |sum, bytes| sum.saturating_add(*bytes))
}

impl<'i> Lookup<'i, '_> {
    /// The values of these dictionaries before message `before`. One without any batch is left
    /// out: all of its column is null.
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
        let messages: Vec<u64> = chain.iter().map(|d| d.batch.frame.message).collect();
        let known = self.states.get(&id).filter(|s| messages.starts_with(&s.messages));
        let known = known.and_then(|s| Some((s.messages.len(), vec![s.values.upgrade()?])));
        let (done, mut parts) = known.unwrap_or_default();
        for known in &parts {
            self.takes(n_bytes(known) as u64)?;
        }
        self.path.push(id);
        for dictionary in chain.into_iter().skip(done) {
            let frame = &dictionary.batch.frame;
            let next = self.read(dictionary);
            parts.push(next.map_err(|e| e.in_message(frame.message).at_byte(frame.start))?);
        }
        self.path.pop();
        // All at once: appended one by one, many small deltas would copy the dictionary each.
        let values = match parts.as_slice() {
            [] => None,
            [one] => Some(Arc::clone(one)),
            parts => Some(append(parts)?),
        };
        if let Some(values) = &values {
            let kept = (n_bytes(values) < LARGE).then(|| Arc::clone(values));
            self.states.insert(id, State { messages, values: Arc::downgrade(values), _kept: kept });
        }
        Ok(values)
    }

    /// The batches that make up dictionary `id` before message `before`.
    fn chain(&self, id: i64, before: u64) -> Result<Vec<&'i DictionaryEntry>> {
        let is_file = self.index.is_file;
        let seen = |d: &&DictionaryEntry| d.id == id && (is_file || d.batch.frame.message < before);
        let seen: Vec<_> = self.index.dictionaries.iter().filter(seen).collect();
        let Some(whole) = seen.iter().rposition(|d| !d.is_delta) else {
            return match seen.first() {
                None => Ok(seen),
                Some(_) => Err(Error::corrupt(format!("a delta before its dictionary {id}"))),
            };
        };
        if is_file && whole > 0 {
            return Err(Error::corrupt(format!(
                "dictionary {id} is replaced, which only a stream may do; write the shard again"
            )));
        }
        Ok(seen.into_iter().skip(whole).collect())
    }

    /// Counts bytes that a dictionary takes, before they are read or decompressed.
    fn takes(&mut self, n_bytes: u64) -> Result<()> {
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
        let mut nested = Vec::new();
        fields.iter().for_each(|field| schema::dictionary_ids(field, &mut nested));
        let nested = self.all(&nested, batch.frame.message)?;
        let body_len = batch.body.end - batch.body.start;
        let layout = batch.with_header(self.source, |message| {
            let dictionary = message.header_as_dictionary_batch().ok_or_else(changed)?;
            let data = dictionary.data();
            let data = data.ok_or_else(|| Error::corrupt("a dictionary batch without data"))?;
            BatchLayout::new(&data, body_len, message.version())
        })?;
        let mut selection = Selection::default();
        for (field, span) in fields.iter().zip(layout.spans(&fields)?) {
            selection.add_field(&layout, field, &span)?;
        }
        self.takes(selection.ranges().map(|range| range.end - range.start).sum())?;
        let body = CompactBody::read(self.source, batch.body.start, selection.ranges())?;
        let schema = Arc::new(Schema::new(fields));
        self.takes(body.decompressed(&layout, &selection)?.bytes)?;
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
