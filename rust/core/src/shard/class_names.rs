//! The classes of all shards, which may list them in other orders.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use arrow_schema::{DataType, Schema, SchemaRef};

use super::{
    class_ids::{NewIds, leaf_type},
    features::{KEY, each_class_names},
};

/// The class names of `ClassLabel` features, by dotted path. A label is an index into them.
pub(crate) type ClassNames = BTreeMap<String, Vec<String>>;

/// What is done where class labels of shards, or of data sets, mean different classes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Labels {
    /// They become those of all classes together, by name.
    #[default]
    Map,
    /// They are refused.
    Strict,
}

impl Labels {
    /// Both, by their names in Python.
    pub const ALL: [(&'static str, Self); 2] = [("map", Self::Map), ("strict", Self::Strict)];
}

/// The class names of one path in all shards.
#[derive(Debug)]
pub(super) struct JoinedNames {
    /// The column that the path is in.
    pub(super) column: String,
    /// Of all shards: those of the first, then those of the second that are new, and so on.
    pub(super) names: Vec<String>,
    /// Why ids of shards cannot become those of all.
    pub(super) refused: Option<String>,
    /// The shards that have names, with their new ids; `None` for the names of the first.
    new_ids: Vec<(usize, Option<Arc<[i64]>>)>,
    /// The number of the first one's names, before those of others were added.
    n_first: usize,
    /// The ids of `names`, once shards differ.
    ids: HashMap<String, i64>,
}

/// The names of all paths, and the new ids of each shard.
#[derive(Debug)]
pub(super) struct Joined {
    pub(super) by_path: BTreeMap<String, JoinedNames>,
    /// By the number of the shard.
    pub(super) new_ids: Vec<NewIds>,
}

/// Joins the class names of shards, given by name and own schema, whose columns become those of
/// `schema`.
///
/// A shard without names for a path fits all others, as long as these do not differ.
pub(super) fn join(shards: &[(&Arc<str>, &SchemaRef)], schema: &Schema, labels: Labels) -> Joined {
    let mut by_path = BTreeMap::<String, JoinedNames>::new();
    let mut last: Option<(usize, &String)> = None;
    for (k, (_, own)) in shards.iter().enumerate() {
        let Some(metadata) = own.metadata().get(KEY) else { continue };
        if let Some((before, _)) = last.filter(|(_, last)| *last == metadata) {
            for joined in by_path.values_mut() {
                joined.repeat(before, k);
            }
            continue;
        }
        last = Some((k, metadata));
        // Features that lie may name a path twice.
        let mut found = BTreeMap::new();
        each_class_names(own, |column, path, names| {
            found.insert(path, (column.to_owned(), names));
        });
        for (path, (column, names)) in found {
            match by_path.get_mut(&path) {
                Some(joined) => joined.add(k, &names, shards, labels),
                None => drop(by_path.insert(path, JoinedNames::new(column, k, names))),
            }
        }
    }
    let mut new_ids = vec![NewIds::new(); shards.len()];
    for (path, joined) in &mut by_path {
        if !joined.differs() {
            continue;
        }
        joined.check(shards, leaf_type(schema, path));
        if joined.refused.is_some() || leaf_type(schema, path) != Some(&DataType::Int64) {
            continue;
        }
        let first: Arc<[i64]> = (0..joined.n_first as i64).collect();
        for (k, ids) in &joined.new_ids {
            if let Some(of_shard) = new_ids.get_mut(*k) {
                of_shard.push((path.clone(), Arc::clone(ids.as_ref().unwrap_or(&first))));
            }
        }
    }
    Joined { by_path, new_ids }
}

impl JoinedNames {
    fn new(column: String, k: usize, names: Vec<String>) -> Self {
        Self {
            column,
            n_first: names.len(),
            names,
            refused: None,
            new_ids: vec![(k, None)],
            ids: HashMap::new(),
        }
    }

    /// Whether shards list other names.
    fn differs(&self) -> bool {
        self.refused.is_some() || self.new_ids.iter().any(|(_, ids)| ids.is_some())
    }

    /// Shard `k` has the features of this one before it.
    fn repeat(&mut self, before: usize, k: usize) {
        let mut last = self.new_ids.iter().rev().take_while(|(k, _)| *k >= before);
        let ids = last.find(|(k, _)| *k == before).map(|(_, ids)| ids.clone());
        self.new_ids.extend(ids.map(|ids| (k, ids)));
    }

    /// Adds the names of shard `k`.
    fn add(
        &mut self,
        k: usize,
        own: &[String],
        shards: &[(&Arc<str>, &SchemaRef)],
        labels: Labels,
    ) {
        let first = self.names.get(..self.n_first).unwrap_or_default();
        if own == first || self.refused.is_some() {
            self.new_ids.push((k, None));
            return;
        }
        let name = |k: usize| shards.get(k).map_or("", |(name, _)| name);
        let of_first = name(self.new_ids.first().map_or(0, |(k, _)| *k));
        if labels == Labels::Strict {
            self.refused = Some(format!(
                "its class labels mean different classes: {of_first} has {}, {} has {}; give shards \
                 that list the same classes in the same order, or labels=\"map\"",
                listed(first, own),
                name(k),
                listed(own, first),
            ));
            return;
        }
        if self.ids.is_empty() {
            self.ids = first.iter().cloned().zip(0..).collect();
            if self.ids.len() < first.len() {
                self.refused = Some(twice(of_first, first));
                return;
            }
        }
        let shard = name(k);
        let mut ids = Vec::with_capacity(own.len());
        for name in own {
            ids.push(self.ids.get(name).copied().unwrap_or_else(|| {
                let new = self.names.len() as i64;
                self.names.push(name.clone());
                self.ids.insert(name.clone(), new);
                new
            }));
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable();
        sorted.dedup();
        if sorted.len() < ids.len() {
            self.refused = Some(twice(shard, own));
        }
        // Neighbours with one list share its ids.
        let before = self.new_ids.last().and_then(|(_, before)| before.as_ref());
        let ids = match before.filter(|before| ***before == *ids) {
            Some(before) => Arc::clone(before),
            None => ids.into(),
        };
        self.new_ids.push((k, Some(ids)));
    }

    /// Refuses ids that cannot be mapped, where shards differ.
    fn check(&mut self, shards: &[(&Arc<str>, &SchemaRef)], leaf: Option<&DataType>) {
        if self.refused.is_some() || !leaf.is_some_and(DataType::is_integer) {
            return;
        }
        let mut named = self.new_ids.iter().map(|(k, _)| *k).peekable();
        let has_not = (0..shards.len()).find(|k| named.next_if_eq(k).is_none());
        let name = |k: usize| shards.get(k).map_or("", |(name, _)| name);
        let other = self.new_ids.iter().find(|(_, ids)| ids.is_some());
        let (first, other) = (self.new_ids.first(), other);
        let (first, other) = (first.map_or(0, |(k, _)| *k), other.map_or(0, |(k, _)| *k));
        if let Some(has_not) = has_not {
            self.refused = Some(format!(
                "{} and {} list different classes, and {} lists none, so that its ids may be \
                 those of either; write the names into its features, or leave the column out with \
                 columns=[...]",
                name(first),
                name(other),
                name(has_not)
            ));
        } else if let Some(leaf) = leaf.filter(|leaf| **leaf != DataType::Int64) {
            self.refused = Some(format!(
                "{} and {} list different classes, and only ids of type Int64, as datasets writes \
                 them, become those of all, not {leaf}; write the column as int64, or leave it \
                 out with columns=[...]",
                name(first),
                name(other),
            ));
        }
    }
}

fn twice(shard: &str, names: &[String]) -> String {
    let mut seen = std::collections::HashSet::new();
    let twice = names.iter().find(|name| !seen.insert(*name));
    format!(
        "shards list different classes, and {shard} lists {:?} twice, so that its ids cannot be \
         told by name; write its features with each name once, or leave the column out with \
         columns=[...]",
        twice.map_or("", String::as_str)
    )
}

/// The most classes of a list that a message shows.
const SHOWN: usize = 8;

/// The classes as a message shows them: all of a short list; of a long one, those from the first
/// difference to `other` on.
pub(crate) fn listed(names: &[String], other: &[String]) -> String {
    let differs = names.iter().zip(other).take_while(|(a, b)| a == b).count();
    let from = if names.len() <= SHOWN { 0 } else { differs };
    let shown = names.iter().enumerate().skip(from).take(SHOWN);
    let mut parts: Vec<String> = shown.map(|(id, name)| format!("{id}: {name:?}")).collect();
    if from > 0 {
        parts.insert(0, "...".to_owned());
    }
    if from + SHOWN < names.len() {
        parts.push("...".to_owned());
    }
    format!("{} ({})", names.len(), parts.join(", "))
}

#[cfg(test)]
mod tests {
    use arrow_schema::Field;
    use proptest::prelude::*;

    use super::*;

    type Named = Vec<(Arc<str>, SchemaRef)>;

    /// Shards of a column of this type, whose features list these names.
    fn shards(lists: &[Option<Vec<&str>>], of: &DataType) -> Named {
        let shard = |(k, names): (usize, &Option<Vec<&str>>)| {
            let json = names.as_ref().map(|names| {
                let names = serde_json::to_string(names).unwrap();
                format!(
                    r#"{{"info": {{"features": {{"c": {{"names": {names}, "_type": "ClassLabel"}}}}}}}}"#
                )
            });
            let metadata: HashMap<_, _> =
                json.map(|json| (KEY.to_owned(), json)).into_iter().collect();
            let schema =
                Schema::new_with_metadata(vec![Field::new("c", of.clone(), true)], metadata);
            (Arc::from(format!("{k}.arrow")), Arc::new(schema))
        };
        lists.iter().enumerate().map(shard).collect()
    }

    fn joined(lists: &[Option<Vec<&str>>], of: &DataType, labels: Labels) -> Joined {
        let shards = shards(lists, of);
        let of: Vec<_> = shards.iter().map(|(name, schema)| (name, schema)).collect();
        join(&of, &shards[0].1, labels)
    }

    fn refused(lists: &[Option<Vec<&str>>], of: &DataType, labels: Labels) -> Option<String> {
        joined(lists, of, labels).by_path.remove("c").and_then(|joined| joined.refused)
    }

    proptest! {
        #[test]
        fn ids_mean_the_same_names(
            lists in prop::collection::vec(
                prop::sample::subsequence(vec!["a", "b", "c", "d", "e"], 0..5).prop_shuffle(),
                1..5,
            ),
        ) {
            let all: Vec<_> = lists.iter().cloned().map(Some).collect();
            let Joined { by_path, new_ids } = joined(&all, &DataType::Int64, Labels::Map);
            let names = &by_path["c"].names;
            let mut expected = Vec::new();
            for name in lists.iter().flatten() {
                if !expected.contains(name) {
                    expected.push(name);
                }
            }
            prop_assert_eq!(names, &expected);
            for (own, new) in lists.iter().zip(&new_ids) {
                match new.as_slice() {
                    [] => prop_assert!(lists.iter().all(|list| list == own)),
                    [(path, ids)] => {
                        prop_assert_eq!(path, "c");
                        let found: Vec<_> = ids.iter().map(|id| &names[*id as usize]).collect();
                        prop_assert_eq!(found, own.iter().collect::<Vec<_>>());
                    }
                    _ => prop_assert!(false, "one path"),
                }
            }
        }
    }

    #[test]
    fn what_cannot_be_told_by_name_is_refused() {
        let (ab, ba) = (Some(vec!["a", "b"]), Some(vec!["b", "a"]));
        let int64 = &DataType::Int64;
        assert_eq!(refused(&[ab.clone(), None, ab.clone()], int64, Labels::Strict), None);
        let why = |lists: &[_], of, labels| refused(lists, of, labels).unwrap();
        let strict = why(&[ab.clone(), ba.clone()], int64, Labels::Strict);
        assert!(strict.contains("0.arrow has 2 (0: \"a\", 1: \"b\")"), "{strict}");
        let unnamed = why(&[ab.clone(), ba.clone(), None], int64, Labels::Map);
        assert!(unnamed.contains("2.arrow lists none"), "{unnamed}");
        let narrow = why(&[ab.clone(), ba.clone()], &DataType::Int32, Labels::Map);
        assert!(narrow.contains("not Int32"), "{narrow}");
        let twice = Some(vec!["a", "a"]);
        for lists in [[ab.clone(), twice.clone()], [twice.clone(), ab.clone()]] {
            let twice = why(&lists, int64, Labels::Map);
            assert!(twice.contains("lists \"a\" twice"), "{twice}");
        }
        assert_eq!(refused(&[twice.clone(), twice], int64, Labels::Map), None);
        assert_eq!(refused(&[ab, ba], &DataType::Utf8, Labels::Map), None, "names, not ids");
    }

    #[test]
    fn shards_of_one_list_share_their_ids() {
        let (ab, ba) = (Some(vec!["a", "b"]), Some(vec!["b", "a"]));
        let lists = [ab.clone(), ba.clone(), ba, ab];
        let Joined { new_ids, .. } = joined(&lists, &DataType::Int64, Labels::Map);
        let ids: Vec<&Arc<[i64]>> = new_ids.iter().map(|ids| &ids[0].1).collect();
        assert!(Arc::ptr_eq(ids[0], ids[3]) && Arc::ptr_eq(ids[1], ids[2]));
        assert_eq!((&**ids[0], &**ids[1]), (&[0, 1][..], &[1, 0][..]));
    }
}
