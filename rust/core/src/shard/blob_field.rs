//! Which columns may be read row by row, and how their values are stored.

use arrow_schema::{DataType, Fields, Schema};

use super::{
    children::Children,
    common_type::{is_binary, is_text},
    nested,
};
use crate::{Error, Result};

/// The name of the child that holds the bytes in a struct of audio, image or file.
const BYTES: &str = "bytes";

/// A blob column's field in the schema: a column, or the field of a struct at a dotted path.
#[derive(Clone, Debug)]
pub(super) struct BlobField {
    /// The column's index.
    pub(super) column: usize,
    /// The indices of the fields that lead from the column to the bytes; none where it has them itself.
    pub(super) path: Vec<usize>,
    /// The dotted path, where this is a field of a struct.
    pub(super) part: Option<String>,
    pub(super) kind: BlobKind,
}

/// How the values of a blob column are stored in Arrow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BlobKind {
    /// In one buffer, by offsets of 32 bits, or of 64 where they are `large`.
    Offsets { large: bool },
    /// In several buffers, by views, as polars writes them.
    Views,
    /// In a dictionary, which is read as a whole.
    Dictionary,
}

impl BlobKind {
    fn of(data_type: &DataType) -> Option<Self> {
        match data_type {
            DataType::Binary => Some(Self::Offsets { large: false }),
            DataType::LargeBinary => Some(Self::Offsets { large: true }),
            DataType::BinaryView => Some(Self::Views),
            DataType::Dictionary(_, values) if is_binary(values) => Some(Self::Dictionary),
            _ => None,
        }
    }
}

impl BlobField {
    /// That of the column of this name.
    ///
    /// # Errors
    ///
    /// `Schema` where there is none, or its type is not that of a blob.
    pub(super) fn find(schema: &Schema, name: &str) -> Result<Self> {
        let (column, mut path) = nested::find(schema, name)?;
        let data_type = schema.fields().get(column).map(|field| field.data_type());
        let found = match data_type.and_then(|of| through_structs(of, &path)) {
            Some(DataType::Struct(children)) => bytes_of(children),
            Some(data_type) => BlobKind::of(data_type).map(|kind| (None, kind)),
            None => None,
        };
        let (child, kind) =
            found.ok_or_else(|| Error::schema(name, why_no_blob(name, data_type, &path)))?;
        let part = (!path.is_empty()).then(|| name.to_owned());
        path.extend(child);
        Ok(Self { column, path, part, kind })
    }

    /// The fields that lead to the bytes; `None` where the column has them itself.
    pub(super) fn only(&self, column: &DataType) -> Option<Children> {
        Children::only(column, &self.path).0
    }

    /// The column's fields beside the bytes, if there are any.
    pub(super) fn siblings(&self, schema: &Schema) -> Option<Children> {
        Children::without(schema.fields().get(self.column)?.data_type(), &self.path)
    }
}

/// The type of the field at this path, where only structs lead to it.
fn through_structs<'a>(data_type: &'a DataType, path: &[usize]) -> Option<&'a DataType> {
    path.iter().try_fold(data_type, |of, at| match of {
        DataType::Struct(children) => children.get(*at).map(|child| child.data_type()),
        _ => None,
    })
}

fn bytes_of(children: &Fields) -> Option<(Option<usize>, BlobKind)> {
    let (child, field) = children.find(BYTES)?;
    Some((Some(child), BlobKind::of(field.data_type())?))
}

/// Whether a struct, or one in it, has binary values.
pub(super) fn has_binary(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(children) => children.iter().any(|child| has_binary(child.data_type())),
        other => is_binary(other),
    }
}

/// Whether the child of this index is the `bytes` of a struct.
pub(super) fn is_bytes(children: &Fields, child: usize) -> bool {
    bytes_of(children).is_some_and(|(bytes, _)| bytes == Some(child))
}

/// Whether a column is text, and so may hold the paths of recordings.
pub(crate) fn holds_paths(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_text(values),
        other => is_text(other),
    }
}

/// The columns, and the dotted paths of fields of structs, whose type is that of audio.
pub(crate) fn made_as_audio(schema: &Schema) -> Vec<String> {
    fn add(within: &str, fields: &Fields, found: &mut Vec<String>) {
        for field in fields {
            let path = format!("{within}{}", field.name());
            match field.data_type() {
                of if is_made_as_audio(of) => found.push(path),
                DataType::Struct(fields) => add(&format!("{path}."), fields, found),
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    add("", schema.fields(), &mut found);
    found
}

/// Whether a type is that of audio in the files of `datasets`.
pub(super) fn is_made_as_audio(data_type: &DataType) -> bool {
    let DataType::Struct(fields) = data_type else { return false };
    let [bytes, path] = &**fields else { return false };
    bytes.name() == BYTES
        && is_binary(bytes.data_type())
        && path.name() == "path"
        && is_text(path.data_type())
}

/// What holds sound, but none that is decoded, and what to do with it; `None` for any other type.
pub(crate) fn advice(name: &str, data_type: &DataType) -> Option<String> {
    match data_type {
        DataType::Struct(fields)
            if fields.find("array").is_some() && fields.find("sampling_rate").is_some() =>
        {
            Some(
                "its rows are decoded samples ('array' and 'sampling_rate'), and what is decoded \
                 here are encoded recordings: write the shards with those in 'bytes', as datasets \
                 does with the feature Audio, or read the samples as they are with audio=None"
                    .to_owned(),
            )
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _)
            if is_made_as_audio(item.data_type()) || is_binary(item.data_type()) =>
        {
            Some(format!(
                "each of its rows has a list of recordings, and one a row is decoded: write the \
                 shards with a row for each recording (explode({name:?}) of pandas or polars), or \
                 read them encoded with audio=None and give each to gm.decode"
            ))
        }
        _ => None,
    }
}

fn why_no_blob(name: &str, data_type: Option<&DataType>, path: &[usize]) -> String {
    let Some(column) = data_type else { return String::new() };
    let data_type = nested::type_at(column, path).unwrap_or_else(|| column.clone());
    if let Some(advice) = advice(name, &data_type) {
        return advice;
    }
    if holds_paths(&data_type) {
        return format!(
            "this column is text and no encoded audio: if it holds the paths of recordings, give \
             the folder that these count from, gm.Audio({name:?}, root=\"...\")"
        );
    }
    format!("encoded audio must be binary or a struct with binary 'bytes', but this is {data_type}")
}
