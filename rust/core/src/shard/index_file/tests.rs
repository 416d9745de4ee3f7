use tempfile::TempDir;

use super::*;

/// A folder, and a file in it.
struct Sample {
    folder: TempDir,
    dir: IndexDir,
}

impl Sample {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { dir: IndexDir::Folder(folder.path().to_owned()), folder }
    }

    fn of(&self, key: &[u8]) -> IndexFile<'_> {
        IndexFile::of_shards(&self.dir, Path::new("shard"), "file", key.to_vec()).unwrap()
    }

    fn file(&self) -> IndexFile<'_> {
        self.of(b"key")
    }

    /// A file of three sections.
    fn filled() -> Self {
        let sample = Self::new();
        let file = sample.file();
        file.write_words(Section::rows(5), &[1, 2, u64::MAX]);
        assert!(file.write_blocks(AUDIO, &audio()));
        assert!(file.write(Section::BATCHES, b"batches"));
        sample
    }

    fn bytes(&self) -> Vec<u8> {
        fs::read(self.folder.path().join("file")).unwrap()
    }

    fn put(&self, bytes: &[u8]) {
        fs::write(self.folder.path().join("file"), bytes).unwrap();
    }
}

const AUDIO: Section = Section { kind: 2, of: 0, version: 9 };

fn audio() -> Vec<u8> {
    let mut out = Vec::new();
    for block in 0..5 {
        blocks::write(&mut out, &[block; 30]);
    }
    out
}

/// What each section says.
type Found = (Option<Vec<u8>>, Vec<Vec<u8>>, Option<Vec<u64>>);

fn found(file: &IndexFile<'_>) -> Found {
    let batches = file.read(Section::BATCHES, 100);
    let batches = batches.and_then(|section| section.whole().map(<[u8]>::to_vec));
    let audio = file.read(AUDIO, 1000);
    let audio = audio.iter().flat_map(|section| section.sound().map(<[u8]>::to_vec)).collect();
    (batches, audio, file.read_words(Section::rows(5), 3))
}

#[test]
fn sections_are_replaced_one_at_a_time() {
    let sample = Sample::filled();
    let file = sample.file();
    let blocks: Vec<Vec<u8>> = (0..5).map(|block| vec![block; 30]).collect();
    let words = Some(vec![1, 2, u64::MAX]);
    assert_eq!(found(&file), (Some(b"batches".to_vec()), blocks.clone(), words.clone()));
    assert!(file.write(Section::BATCHES, b"others"));
    assert_eq!(found(&file), (Some(b"others".to_vec()), blocks, words.clone()));
    // In another version it is another, in its place.
    assert!(file.write_blocks(Section::audio(10), &audio()[..50]));
    assert_eq!(found(&file), (Some(b"others".to_vec()), Vec::new(), words));
    assert_eq!(file.read(Section::audio(10), 100).unwrap().sound().count(), 1);
    assert_eq!(file.read_words(Section::rows(5), 2), None, "of another number of rows");
    assert_eq!(fs::read_dir(sample.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_file_does_not_depend_on_the_order_of_its_writers() {
    let one = Sample::filled();
    let other = Sample::new();
    assert!(other.file().write(Section::BATCHES, b"batches"));
    other.file().write_words(Section::rows(5), &[1, 2, u64::MAX]);
    assert!(other.file().write_blocks(AUDIO, &audio()));
    assert_eq!(one.bytes(), other.bytes());
}

#[test]
fn that_of_another_key_is_ignored_and_replaced() {
    let sample = Sample::filled();
    let other = sample.of(b"yek");
    assert_eq!(found(&other), Found::default());
    assert!(other.write(Section::BATCHES, b"of another"));
    assert_eq!(found(&other), (Some(b"of another".to_vec()), Vec::new(), None));
    assert_eq!(found(&sample.file()), Found::default());
}

/// What a damaged file says is what the sound one said, or nothing.
fn assert_less(damaged: &Found, sound: &Found, at: usize) {
    assert!(damaged.0.is_none() || damaged.0 == sound.0, "{at}");
    assert!(damaged.1.iter().all(|block| sound.1.contains(block)), "{at}");
    assert!(damaged.2.is_none() || damaged.2 == sound.2, "{at}");
}

#[test]
fn a_changed_byte_costs_the_block_that_it_lies_in() {
    let sample = Sample::filled();
    let (good, sound) = (sample.bytes(), found(&sample.file()));
    let (mut n_without_head, mut n_whole) = (0, 0);
    for at in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[at] ^= 1 << bit;
            sample.put(&bytes);
            let damaged = found(&sample.file());
            assert_less(&damaged, &sound, at);
            let is_less = [damaged.0.is_none(), damaged.1.len() == 4, damaged.2.is_none()];
            match is_less.iter().filter(|is_less| **is_less).count() {
                1 => n_whole += 1,
                2 if damaged == Found::default() => n_without_head += 1,
                _ => panic!("byte {at}: {damaged:?}"),
            }
        }
    }
    assert!(n_without_head > 8 * 28 && n_whole > 8 * (7 + 24 + 150), "{n_without_head} {n_whole}");
}

#[test]
fn a_file_that_is_cut_has_what_is_left() {
    let sample = Sample::filled();
    let (good, sound) = (sample.bytes(), found(&sample.file()));
    for len in 0..good.len() {
        sample.put(&good[..len]);
        let cut = found(&sample.file());
        assert_less(&cut, &sound, len);
        // What is not whole is left out when the file is written again.
        assert!(sample.file().write(Section::rows(7), b"more"));
        let again = found(&sample.file());
        assert_less(&again, &cut, len);
        assert_eq!(again.0, cut.0, "{len}");
        assert_eq!(sample.file().read(Section::rows(7), 9).unwrap().whole(), Some(&b"more"[..]));
    }
    sample.put(&[&good[..], b"more"].concat());
    assert_eq!(found(&sample.file()), Found::default(), "it was not written like that");
    sample.put(&good[..good.len() - 1]);
    assert_eq!(found(&sample.file()), (sound.0, sound.1, None));
}

#[test]
fn heads_that_say_anything_are_read() {
    let sample = Sample::new();
    for len in [0, 1, 100, 1 << 40, u64::MAX - 200, u64::MAX] {
        let entry = |section| Entry { section, len };
        let sections = [Section::BATCHES, AUDIO, Section::rows(5)].map(entry);
        let mut bytes = head::encode(b"key", &sections);
        bytes.extend(audio());
        sample.put(&bytes);
        let (batches, _, words) = found(&sample.file());
        assert!(batches.is_none() && words.is_none(), "{len}");
        assert!(sample.file().read(Section::BATCHES, u64::MAX).is_none_or(|s| s.whole().is_none()));
        assert!(sample.file().write(Section::BATCHES, b"batches"));
        assert_eq!(found(&sample.file()).0, Some(b"batches".to_vec()));
        assert!(sample.bytes().len() < 1000);
    }
}

#[test]
fn old_numbers_of_rows_are_dropped_and_nothing_else() {
    let sample = Sample::filled();
    for key in 100..200 {
        sample.file().write_words(Section::rows(key), &[key]);
    }
    let (batches, audio, words) = found(&sample.file());
    assert!(batches.is_some() && audio.len() == 5 && words.is_none());
    let kept = (100..200).filter(|key| sample.file().read_words(Section::rows(*key), 1).is_some());
    assert!(kept.eq(200 - (MAX_SECTIONS as u64 - 2)..200));
}

#[test]
fn a_write_that_fails_leaves_the_file() {
    let sample = Sample::filled();
    let good = sample.bytes();
    let path = sample.folder.path().join("file");
    let result = replace::replace(&path, |file| {
        file.write_all(b"half")?;
        Err(io::ErrorKind::StorageFull.into())
    });
    assert!(result.is_err());
    assert_eq!(sample.bytes(), good);
    assert_eq!(fs::read_dir(sample.folder.path()).unwrap().count(), 1);
}

#[test]
fn a_key_may_be_long() {
    let sample = Sample::new();
    let key = vec![7; 3 << 20];
    sample.of(&key).write_words(Section::ANSWER, &[1, 2]);
    assert_eq!(sample.of(&key).read_words(Section::ANSWER, 2), Some(vec![1, 2]));
    assert_eq!(sample.of(&key[1..]).read_words(Section::ANSWER, 2), None);
}
