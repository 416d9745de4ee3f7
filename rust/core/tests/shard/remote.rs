//! Shards behind URLs, from a server that answers as it is told to.

use std::{
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    path::PathBuf,
    sync::Arc,
    thread,
};

use arrow_array::{ArrayRef, Int64Array, RecordBatch};
use gristmill_core::{
    shard::{AudioIndex, IndexDir, Shard},
    store::{DescriptorCache, StorageOptions, Store, read},
};

use crate::common::Written;

/// What a server does.
#[derive(Clone, Copy)]
struct Habits {
    has_tags: bool,
    /// The most bytes in an answer.
    most: usize,
    unit: &'static str,
    encoding: &'static str,
}

const PLAIN: Habits = Habits { has_tags: true, most: usize::MAX, unit: "bytes", encoding: "" };

/// Serves file `k` as `/get?id=k` until the process ends; returns its address.
// The crate's own threads are not for tests outside it.
#[allow(clippy::disallowed_methods)]
fn serve(files: Vec<Vec<u8>>, habits: Habits) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let files = files.clone();
            thread::spawn(move || while answer(&stream, &files, habits).is_some() {});
        }
    });
    url
}

/// Answers one request; `None` at the end of the connection.
fn answer(mut stream: &TcpStream, files: &[Vec<u8>], habits: Habits) -> Option<()> {
    let mut head = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.ok()?.to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        head.push(line);
    }
    let id = head.first()?.split_once("?id=").map_or("0", |(_, id)| id.split(' ').next().unwrap());
    let file = files.get(id.parse::<usize>().ok()?)?;
    let range = head.iter().find_map(|line| line.strip_prefix("range: bytes="))?;
    let (first, last) = range.split_once('-')?;
    let first = first.parse().ok()?;
    let end =
        file.len().min(last.parse::<usize>().ok()? + 1).min(habits.most.saturating_add(first));
    let body = file.get(first..end)?;
    let tag = if habits.has_tags { format!("ETag: \"{id}\"\r\n") } else { String::new() };
    let head = format!(
        "HTTP/1.1 206 Partial Content\r\nLast-Modified: Wed, 21 Oct 2015 07:28:00 GMT\r\n{tag}\
         Content-Encoding: {}\r\nContent-Range: {} {first}-{}/{}\r\nContent-Length: {}\r\n\r\n",
        habits.encoding,
        habits.unit,
        end - 1,
        file.len(),
        body.len()
    );
    stream.write_all(&[head.as_bytes(), body].concat()).ok()
}

fn shard(batches: &[&[i64]]) -> Vec<u8> {
    let batches: Vec<_> = batches
        .iter()
        .map(|rows| {
            let rows = Arc::new(Int64Array::from(rows.to_vec())) as ArrayRef;
            RecordBatch::try_from_iter([("label", rows)]).unwrap()
        })
        .collect();
    Written::STREAM.bytes(&batches)
}

fn open(url: &str, index_dir: &IndexDir) -> Shard {
    let store = Arc::new(Store::new(&DescriptorCache::new(4)));
    Shard::open(&store, index_dir, url.as_ref()).unwrap()
}

/// The record batch of each row.
fn batches(shard: &Shard) -> Vec<usize> {
    (0..shard.n_rows()).map(|row| shard.locate(row).unwrap().0).collect()
}

#[test]
fn shards_that_only_a_query_tells_apart_share_nothing_without_a_tag() {
    let files = vec![shard(&[&[1, 2, 3, 4], &[5, 6]]), shard(&[&[1, 2], &[3, 4, 5, 6]])];
    assert_eq!(files[0].len(), files[1].len());
    for has_tags in [false, true] {
        let url = serve(files.clone(), Habits { has_tags, ..PLAIN });
        let folder = tempfile::tempdir().unwrap();
        let dir = IndexDir::Folder(folder.path().to_owned());
        for (id, rows) in [(0, [0, 0, 0, 0, 1, 1]), (1, [0, 0, 1, 1, 1, 1])] {
            let shard = open(&format!("{url}/get?id={id}"), &dir);
            assert_eq!((batches(&shard), shard.has_sidecar()), (rows.to_vec(), has_tags));
            shard.keep(&dir, 7, &[id as u64]);
            assert_eq!(shard.load_kept(&dir, 7, 1), has_tags.then(|| vec![id as u64]));
            assert_eq!(shard.save_audio_index(1, &mut AudioIndex::default()), has_tags);
            assert!(shard.load_audio_index(1).is_empty());
        }
        let kept: Vec<PathBuf> =
            folder.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        assert_eq!(kept.is_empty(), !has_tags, "{kept:?}");
    }
}

#[test]
fn what_was_kept_without_a_query_is_not_read_with_one() {
    let files = vec![shard(&[&[1, 2, 3, 4], &[5, 6]]), shard(&[&[1, 2], &[3, 4, 5, 6]])];
    let folder = tempfile::tempdir().unwrap();
    let dir = IndexDir::Folder(folder.path().to_owned());
    let url = serve(files, Habits { has_tags: false, ..PLAIN });
    // An older version kept it under the same identity with a query, too.
    let first = open(&format!("{url}/get"), &dir);
    first.keep(&dir, 7, &[1]);
    assert!(first.has_sidecar() && first.load_kept(&dir, 7, 1).is_some());
    let other = open(&format!("{url}/get?id=1"), &dir);
    assert_eq!(batches(&other), [0, 0, 1, 1, 1, 1]);
    assert!(!other.has_sidecar() && other.load_kept(&dir, 7, 1).is_none());
}

#[test]
fn answers_that_are_as_good_as_others_are_taken() {
    let rows: Vec<i64> = (0..5000).collect();
    let file = shard(&[&rows]);
    for habits in [
        Habits { most: 1000, ..PLAIN },
        Habits { unit: "Bytes", ..PLAIN },
        Habits { encoding: "Identity", ..PLAIN },
    ] {
        let url = serve(vec![file.clone()], habits);
        let store = DescriptorCache::new(4);
        let read = read(&store, &format!("{url}/get"), &StorageOptions::default(), 0);
        assert!(read.unwrap() == file);
    }
}
