//! Columns of paths: those of recordings that are files of their own, and the original ones.

use std::path::Path;

use arrow_array::{Array, ArrayRef, cast::AsArray};
use arrow_schema::{DataType, Schema};

use crate::{
    batch::{SizeLimit, Value, value},
    error::{Error, Result},
    shard::{Projection, Table, field_at, holds_paths},
    store::{MAX_PATH_BYTES, Root, path_text},
};
use gristmill_audio::Reason;

/// The column of the recordings' original paths: the audio column's child `path`, beside `bytes`, or
/// the column itself where it is text.
#[derive(Debug)]
pub(crate) struct PathColumn(Projection);

impl PathColumn {
    const NAME: &'static str = "path";

    /// That of this audio column; `None` where there is none, or it is not text.
    pub(crate) fn find(schema: &Schema, audio: &str) -> Option<Self> {
        let column = field_at(schema, audio)?;
        let DataType::Struct(children) = column.data_type() else {
            let is_text = holds_paths(column.data_type());
            return is_text.then(|| Projection::of_siblings(schema, audio).map(Self)).flatten();
        };
        let (_, path) = children.find(Self::NAME)?;
        let is_text =
            matches!(path.data_type(), DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View);
        is_text.then(|| Projection::of_siblings(schema, audio).map(Self)).flatten()
    }

    /// Its projection: the only column of the tables that are read by it.
    pub(crate) fn projection(&self) -> &Projection {
        &self.0
    }
}

/// The place of the recordings' paths in the tables, and the folder that they count from.
#[derive(Debug)]
pub(crate) struct RecordingFiles {
    /// The index of the audio column among the tables' columns.
    pub(crate) column: usize,
    pub(crate) root: Root,
}

impl RecordingFiles {
    /// Those of the audio column `name` in `root`; `None` without one of them.
    ///
    /// # Errors
    ///
    /// Where `root` is no folder.
    pub(crate) fn find(
        root: Option<&Path>,
        name: Option<&str>,
        projection: &Projection,
    ) -> Result<Option<Self>> {
        let (Some(root), Some(name)) = (root, name) else { return Ok(None) };
        let small = projection.small_schema();
        let column = small.fields().iter().position(|field| field.name() == name);
        column.map(|column| Ok(Self { column, root: open_root(root)? })).transpose()
    }

    /// The path of a row; `None` where it has none.
    ///
    /// # Errors
    ///
    /// Where it is longer than that of any file.
    pub(crate) fn path_of(
        &self,
        table: &Table,
        table_row: usize,
    ) -> Result<Option<String>, Reason> {
        let audio = table.columns.columns().get(self.column);
        let path = audio.map_or(Ok(None), |audio| path_or_too_long(audio, table_row));
        path.map_err(|TooLong| {
            Reason::file("invalid_path", "the row's path is longer than that of any file")
        })
    }
}

/// A path that is longer than any file's.
struct TooLong;

/// The path of a row in an audio column, or in one of paths; `None` where it is null or empty.
fn path_or_too_long(audio: &ArrayRef, row: usize) -> Result<Option<String>, TooLong> {
    if row >= audio.len() || audio.is_null(row) {
        return Ok(None);
    }
    let path = match audio.as_struct_opt() {
        Some(audio) => audio.column_by_name(PathColumn::NAME),
        None => Some(audio),
    };
    let Some(path) = path else { return Ok(None) };
    match value(path, row, &SizeLimit::new(MAX_PATH_BYTES)) {
        Ok(Value::Text(path)) if !path.is_empty() => Ok(Some(path)),
        Ok(_) => Ok(None),
        Err(_) => Err(TooLong),
    }
}

/// The path of a row, as [`path_or_too_long`]; `None` too where it is too long.
pub(crate) fn path_in(audio: &ArrayRef, row: usize) -> Option<String> {
    path_or_too_long(audio, row).ok().flatten()
}

pub(crate) fn open_root(root: &Path) -> Result<Root> {
    Root::open(root).map_err(|error| Error::from(error).in_shard(&path_text(root)))
}

/// The reason where a row has a path and nothing says where that leads.
pub(crate) fn without_root(path: &str) -> Reason {
    Reason::file(
        "null",
        format!(
            "the audio is null, and the row has the path {:?}: give the folder of the recordings, \
             gm.Audio(root=\"...\") or --root, or exclude the row",
            shown(path)
        ),
    )
}

/// A path for a message: rows may hold anything.
pub(crate) fn shown(path: &str) -> String {
    let mut shown: String = path.chars().take(200).collect();
    if shown.len() < path.len() {
        shown.push_str("...");
    }
    shown
}
