//! The schema that all shards of a data set have in common.
//!
//! Columns are joined by name. One that some shards lack, or whose types have no common one, or whose
//! class ids cannot become those of all, is refused when it is asked for: what nobody reads may differ.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use arrow_schema::{Field, FieldRef, Schema, SchemaRef};

use super::{
    class_ids::NewIds,
    class_names::{self, ClassNames, Joined, JoinedNames, Labels},
    common_type::{Conflict, common_field},
    features::has_features,
    schema::{is_same_schema, plain_fields},
};
use crate::{Error, Result};

/// The most columns that a message lists.
const SHOWN: usize = 30;

/// The columns of all shards.
#[derive(Debug)]
pub(super) struct Joint {
    /// Those that all shards have, in the order of the first, each of a type that holds the values
    /// of all; with the metadata of the first that has features.
    pub(super) schema: SchemaRef,
    /// Why other columns are refused, in the order in which they first appear, and then those whose
    /// class ids mean other classes in other shards.
    refused: Vec<(String, Refusal)>,
    classes: BTreeMap<String, JoinedNames>,
}

/// Why a column cannot be read of all shards.
#[derive(Debug)]
struct Refusal {
    /// The dotted path of what differs.
    path: String,
    reason: String,
}

/// Shards of one schema, of which this is the first.
struct Group<'a> {
    name: &'a Arc<str>,
    schema: &'a SchemaRef,
    /// By name; `None` for a name that several columns have.
    columns: HashMap<&'a str, Option<&'a FieldRef>>,
}

impl<'a> Group<'a> {
    fn new(name: &'a Arc<str>, schema: &'a SchemaRef) -> Self {
        let mut columns = HashMap::new();
        for field in schema.fields() {
            let one = |known: &mut Option<&FieldRef>| *known = None;
            columns.entry(field.name().as_str()).and_modify(one).or_insert(Some(field));
        }
        Self { name, schema, columns }
    }

    fn has(&self, name: &str) -> bool {
        self.columns.contains_key(name)
    }
}

impl Joint {
    /// That of these shards, by name and schema, and the new ids of each one's classes; `None` where
    /// there are no shards.
    pub(super) fn new(
        shards: &[(&Arc<str>, &SchemaRef)],
        labels: Labels,
    ) -> Option<(Self, Vec<NewIds>)> {
        let mut joint = Self::of_columns(shards.iter().copied())?;
        let Joined { by_path, new_ids } = class_names::join(shards, &joint.schema, labels);
        for (path, joined) in &by_path {
            if let Some(reason) = &joined.refused {
                let refusal = Refusal { path: path.clone(), reason: reason.clone() };
                joint.refused.push((joined.column.clone(), refusal));
            }
        }
        joint.classes = by_path;
        Some((joint, new_ids))
    }

    /// That of the columns, without classes.
    fn of_columns<'a>(shards: impl Iterator<Item = (&'a Arc<str>, &'a SchemaRef)>) -> Option<Self> {
        let (mut groups, mut seen) = (Vec::new(), HashSet::new());
        let mut with_features = None;
        for (name, schema) in shards {
            if with_features.is_none() && has_features(schema) {
                with_features = Some(schema);
            }
            if seen.insert(plain_fields(schema.fields())) {
                groups.push(Group::new(name, schema));
            }
        }
        let first = groups.first()?;
        let metadata = with_features.unwrap_or(first.schema).metadata();
        if groups.len() == 1 {
            let schema = if metadata == first.schema.metadata() {
                Arc::clone(first.schema)
            } else {
                Arc::new(Schema::clone(first.schema).with_metadata(metadata.clone()))
            };
            return Some(Self { schema, refused: Vec::new(), classes: BTreeMap::new() });
        }
        let (mut fields, mut refused, mut named) = (Vec::new(), Vec::new(), HashSet::new());
        for field in groups.iter().flat_map(|group| group.schema.fields()) {
            if !named.insert(field.name()) {
                continue;
            }
            match join_column(&groups, field.name()) {
                Ok(joined) => fields.push(joined),
                Err(refusal) => refused.push((field.name().clone(), refusal)),
            }
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata.clone()));
        Some(Self { schema, refused, classes: BTreeMap::new() })
    }

    /// Whether a shard's columns are those of all shards already.
    pub(super) fn is(&self, shard: &SchemaRef) -> bool {
        is_same_schema(self.schema.fields(), shard.fields())
    }

    /// The class names in these columns, of all shards.
    pub(super) fn class_names(&self, columns: &[&str]) -> ClassNames {
        let is_column = |name: &str| self.schema.column_with_name(name).is_some();
        let is_in_field = |path: &String| {
            let mut fields = columns.iter().filter(|name| !is_column(name));
            fields.any(|field| {
                let rest = path.strip_prefix(*field);
                rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
        };
        let is_asked = |path: &String, joined: &JoinedNames| {
            columns.contains(&&*joined.column) || is_in_field(path)
        };
        let asked = self.classes.iter().filter(|(path, joined)| is_asked(path, joined));
        asked.map(|(path, joined)| (path.clone(), joined.names.clone())).collect()
    }

    /// Refuses a column that is not the same in all shards; `None` asks for all columns. The name of a
    /// column may have dots, and a dotted path is that of a field.
    pub(super) fn check(&self, column: Option<&str>) -> Result<()> {
        let is_column = |path: &str| self.schema.column_with_name(path).is_some();
        let is_field = |path: &str, name: &String| {
            !is_column(path) && path.strip_prefix(name).is_some_and(|rest| rest.starts_with('.'))
        };
        let is_asked =
            |name: &String| column.is_none_or(|path| path == name || is_field(path, name));
        match self.refused.iter().find(|(name, _)| is_asked(name)) {
            None => Ok(()),
            Some((_, Refusal { path, reason })) => Err(Error::schema(path, reason)),
        }
    }
}

/// The column of this name, which one of the shards has.
fn join_column(groups: &[Group<'_>], name: &str) -> Result<FieldRef, Refusal> {
    let refuse = |reason| Refusal { path: name.to_owned(), reason };
    let has = groups.iter().find(|group| group.has(name));
    if let (Some(has), Some(lacks)) = (has, groups.iter().find(|group| !group.has(name))) {
        let common = groups.first().into_iter().flat_map(|group| group.schema.fields());
        let common = common.map(|field| field.name());
        let mut common = common.filter(|name| groups.iter().all(|group| group.has(name)));
        let shown: Vec<&String> = common.by_ref().take(SHOWN).collect();
        let more = if common.next().is_some() { ", and more of those that all have" } else { "" };
        return Err(refuse(format!(
            "{} has this column, {} does not; ask for those that all shards have: \
             columns={shown:?}{more}",
            has.name, lacks.name
        )));
    }
    let mut joined: Option<FieldRef> = None;
    for (k, group) in groups.iter().enumerate() {
        let Some(Some(field)) = group.columns.get(name) else {
            return Err(refuse(format!(
                "two columns of {} have this name, and other shards have another schema; rename one \
                 of them, or leave it out with columns=[...]",
                group.name
            )));
        };
        joined = Some(match joined {
            None => Arc::clone(field),
            Some(so_far) => match common_field(&so_far, field) {
                Ok(common) if common == *so_far => so_far,
                Ok(common) => Arc::new(common),
                Err(conflict) => {
                    let earlier = groups.iter().take(k);
                    return Err(conflicting(earlier, group, (name, field), conflict));
                }
            },
        });
    }
    joined.ok_or_else(|| refuse("no shard has this column".to_owned()))
}

/// Names the first shard before `group` whose type is in the way.
fn conflicting<'a>(
    earlier: impl Iterator<Item = &'a Group<'a>>,
    group: &Group<'_>,
    (name, field): (&str, &Field),
    conflict: Conflict,
) -> Refusal {
    let with = |other: &'a Group<'a>| {
        let other_field = other.columns.get(name).copied().flatten()?;
        let conflict = common_field(other_field, field).err()?;
        Some((other.name, conflict))
    };
    let mut earlier = earlier.peekable();
    let first = earlier.peek().map_or(group.name, |first| first.name);
    let (other, conflict) = earlier.find_map(with).unwrap_or((first, conflict));
    let Conflict { path, what } = conflict;
    let reason = format!(
        "{other} and {} differ: {what}; write the shards with one schema, or leave the column out \
         with columns=[...]",
        group.name
    );
    Refusal { path: format!("{name}{path}"), reason }
}
