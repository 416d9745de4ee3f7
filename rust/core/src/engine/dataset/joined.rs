//! The columns of several data sets, joined by name.

use std::collections::BTreeMap;

use arrow_schema::DataType;

use super::source::OpenedShards;
use crate::{
    error::{Error, Result},
    shard::{
        ClassIds, ClassNames, Labels, Projection, Shard, field_at, is_same_type, listed, meaning,
    },
};
use gristmill_audio::{AudioSpec, Channels, SampleType};

/// The columns that all data sets deliver, in the order of the first.
#[derive(Debug)]
pub(crate) struct JoinedColumns {
    pub(crate) delivered: Vec<String>,
    /// Those that are read row by row.
    pub(crate) blobs: Vec<String>,
    /// The classes of each data set's columns.
    own_classes: Vec<ClassNames>,
    /// The classes of all of them: of each data set those that none before it has, in its order.
    classes: ClassNames,
}

impl JoinedColumns {
    /// Those of these data sets, of which there is at least one.
    ///
    /// # Errors
    ///
    /// [`crate::ErrorKind::Schema`] where a column is missing in one of them or differs in its type,
    /// has class names in one only, or is decoded otherwise: the data sets are named.
    pub(crate) fn of(opened: &[OpenedShards], labels: Labels) -> Result<Self> {
        let (first, others) =
            opened.split_first().ok_or_else(|| Error::config("there are no data sets"))?;
        for (other, k) in others.iter().zip(1..) {
            check(opened, (first, other), k)?;
        }
        let own_classes: Vec<ClassNames> = opened.iter().map(|of| of.class_names.clone()).collect();
        let classes = join_classes(opened, &own_classes, labels)?;
        Ok(Self {
            delivered: first.delivered.clone(),
            blobs: first.blobs.clone(),
            own_classes,
            classes,
        })
    }

    /// The classes of a column.
    pub(crate) fn class_names(&self, column: &str) -> Option<Vec<String>> {
        self.classes.get(column).cloned()
    }

    /// How the class ids of data set `k` become those of all.
    pub(crate) fn class_ids(&self, k: usize, projection: &Projection) -> Result<ClassIds> {
        let mut class_ids = ClassIds::default();
        for (path, own) in self.own_classes.get(k).into_iter().flatten() {
            let Some(all) = self.classes.get(path).filter(|all| *all != own) else {
                continue;
            };
            let ids: BTreeMap<&String, i64> = all.iter().zip(0..).collect();
            let ids = own.iter().map(|name| ids.get(name).copied().unwrap_or(-1)).collect();
            let is_part = |name: &str| projection.is_part(name);
            class_ids.add(&projection.small_schema(), path, ids, is_part)?;
        }
        Ok(class_ids)
    }
}

impl OpenedShards {
    fn first_shard(&self) -> Option<&Shard> {
        self.shards.first()
    }

    fn data_type(&self, column: &str) -> Option<DataType> {
        let field = field_at(self.first_shard()?.schema(), column)?;
        Some(meaning(&field).unwrap_or_else(|| field.data_type().clone()))
    }

    /// The names of the columns that are decoded.
    fn decoded(&self) -> Vec<&String> {
        self.audio.iter().map(|(name, _)| name).collect()
    }

    /// How a message calls data set `k`.
    fn named(&self, k: usize) -> String {
        let shard = self.first_shard().map_or_else(String::new, |shard| shard.name().to_string());
        format!("data set {k} ({shard})")
    }
}

/// Refuses data set `k` where its columns do not fit those of the first.
fn check(
    opened: &[OpenedShards],
    (first, other): (&OpenedShards, &OpenedShards),
    k: usize,
) -> Result<()> {
    let (zero, kth) = (first.named(0), other.named(k));
    let missing = |here: &OpenedShards, there: &OpenedShards| {
        here.delivered.iter().find(|name| !there.delivered.contains(name)).cloned()
    };
    let lost = missing(first, other).map(|name| (name, &zero, &kth));
    let lost = lost.or_else(|| missing(other, first).map(|name| (name, &kth, &zero)));
    if let Some((name, has, has_not)) = lost {
        let is_common = |name: &&String| opened.iter().all(|of| of.delivered.contains(name));
        let common: Vec<&String> = first.delivered.iter().filter(is_common).collect();
        let reason = format!(
            "{has} of the mixture delivers this column, {has_not} does not; name those that all have \
             in each of them: columns={common:?}"
        );
        return Err(Error::schema(name, reason));
    }
    let name = |of: &OpenedShards| match &*of.decoded() {
        [] => "no column".to_owned(),
        [name] => format!("column {name:?}"),
        several => format!("columns {several:?}"),
    };
    if first.decoded() != other.decoded() {
        let reason = format!(
            "{zero} of the mixture decodes {}, {kth} {}; decode the same one in all, with \
             audio=gm.Audio(\"column\", ...)",
            name(first),
            name(other),
        );
        return Err(Error::schema("", reason));
    }
    let both = first.audio.iter().zip(&other.audio);
    let mut differ = both.filter(|((_, spec), (_, spec_too))| shape(spec) != shape(spec_too));
    if let Some(((name, _), _)) = differ.next() {
        let reason = format!(
            "{zero} and {kth} of the mixture decode it to arrays of other rates, channels, lengths or \
             dtypes; give their gm.Audio(...) the same sample_rate=, channels=, dtype= and seconds of \
             the crop"
        );
        return Err(Error::schema(name, reason));
    }
    for name in &first.delivered {
        let is_decoded = first.audio.iter().any(|(decoded, _)| decoded == name);
        if is_decoded {
            continue;
        }
        if let (Some(here), Some(there)) = (first.data_type(name), other.data_type(name))
            && (!is_same_type(&here, &there)
                || first.blobs.contains(name) != other.blobs.contains(name))
        {
            let reason = format!(
                "it is {here} in {zero} of the mixture and {there} in {kth}; write it with one type, \
                 or leave it out of both with columns=[...]"
            );
            return Err(Error::schema(name, reason));
        }
    }
    Ok(())
}

/// What decides the shape and dtype of decoded rows, and their rate.
fn shape(spec: &AudioSpec) -> (Option<u32>, Channels, Option<(u16, usize)>, SampleType) {
    (spec.rate_hz, spec.channels, spec.fixed_shape(), spec.sample_type)
}

/// The classes of all data sets, by column.
fn join_classes(opened: &[OpenedShards], own: &[ClassNames], labels: Labels) -> Result<ClassNames> {
    let mut classes = ClassNames::new();
    for path in own.iter().flat_map(BTreeMap::keys) {
        if classes.contains_key(path) {
            continue;
        }
        let mut all = Vec::new();
        let mut first: Option<(String, &Vec<String>)> = None;
        let mut seen = std::collections::HashSet::new();
        for ((names, of), k) in own.iter().zip(opened).zip(0..) {
            let Some(names) = names.get(path) else {
                let other = opened.iter().zip(own).zip(0..);
                let mut other = other.filter(|((_, names), _)| names.contains_key(path));
                let other = other.next().map(|((of, _), k)| of.named(k)).unwrap_or_default();
                let reason = format!(
                    "{other} of the mixture names its classes, {} does not, so that its ids may mean \
                     others; write the names into its features, or leave the column out of both with \
                     columns=[...]",
                    of.named(k)
                );
                return Err(Error::schema(path, reason));
            };
            match &first {
                Some((first, others)) if labels == Labels::Strict && *others != names => {
                    let reason = format!(
                        "its class labels mean different classes: {first} of the mixture has {}, {} \
                         has {}; give data sets that list the same classes in the same order, or \
                         labels=\"map\"",
                        listed(others, names),
                        of.named(k),
                        listed(names, others),
                    );
                    return Err(Error::schema(path, reason));
                }
                Some(_) => {}
                None => first = Some((of.named(k), names)),
            }
            all.extend(names.iter().filter(|name| seen.insert(*name)).cloned());
        }
        classes.insert(path.clone(), all);
    }
    Ok(classes)
}
