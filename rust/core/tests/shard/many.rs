//! Many shards: opened in parallel, with few descriptors, and with schemas joined.

use std::{path::PathBuf, sync::Arc};

use arrow_array::{
    ArrayRef, Int32Array, Int64Array, RecordBatch, UInt32Array, cast::AsArray, types::Int64Type,
};
use gristmill_core::{
    ErrorKind,
    shard::{IndexDir, Labels, Projection, Shard, open_all},
    store::{DescriptorCache, Store},
};

use crate::common::Written;

fn batch(values: std::ops::Range<i64>) -> RecordBatch {
    RecordBatch::try_from_iter([("x", Arc::new(values.collect::<Int64Array>()) as ArrayRef)])
        .unwrap()
}

fn shards(dir: &tempfile::TempDir, n: i64) -> Vec<PathBuf> {
    let write = |i: i64| {
        let path = dir.path().join(format!("{i:04}.arrow"));
        std::fs::write(&path, Written::STREAM.bytes(&[batch(i..i + 3)])).unwrap();
        path
    };
    (0..n).map(write).collect()
}

#[test]
fn shards_are_in_the_order_of_their_paths_with_few_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(&dir, 20);
    for n_threads in [0, 1, 3, 64] {
        let descriptors = DescriptorCache::new(2);
        let store = Arc::new(Store::new(&descriptors));
        let opened = open_all(&store, &IndexDir::Nowhere, &paths, n_threads, Labels::Map).unwrap();
        let projection = Projection::new(opened[0].schema(), None, &[]).unwrap();
        for (i, shard) in opened.iter().enumerate().rev() {
            assert_eq!(&**shard.name(), paths[i].to_str().unwrap());
            let table = shard.load_table(0, &projection).unwrap();
            assert_eq!(table.columns, batch(i as i64..i as i64 + 3));
            assert!(descriptors.n_open() <= 2);
        }
        store.close();
        assert_eq!(descriptors.n_open(), 0);
    }
    assert!(open_all(&Arc::default(), &IndexDir::Nowhere, &[], 4, Labels::Map).unwrap().is_empty());
}

#[test]
fn pipelines_share_descriptors() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(&dir, 6);
    let descriptors = DescriptorCache::new(3);
    let pipelines: Vec<_> = (0..4)
        .map(|_| {
            open_all(
                &Arc::new(Store::new(&descriptors)),
                &IndexDir::Nowhere,
                &paths,
                4,
                Labels::Map,
            )
            .unwrap()
        })
        .collect();
    std::thread::scope(|scope| {
        for shards in &pipelines {
            scope.spawn(|| {
                let projection = Projection::new(shards[0].schema(), None, &[]).unwrap();
                for (i, shard) in shards.iter().enumerate().cycle().take(200) {
                    let table = shard.load_table(0, &projection).unwrap();
                    assert_eq!(table.columns, batch(i as i64..i as i64 + 3));
                    assert!(descriptors.n_open() <= 3);
                }
            });
        }
    });
    // All use the same descriptor for a shard.
    let descriptors = DescriptorCache::new(100);
    let pipelines: Vec<_> = (0..4)
        .map(|_| {
            open_all(
                &Arc::new(Store::new(&descriptors)),
                &IndexDir::Nowhere,
                &paths,
                1,
                Labels::Map,
            )
            .unwrap()
        })
        .collect();
    assert_eq!(descriptors.n_open(), paths.len());
    drop(pipelines);
    assert_eq!(descriptors.n_open(), 0);
}

#[test]
fn the_first_failing_path_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = shards(&dir, 12);
    std::fs::write(&paths[9], b"").unwrap();
    paths[5] = dir.path().join("missing.arrow");
    for n_threads in [1, 4] {
        let error = open_all(&Arc::default(), &IndexDir::Nowhere, &paths, n_threads, Labels::Map)
            .unwrap_err();
        assert!(
            matches!(error.kind(), ErrorKind::Io(e) if e.kind() == std::io::ErrorKind::NotFound)
        );
        assert!(error.at().shard.as_deref().unwrap().ends_with("missing.arrow"));
    }
    let error = Shard::open(&Arc::default(), &IndexDir::Nowhere, dir.path()).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
}

#[test]
fn a_shard_of_another_schema_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = shards(&dir, 3);
    let other = Arc::new(UInt32Array::from(vec![1])) as ArrayRef;
    let other = RecordBatch::try_from_iter([("x", other)]).unwrap();
    paths.push(dir.path().join("other.arrow"));
    std::fs::write(&paths[3], Written::FILE.bytes(&[other])).unwrap();
    let opened = open_all(&Arc::default(), &IndexDir::Nowhere, &paths, 2, Labels::Map).unwrap();
    assert!(opened[0].schema().fields().is_empty());
    for asked in [None, Some("x"), Some("x.y")] {
        let error = opened[1].check_column(asked).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Schema { column, .. } if column == "x"));
        let message = error.to_string();
        for part in ["0000.arrow", "other.arrow", "Int64", "UInt32"] {
            assert!(message.contains(part), "{message}");
        }
    }
    opened[1].check_column(Some("y")).unwrap();
}

#[test]
fn a_shard_of_narrower_columns_is_widened() {
    let dir = tempfile::tempdir().unwrap();
    let mut paths = shards(&dir, 2);
    let x = Arc::new(Int32Array::from(vec![Some(-1), None])) as ArrayRef;
    let more = Arc::new(Int32Array::from(vec![7, 8])) as ArrayRef;
    let other = RecordBatch::try_from_iter([("more", more), ("x", x)]).unwrap();
    paths.push(dir.path().join("other.arrow"));
    std::fs::write(&paths[2], Written::FILE.bytes(&[other])).unwrap();
    paths.reverse(); // whichever comes first
    let opened = open_all(&Arc::default(), &IndexDir::Nowhere, &paths, 2, Labels::Map).unwrap();
    let projection = Projection::new(opened[0].schema(), None, &[]).unwrap();
    assert_eq!(projection.small_schema().fields().len(), 1);
    let table = opened[0].load_table(0, &projection).unwrap();
    let expected = Int64Array::from(vec![Some(-1), None]);
    assert_eq!(table.columns.column(0).as_primitive::<Int64Type>(), &expected);
    assert!(table.n_bytes >= 16);
    let size = std::cell::Cell::new(0);
    let limit = table.n_bytes;
    opened[0].load_table_within(0, &projection, limit, &|n| size.set(n)).unwrap();
    assert_eq!(size.get(), limit);
    let error = opened[0].load_table_within(0, &projection, limit - 1, &|_| ()).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Limit(_)), "{error}");
    assert!(error.to_string().contains("other.arrow"), "{error}");
}

#[test]
fn a_changed_file_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(&dir, 2);
    let store = Arc::new(Store::new(&DescriptorCache::new(1)));
    let opened = open_all(&store, &IndexDir::Nowhere, &paths, 1, Labels::Map).unwrap(); // the second keeps the only descriptor
    let projection = Projection::new(opened[0].schema(), None, &[]).unwrap();
    let bytes = std::fs::read(&paths[0]).unwrap();
    std::fs::remove_file(&paths[0]).unwrap();
    std::fs::write(&paths[0], [bytes, vec![0; 8]].concat()).unwrap();
    let error = opened[0].load_table(0, &projection).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Corrupt(why) if why.contains("replaced or changed")));

    // Shortened while its descriptor is open.
    opened[1].load_table(0, &projection).unwrap();
    std::fs::File::options().write(true).open(&paths[1]).unwrap().set_len(16).unwrap();
    let error = opened[1].load_table(0, &projection).unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Corrupt(why) if why.contains("shortened")),
        "{error}"
    );
}

#[test]
fn reading_ends_when_cancelled() {
    let dir = tempfile::tempdir().unwrap();
    let paths = shards(&dir, 1);
    let cancel = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let store = Arc::new(Store::new(&DescriptorCache::new(4)).with_cancel(Arc::clone(&cancel)));
    let shard = Shard::open(&store, &IndexDir::Nowhere, &paths[0]).unwrap();
    cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = shard.read_blob(&(0..8), &mut [0; 8]).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Closed));
}
