//! The type that holds the values of two types, for shards that have one column in both.
//!
//! Types form families: integers of one signedness, floats, text, binary values, lists of one kind
//! of items, and so on. Within a family any two have a common type, and it is the same whichever
//! comes first. So the type of many shards does not depend on their order.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

use super::{extension::meaning, schema::is_same_type};

/// Where two types have no common one.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Conflict {
    /// The fields of structs that lead there, each with a dot before it.
    pub(super) path: String,
    /// What differs.
    pub(super) what: String,
}

impl Conflict {
    fn of(a: &DataType, b: &DataType) -> Self {
        let what = format!("type {a} in one, {b} in the other, which have no common type");
        Self { path: String::new(), what }
    }

    fn within(self, field: &Field) -> Self {
        Self { path: format!(".{}{}", field.name(), self.path), ..self }
    }
}

/// The type of a column that has these two. Where they are the same, it is the first.
pub(super) fn common_type(a: &DataType, b: &DataType) -> Result<DataType, Conflict> {
    use DataType as T;
    if is_same_type(a, b) {
        return Ok(a.clone());
    }
    Ok(match (a, b) {
        (T::Null, other) | (other, T::Null) if has_null_arrays(other) => other.clone(),
        (T::Dictionary(key, values), T::Dictionary(other_key, other_values)) => {
            let values = common_type(values, other_values)?;
            T::Dictionary(Box::new(common_key(key, other_key)), Box::new(values))
        }
        (T::Dictionary(_, values), plain) if is_leaf(values) => common_type(values, plain)?,
        (plain, T::Dictionary(_, values)) if is_leaf(values) => common_type(plain, values)?,
        (T::Struct(fields), T::Struct(others)) => T::Struct(common_fields(fields, others)?),
        (T::List(item), T::List(other)) => T::List(common_field(item, other)?.into()),
        (T::List(item) | T::LargeList(item), T::List(other) | T::LargeList(other)) => {
            T::LargeList(common_field(item, other)?.into())
        }
        (T::FixedSizeList(item, n), T::FixedSizeList(other, m)) if n == m => {
            T::FixedSizeList(common_field(item, other)?.into(), *n)
        }
        _ if is_text(a) && is_text(b) => T::LargeUtf8,
        _ if is_binary(a) && is_binary(b) => T::LargeBinary,
        _ => match (number_rank(a), number_rank(b)) {
            (Some((family, width)), Some((other, other_width))) if family == other => {
                if width > other_width { a.clone() } else { b.clone() }
            }
            _ => return Err(Conflict::of(a, b)),
        },
    })
}

/// A field that has the values of both; its name and metadata are those of the first.
pub(super) fn common_field(a: &Field, b: &Field) -> Result<Field, Conflict> {
    let (here, there) = (meaning(a), meaning(b));
    if here != there {
        let of = |meaning: &Option<DataType>, field: &Field| {
            meaning.clone().unwrap_or_else(|| field.data_type().clone())
        };
        return Err(Conflict::of(&of(&here, a), &of(&there, b)));
    }
    let data_type = common_type(a.data_type(), b.data_type())?;
    let may_be_null = |field: &Field| field.is_nullable() || *field.data_type() == DataType::Null;
    Ok(a.clone().with_data_type(data_type).with_nullable(may_be_null(a) || may_be_null(b)))
}

/// The fields of a struct, by name, in the order of the first.
fn common_fields(fields: &Fields, others: &Fields) -> Result<Fields, Conflict> {
    for (here, there) in [(fields, others), (others, fields)] {
        let mut lone = here.iter().filter(|field| there.find(field.name()).is_none());
        if let Some(lone) = lone.next() {
            let what = "only one of them has this field".to_owned();
            return Err(Conflict { path: format!(".{}", lone.name()), what });
        }
    }
    if fields.len() != others.len() {
        let what = "a field has one name with another in one of them".to_owned();
        return Err(Conflict { path: String::new(), what });
    }
    let common = fields.iter().map(|field| match others.find(field.name()) {
        Some((_, other)) => common_field(field, other).map_err(|conflict| conflict.within(field)),
        None => Ok(Field::clone(field)),
    });
    common.map(|field| field.map(Arc::new)).collect()
}

/// The type of a dictionary's keys: values do not depend on it.
fn common_key(a: &DataType, b: &DataType) -> DataType {
    match (number_rank(a), number_rank(b)) {
        (Some((family, width)), Some((other, other_width))) if family == other => {
            if width > other_width { a.clone() } else { b.clone() }
        }
        _ => DataType::Int64,
    }
}

/// The family of a number, and its width in bytes.
fn number_rank(data_type: &DataType) -> Option<(u8, usize)> {
    let family = match data_type {
        signed if signed.is_signed_integer() => 0,
        unsigned if unsigned.is_unsigned_integer() => 1,
        float if float.is_floating() => 2,
        _ => return None,
    };
    Some((family, data_type.primitive_width()?))
}

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

pub(super) fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Whether values are text, binary or of a fixed width: a dictionary's, that can stand alone.
fn is_leaf(data_type: &DataType) -> bool {
    is_text(data_type) || is_binary(data_type) || data_type.primitive_width().is_some()
}

/// Whether an array of nulls alone can be made of this type.
fn has_null_arrays(data_type: &DataType) -> bool {
    match data_type {
        DataType::Union(..) | DataType::RunEndEncoded(..) => false,
        DataType::Struct(fields) => fields.iter().all(|field| has_null_arrays(field.data_type())),
        DataType::FixedSizeList(item, _) => has_null_arrays(item.data_type()),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn leaf() -> impl Strategy<Value = DataType> {
        use DataType as T;
        let dictionary = |key, values| T::Dictionary(Box::new(key), Box::new(values));
        prop::sample::select(vec![
            T::Null,
            T::Int8,
            T::Int32,
            T::Int64,
            T::UInt8,
            T::UInt64,
            T::Float16,
            T::Float32,
            T::Float64,
            T::Utf8,
            T::LargeUtf8,
            T::Utf8View,
            T::Binary,
            T::BinaryView,
            T::Boolean,
            dictionary(T::Int8, T::Utf8),
            dictionary(T::UInt16, T::LargeUtf8),
            dictionary(T::Int32, T::Int32),
        ])
    }

    fn data_type() -> impl Strategy<Value = DataType> {
        let field = |name: &str, of| Field::new(name, of, true);
        leaf().prop_recursive(2, 8, 3, move |inner| {
            prop_oneof![
                inner.clone().prop_map(move |of| DataType::List(field("item", of).into())),
                inner.clone().prop_map(move |of| DataType::LargeList(field("item", of).into())),
                (inner.clone(), inner).prop_map(move |(a, b)| {
                    DataType::Struct(vec![field("a", a), field("b", b)].into())
                }),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_order_does_not_matter(a in data_type(), b in data_type(), c in data_type()) {
            let join = |a: &DataType, b: &DataType| common_type(a, b).ok();
            prop_assert_eq!(join(&a, &b), join(&b, &a));
            let left = join(&a, &b).and_then(|ab| join(&ab, &c));
            let right = join(&b, &c).and_then(|bc| join(&a, &bc));
            prop_assert_eq!(left, right);
        }

        #[test]
        fn a_type_is_its_own_common_type(a in data_type()) {
            prop_assert_eq!(common_type(&a, &a), Ok(a.clone()));
            prop_assert_eq!(common_type(&a, &DataType::Null), Ok(a));
        }
    }

    #[test]
    fn the_place_of_a_conflict_is_named() {
        let record = |of| {
            let inner = DataType::Struct(vec![Field::new("y", of, true)].into());
            DataType::Struct(vec![Field::new("x", inner, true)].into())
        };
        let conflict = common_type(&record(DataType::Int8), &record(DataType::Utf8)).unwrap_err();
        assert_eq!(conflict.path, ".x.y");
        assert!(conflict.what.contains("Int8") && conflict.what.contains("Utf8"));
    }
}
