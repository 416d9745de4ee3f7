//! Single requests, for measuring a store.

use std::{
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use super::{
    DescriptorCache, Store,
    reader::RangeReader,
    remote::{RequestError, StorageOptions},
};
use crate::{ErrorKind, Result};

/// A file of which ranges are asked for, each once, and thrown away.
#[derive(Debug)]
pub struct MeasuredFile {
    store: Arc<Store>,
    path: PathBuf,
    /// There from the first request on.
    reader: OnceLock<RangeReader>,
}

impl MeasuredFile {
    /// Makes no request.
    pub fn new(descriptors: &DescriptorCache, path: PathBuf, options: StorageOptions) -> Self {
        let store = Store::new(descriptors).with_storage_options([(path.clone(), options)]);
        Self { store: Arc::new(store), path, reader: OnceLock::new() }
    }

    /// Asks for `len` bytes from `offset` on, at most those of the file, and waits for them. The first
    /// time another request goes ahead, for the file's version. Returns how many bytes came; `None` where
    /// the server has too many requests.
    ///
    /// # Errors
    ///
    /// As for reading a shard.
    pub fn request(&self, offset: u64, len: u64) -> Result<Option<u64>> {
        match self.read(offset, len) {
            Ok(n_bytes) => Ok(Some(n_bytes)),
            Err(error) => match error.kind() {
                ErrorKind::Io(e) if RequestError::of(e).is_some_and(|e| e.is_throttled) => Ok(None),
                _ => Err(error),
            },
        }
    }

    fn read(&self, offset: u64, len: u64) -> Result<u64> {
        let reader = if let Some(reader) = self.reader.get() {
            reader
        } else {
            let reader = RangeReader::new(&self.store, &self.path)?;
            self.reader.get_or_init(|| reader)
        };
        let end = offset.saturating_add(len).min(reader.len());
        let start = offset.min(end);
        let mut bytes = Vec::new();
        reader.read_range(start..end, &mut bytes)?;
        Ok(end - start)
    }
}
