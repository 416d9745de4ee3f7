//! Which columns come, where each comes from, and which one is decoded.

use std::{collections::HashSet, fmt::Debug};

use arrow_schema::Schema;

use super::{
    features_rate::features_rate,
    options::{AudioRequest, OnError, Options, Remainder, SourceOptions},
    source::AudioColumn,
};
use crate::{
    batch::{AddedColumn, Classes, ColumnSource, ElementLayout, MultiHot, Styles},
    error::{Error, Result},
    shard::{Projection, Shard, advice, audio_columns, column_of_part, made_as_audio},
};
use gristmill_audio::{AudioSpec, Budget, Channels, Pad};

/// Whether the options ask for the column of this name.
pub(crate) fn is_wanted(source: &SourceOptions, name: &str) -> bool {
    source.columns.as_ref().is_none_or(|columns| columns.iter().any(|column| column == name))
}

/// Refuses columns that the options ask for and that the shards do not have in common.
pub(crate) fn check_joined(source: &SourceOptions, first: &Shard) -> Result<()> {
    let events = source.events.iter().flat_map(|events| events.columns.names());
    let audio = match &source.audio {
        AudioRequest::Decode { column, .. } => column.as_ref(),
        _ => None,
    };
    if source.columns.is_none() {
        first.check_column(None)?;
    }
    let others = source.other_audio.iter().map(|other| &other.column);
    let mut named = source.columns.iter().flatten().chain(audio).chain(others).chain(events);
    named.try_for_each(|name| first.check_column(Some(name)))
}

/// The fields of structs that come as columns, since `columns` or `multi_hot` have their dotted paths,
/// or they are decoded, each with the number of its column.
pub(crate) fn parts_of_columns<'a>(
    (options, source): (&'a Options, &'a SourceOptions),
    decoded: impl Iterator<Item = &'a String>,
    schema: &Schema,
) -> Vec<(usize, &'a String)> {
    let multi_hot = options.styles.multi_hot.iter().map(|(name, _)| name);
    let mut parts: Vec<(usize, &String)> = Vec::new();
    for name in source.columns.iter().flatten().chain(multi_hot).chain(decoded) {
        let part = column_of_part(schema, name).map(|column| (column, name));
        parts.extend(part.filter(|part| !parts.contains(part)));
    }
    parts
}

/// The columns that the features call audio.
pub(crate) fn known_audio(source: &SourceOptions, first: &Shard) -> Result<Vec<String>> {
    if matches!(source.audio, AudioRequest::Decode { column: None, .. }) {
        first.check_audio()?;
    }
    Ok(audio_columns(first.schema()).into_iter().map(|(name, _)| name).collect())
}

/// The columns that are decoded, and how. The first may be one that the features call audio.
pub(crate) fn decoded_columns(
    options: &Options,
    source: &SourceOptions,
    shards: &[Shard],
    known: &[String],
) -> Result<Vec<(String, AudioSpec)>> {
    let first = match &source.audio {
        AudioRequest::Encoded => None,
        AudioRequest::Auto => {
            let whole = AudioSpec { channels: Channels::Mono, pad: Pad::Zero, ..AudioSpec::WHOLE };
            let asked = known.iter().filter(|name| is_wanted(source, name));
            let asked: Vec<_> = asked.cloned().collect();
            match asked.as_slice() {
                [] => None,
                some => Some((found_by_features(shards, some)?, whole)),
            }
        }
        AudioRequest::Decode { column, spec, .. } => {
            let name = match column {
                Some(name) => name.clone(),
                None => found_by_features(shards, known)?,
            };
            Some((name, spec.clone()))
        }
    };
    let others = source.other_audio.iter();
    let others = others.map(|other| (other.column.clone(), other.spec.clone()));
    let audio = first.into_iter().chain(others).enumerate();
    let audio = audio.map(|(n, (name, mut spec))| {
        spec.rate_hz = spec.rate_hz.or(features_rate(source, shards, (n, &name))?);
        // The size of a slot depends on the options alone, not on any recording.
        let slot = spec.fixed_shape().map(|(n, len)| 4 * u64::from(n) * len as u64);
        let rows = if slot.is_some() { 1 } else { options.rows_per_batch() as u64 };
        let bytes = slot.unwrap_or(0).saturating_add(options.column_limit() as u64);
        spec.limits.budget = Budget { bytes, batch_rows: rows };
        Ok((name, spec))
    });
    audio.collect()
}

fn found_by_features(shards: &[Shard], known: &[String]) -> Result<String> {
    match known {
        [name] => Ok(name.clone()),
        [] => Err(none_is_marked(shards.first().map_or(&Schema::empty(), |first| first.schema()))),
        [first, ..] => Err(Error::schema(
            "",
            format!(
                "several columns are audio ({}); name the one to decode: \
                 audio=gm.Audio({first:?}, ...){}, or leave them encoded: audio=None",
                known.join(", "),
                or_several(known),
            ),
        )),
    }
}

/// How two of these columns, or more, are decoded.
fn or_several<T: Debug>(columns: &[T]) -> String {
    let [first, other, ..] = columns else { return String::new() };
    format!(", or several: audio={{{first:?}: gm.Audio(...), {other:?}: gm.Audio(...)}}")
}

/// That the features mark no column as audio, and which columns may be meant.
fn none_is_marked(schema: &Schema) -> Error {
    let fields = schema.fields();
    let alike = made_as_audio(schema);
    let what = "no column is marked as audio in the schema's Hugging Face features";
    if let Some(first) = alike.first() {
        let those = alike.join(", ");
        let reason = format!(
            "{what}, and the type of these is that of audio: {those}; name the one to decode: \
             gm.Audio({first:?}, ...){}",
            or_several(&alike)
        );
        return Error::schema("", reason);
    }
    let mut advised = fields.iter().filter_map(|field| {
        let advice = advice(field.name(), field.data_type())?;
        Some((field.name(), advice))
    });
    match advised.next() {
        Some((name, advice)) => Error::schema(name, format!("{what}, and of this one, {advice}")),
        None => Error::schema("", format!("{what}; name it: gm.Audio(\"column\", ...)")),
    }
}

/// Refuses columns of the shards that have the names of those that are added.
pub(crate) fn check_added(layout: &ElementLayout) -> Result<()> {
    let is_delivered = |name: &str| layout.columns.iter().any(|(column, _)| column == name);
    match layout.added.iter().find(|(name, _)| is_delivered(name)) {
        None => Ok(()),
        Some((name, taken)) => {
            let reason = format!(
                "{} adds a column of this name; leave the shards' own out with columns=[...], or \
                 leave that option out",
                taken.option()
            );
            Err(Error::schema(name, reason))
        }
    }
}

/// Refuses two columns of the same name, since an element could have only one of them.
pub(crate) fn check_names(delivered: &[&str]) -> Result<()> {
    let mut seen = HashSet::new();
    match delivered.iter().find(|name| !seen.insert(**name)) {
        None => Ok(()),
        Some(twice) => Err(Error::schema(
            *twice,
            "two columns of the shards have this name; rename one of them where the shards are \
             written, or name other columns in columns=[...]",
        )),
    }
}

/// The source of each column.
pub(crate) fn sources(
    names: impl Iterator<Item = String>,
    projection: &Projection,
    blobs: &[String],
    decoded: &[AudioColumn],
) -> Vec<(String, ColumnSource)> {
    let small = projection.small_schema();
    let small = |name: &str| small.fields().iter().position(|field| field.name() == name);
    let source = |name: &String| match blobs.iter().position(|blob| blob == name) {
        Some(k) if decoded.iter().any(|column| column.blob == k) => Some(ColumnSource::Audio(k)),
        Some(k) => Some(ColumnSource::Blob { blob: k, fields: small(name) }),
        None => small(name).map(ColumnSource::Table),
    };
    names.filter_map(|name| source(&name).map(|source| (name, source))).collect()
}

/// The columns that become arrays of 0 and 1, with their classes.
pub(crate) fn multi_hot_columns(
    styles: &Styles,
    class_names: impl Fn(&str) -> Option<Vec<String>>,
    projection: &Projection,
) -> Result<Vec<(String, MultiHot)>> {
    let small = projection.small_schema();
    let columns = styles.multi_hot.iter().map(|(name, classes)| {
        let field = small.field_with_name(name).map_err(|_| {
            Error::schema(name, "multi_hot names this column, which contains audio, not classes")
        })?;
        let classes = match classes {
            Some(classes) => classes.clone(),
            None => class_names(name).map(Classes::Names).ok_or_else(|| {
                let reason = format!(
                    "the shards do not tell the classes of this column; write how many there are: \
                     multi_hot={{{name:?}: 10}}, or their names"
                );
                Error::schema(name, reason)
            })?,
        };
        Ok((name.clone(), MultiHot::new(name, field.data_type(), &classes)?))
    });
    columns.collect()
}

/// The columns that the options add, by name, where these columns are decoded.
pub(crate) fn added_columns(
    options: &Options,
    decoded: &[AudioColumn],
) -> Vec<(String, AddedColumn)> {
    use AddedColumn as A;
    let mut added = Vec::new();
    if options.with_row_id {
        added.extend(options.mixture.is_some().then_some(A::DataSet));
        added.extend([A::Shard, A::Row]);
    }
    if options.with_crop {
        let of_each = 0..decoded.len().max(1);
        added.extend(of_each.flat_map(|n| [A::CropStart(n), A::CropFrames(n)]));
        // Of a mixture's parts of rows, those that all data sets have.
        let of_all = |has: fn(&SourceOptions) -> bool| options.sources.iter().all(has);
        if of_all(SourceOptions::has_windows) {
            added.extend([A::Window, A::NWindows]);
        } else if of_all(|source| source.events.is_some()) {
            added.extend([A::Event, A::NEvents]);
        }
    }
    if options.on_error == OnError::Mask || options.remainder == Remainder::Pad {
        added.push(A::Valid);
    }
    // What is said of one column has no prefix, and is said of the first where there are others.
    let named = |added: AddedColumn| {
        let column = added.of_other_audio().and_then(|n| decoded.get(n));
        let name = added.name();
        (column.map_or(name.to_owned(), |column| format!("{}_{name}", column.name)), added)
    };
    added.into_iter().map(named).collect()
}
