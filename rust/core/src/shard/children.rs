//! Which children of a struct are read, and which of theirs.

use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Fields};

/// The children of a struct that are kept, by their indices; those with a value are structs of which
/// only some children are kept. The schema's depth was checked.
#[derive(Clone, Debug)]
pub(super) struct Children(Vec<(usize, Option<Children>)>);

impl Children {
    /// All of this struct's but the field at a path through structs; `None` where none is left.
    pub(super) fn without(of: &DataType, path: &[usize]) -> Option<Self> {
        let (DataType::Struct(fields), Some((at, rest))) = (of, path.split_first()) else {
            return None;
        };
        let kept = fields.iter().enumerate().filter_map(|(child, field)| {
            if child != *at {
                return Some((child, None));
            }
            Some((child, Some(Self::without(field.data_type(), rest)?)))
        });
        Self::of(kept.collect())
    }

    /// All of this struct's but what `is_left_out`; `None` where nothing is, or none is left.
    pub(super) fn where_not(
        of: &DataType,
        is_left_out: &impl Fn(&Fields, usize) -> bool,
    ) -> Option<Self> {
        let DataType::Struct(fields) = of else { return None };
        let mut leaves_out = false;
        let mut kept = Vec::new();
        for (child, field) in fields.iter().enumerate() {
            if is_left_out(fields, child) {
                leaves_out = true;
                continue;
            }
            let inner = Self::where_not(field.data_type(), is_left_out);
            leaves_out |= inner.is_some();
            kept.push((child, inner));
        }
        if leaves_out { Self::of(kept) } else { None }
    }

    /// The field at a path, and no other as far as structs lead to it; and its path in what is kept.
    pub(super) fn only(of: &DataType, path: &[usize]) -> (Option<Self>, Vec<usize>) {
        let (DataType::Struct(fields), Some((at, rest))) = (of, path.split_first()) else {
            return (None, path.to_vec());
        };
        let (inner, mut rest) = match fields.get(*at) {
            Some(field) => Self::only(field.data_type(), rest),
            None => (None, rest.to_vec()),
        };
        rest.insert(0, 0);
        (Self::of(vec![(*at, inner)]), rest)
    }

    /// Of the field at a path through structs, these children; and nothing beside it.
    pub(super) fn at(path: &[usize], children: Self) -> Self {
        path.iter().rev().fold(children, |inner, at| Self(vec![(*at, Some(inner))]))
    }

    fn of(kept: Vec<(usize, Option<Self>)>) -> Option<Self> {
        (!kept.is_empty()).then_some(Self(kept))
    }

    /// Each child by its index, and what is kept of it; `None` keeps it whole.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, Option<&Self>)> {
        self.0.iter().map(|(child, inner)| (*child, inner.as_ref()))
    }

    /// The same children by name in the struct of a shard.
    pub(super) fn of_shard(&self, of: &DataType, own: &DataType) -> Option<Self> {
        let (DataType::Struct(fields), DataType::Struct(own)) = (of, own) else { return None };
        let kept = self.iter().filter_map(|(child, inner)| {
            let field = fields.get(child)?;
            let (child, own) = own.find(field.name())?;
            let inner = inner.and_then(|i| i.of_shard(field.data_type(), own.data_type()));
            Some((child, inner))
        });
        Self::of(kept.collect())
    }

    /// The field of a struct with these of its children.
    pub(super) fn field(&self, field: &FieldRef) -> FieldRef {
        let DataType::Struct(fields) = field.data_type() else { return Arc::clone(field) };
        let kept = self.iter().filter_map(|(child, inner)| {
            let child = fields.get(child)?;
            Some(inner.map_or_else(|| Arc::clone(child), |inner| inner.field(child)))
        });
        let kept: Fields = kept.collect();
        Arc::new(Field::clone(field).with_data_type(DataType::Struct(kept)))
    }
}
