//! Files written by Arrow's own implementations are read as arrow-ipc reads them.

use std::sync::Arc;

use gristmill_core::{
    shard::{IndexDir, Shard},
    store::{DescriptorCache, Store},
};

use crate::common::{assert_reads_as, corpus, files_below, oracle};

#[test]
fn golden_files_read_as_arrow_reads_them() {
    let Some(folder) = corpus("ipc-golden") else { return };
    let store = Arc::new(Store::new(&DescriptorCache::new(4)));
    let mut n_read = 0;
    for path in files_below(&folder) {
        if !path.extension().is_some_and(|e| e == "stream" || e == "arrow_file") {
            continue;
        }
        let expected = oracle(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let shard =
            Shard::open(&store, &IndexDir::Nowhere, &path).unwrap_or_else(|e| panic!("{e}"));
        let fields = shard.schema().fields();
        let binary = |f: &&Arc<arrow_schema::Field>| {
            use arrow_schema::DataType::{Binary, LargeBinary};
            let unique = fields.iter().filter(|g| g.name() == f.name()).count() == 1;
            unique && matches!(f.data_type(), Binary | LargeBinary)
        };
        let blobs: Vec<String> = fields.iter().filter(binary).map(|f| f.name().clone()).collect();
        println!("{}: {} rows, blobs {blobs:?}", path.display(), shard.n_rows());
        assert_reads_as(&shard, &expected, &blobs);
        n_read += 1;
    }
    assert!(n_read > 70, "{n_read} golden files");
}

/// Streams from before Arrow 0.15 have no continuation markers.
#[test]
fn legacy_streams_read_as_the_others() {
    let Some(folder) = corpus("ipc-golden/cpp-21.0.0") else { return };
    for path in files_below(&folder) {
        if path.extension().is_none_or(|e| e != "stream") {
            continue;
        }
        let modern = crate::common::Fixture::new(&std::fs::read(&path).unwrap());
        let legacy = crate::common::Fixture::new(&without_markers(&std::fs::read(&path).unwrap()));
        let expected = oracle(&modern.path).unwrap();
        assert_reads_as(&legacy.open().unwrap(), &expected, &[]);
    }
}

fn without_markers(stream: &[u8]) -> Vec<u8> {
    let mut legacy = Vec::new();
    let mut at = 0;
    while at < stream.len() {
        assert_eq!(stream[at..at + 4], [0xFF; 4]);
        let len = u32::from_le_bytes(stream[at + 4..at + 8].try_into().unwrap()) as usize;
        let body = at + 8 + len;
        legacy.extend_from_slice(&stream[at + 4..body]);
        if len == 0 {
            break;
        }
        let message = arrow_ipc::root_as_message(&stream[at + 8..body]).unwrap();
        at = body + message.bodyLength() as usize;
        legacy.extend_from_slice(&stream[body..at]);
    }
    legacy
}
