//! Conditions on the values of columns, as pyarrow and pandas write them.

use std::{borrow::Borrow, cmp::Ordering, collections::HashSet, hash::Hash};

use super::{
    DURATION,
    bounds::Bounds,
    cell::{Cell, Kind, float_bits},
    column::Column,
    scalar::{Bound, Scalar},
};
use crate::{
    error::{Error, Result},
    shard::Shard,
};

/// How a value is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// `==`
    Eq,
    /// `!=`
    Ne,
    /// `<`
    Lt,
    /// `<=`
    Le,
    /// `>`
    Gt,
    /// `>=`
    Ge,
    /// `in`
    In,
    /// `not in`
    NotIn,
}

impl Op {
    /// All of them, by their names in Python.
    pub const ALL: [(&'static str, Self); 8] = [
        ("==", Self::Eq),
        ("!=", Self::Ne),
        ("<", Self::Lt),
        ("<=", Self::Le),
        (">", Self::Gt),
        (">=", Self::Ge),
        ("in", Self::In),
        ("not in", Self::NotIn),
    ];

    fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, op)| *op == self).map_or("", |(name, _)| *name)
    }
}

/// A condition that a row must meet.
///
/// A null meets no comparison, and no `!=` either, as in SQL; but `== None` and `!= None` ask for it.
/// `in` finds a null where the values have `None`, and `not in` is the opposite of `in`, as in pyarrow.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition {
    /// The column, or the dotted path of a struct's field.
    pub column: String,
    /// How it is compared.
    pub op: Op,
    /// With which values: one, or several for `in` and `not in`.
    pub values: Vec<Scalar>,
}

/// The conditions that rows must meet: all those of one of the lists. Without lists every row does.
pub type Filters = Vec<Vec<Condition>>;

/// The option as messages name it.
const OPTION: &str = "filters=";

/// Filters that were checked against the columns.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) columns: Vec<Column>,
    any: Vec<Vec<(usize, Test)>>,
}

impl Checked {
    /// With `has_durations`, `duration` is the length of each recording, if it is no column.
    pub(super) fn new(filters: &Filters, shards: &[Shard], has_durations: bool) -> Result<Self> {
        let find = |name: &str| {
            if name != DURATION || Column::is_there(shards, name)? {
                return Column::find(OPTION, shards, name, false);
            }
            if has_durations {
                return Ok(Column::duration());
            }
            Err(Error::schema(
                name,
                format!(
                    "{OPTION} asks for the length of recordings, which the shards have no column of, \
                     and no audio is decoded that would tell; name its column: \
                     audio=gm.Audio(\"column\", ...)"
                ),
            ))
        };
        let mut columns: Vec<Column> = Vec::new();
        let mut check = |condition: &Condition| {
            let place = columns.iter().position(|column| column.name == condition.column);
            let place = if let Some(place) = place {
                place
            } else {
                columns.push(find(&condition.column)?);
                columns.len() - 1
            };
            let column = columns.get(place).ok_or_else(|| Error::internal("no column"))?;
            Ok((place, Test::new(column, condition)?))
        };
        let any = filters.iter().map(|all| all.iter().map(&mut check).collect());
        let any = any.collect::<Result<Vec<_>>>()?;
        Ok(Self { columns, any })
    }

    /// Whether a row with these values takes part.
    pub(super) fn keep<'a>(&self, cell: impl Fn(usize) -> Cell<'a>) -> bool {
        let meets = |(column, test): &(usize, Test)| test.keeps(&cell(*column));
        self.any.is_empty() || self.any.iter().any(|all| all.iter().all(meets))
    }

    /// For each record batch of a shard whether it may have rows that take part, by its statistics;
    /// empty where there are none.
    pub(super) fn may_keep(&self, shard: &Shard) -> Vec<bool> {
        let known = self.columns.iter().map(|column| {
            let statistics =
                if column.is_duration { None } else { shard.statistics(&column.names) };
            statistics.into_iter().flatten().map(Bounds::new).collect()
        });
        let known: Vec<Vec<Bounds>> = known.collect();
        if self.any.is_empty() || known.iter().all(Vec::is_empty) {
            return Vec::new();
        }
        let may_meet = |batch: usize, (column, test): &(usize, Test)| {
            let bounds = known.get(*column).and_then(|known| known.get(batch));
            bounds.is_none_or(|bounds| test.may_keep(bounds))
        };
        let may_keep =
            |batch| self.any.iter().any(|all| all.iter().all(|test| may_meet(batch, test)));
        (0..shard.n_batches()).map(may_keep).collect()
    }
}

/// A condition that was checked against its column.
#[derive(Debug)]
enum Test {
    Compare(Op, Bound),
    IsNull(bool),
    Member(Members, bool),
}

impl Test {
    fn new(column: &Column, condition: &Condition) -> Result<Self> {
        let Condition { op, values, .. } = condition;
        let bound = values.iter().map(|value| Bound::new(OPTION, column, value));
        let mut bound = bound.collect::<Result<Vec<_>>>()?;
        if matches!(op, Op::In | Op::NotIn) {
            return Ok(Self::Member(Members::new(&bound, column.kind), *op == Op::In));
        }
        let value = bound.pop().ok_or_else(|| Error::internal("a comparison with nothing"))?;
        let is_equality = matches!(op, Op::Eq | Op::Ne);
        if value == Bound::Null {
            if is_equality {
                return Ok(Self::IsNull(*op == Op::Eq));
            }
            return Err(Error::schema(
                &column.name,
                format!(
                    "{OPTION} compares this column by {:?} with None: write (\"{}\", \"!=\", None) \
                     for rows that have a value",
                    op.name(),
                    column.name
                ),
            ));
        }
        if !is_equality && values.iter().any(|value| is_class(column, value)) {
            return Err(Error::schema(
                &column.name,
                format!(
                    "{OPTION} compares the name of a class by {:?}, and classes have no order: \
                     write \"==\", \"!=\", \"in\" or \"not in\", or the number of the class",
                    op.name()
                ),
            ));
        }
        Ok(Self::Compare(*op, value))
    }

    fn keeps(&self, cell: &Cell<'_>) -> bool {
        match self {
            Self::IsNull(wanted) => (*cell == Cell::Null) == *wanted,
            Self::Member(members, wanted) => members.contains(cell) == *wanted,
            Self::Compare(..) if *cell == Cell::Null => false,
            Self::Compare(op, value) => {
                let order = value.compare(cell);
                match op {
                    Op::Eq => order == Some(Ordering::Equal),
                    Op::Ne => order != Some(Ordering::Equal),
                    Op::Lt => order == Some(Ordering::Less),
                    Op::Le => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    Op::Gt => order == Some(Ordering::Greater),
                    Op::Ge => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                    Op::In | Op::NotIn => false,
                }
            }
        }
    }

    /// Whether a value within these bounds may be kept.
    fn may_keep(&self, bounds: &Bounds) -> bool {
        let (op, value) = match self {
            Self::IsNull(true) => return bounds.may_have_nulls,
            Self::IsNull(false) => return bounds.may_have_values,
            Self::Member(members, true) => return members.may_be_in(bounds),
            Self::Member(_, false) => return true,
            Self::Compare(op, value) => (op, value),
        };
        // `None` where the bound is not known.
        let least = value.compare(&bounds.least());
        let greatest = value.compare(&bounds.greatest());
        let excluded = match op {
            Op::Eq => least == Some(Ordering::Greater) || greatest == Some(Ordering::Less),
            Op::Lt => matches!(least, Some(Ordering::Greater | Ordering::Equal)),
            Op::Le => least == Some(Ordering::Greater),
            Op::Gt => matches!(greatest, Some(Ordering::Less | Ordering::Equal)),
            Op::Ge => greatest == Some(Ordering::Less),
            Op::Ne | Op::In | Op::NotIn => false,
        };
        bounds.may_have_values && !excluded
    }
}

fn is_class(column: &Column, value: &Scalar) -> bool {
    column.kind == Kind::Int && matches!(value, Scalar::Text(_))
}

/// The values of an `in`.
#[derive(Debug)]
struct Members {
    has_null: bool,
    numbers: Set<i128>,
    /// By their ranks.
    floats: Set<u64>,
    bytes: Set<Vec<u8>>,
}

/// Values of one kind: hashed for those of rows, and sorted for bounds, since there may be many of both.
#[derive(Debug)]
struct Set<T> {
    hashed: HashSet<T>,
    sorted: Vec<T>,
}

impl<T: Clone + Hash + Ord> Set<T> {
    fn new(mut values: Vec<T>) -> Self {
        values.sort_unstable();
        Self { hashed: values.iter().cloned().collect(), sorted: values }
    }

    /// Whether it has a value from `least` to `greatest`.
    fn has_within<B: Ord + ?Sized>(&self, least: &B, greatest: &B) -> bool
    where
        T: Borrow<B>,
    {
        let next = self.sorted.partition_point(|value| value.borrow() < least);
        self.sorted.get(next).is_some_and(|value| value.borrow() <= greatest)
    }
}

impl Members {
    fn new(values: &[Bound], kind: Kind) -> Self {
        let (mut has_null, mut numbers, mut floats, mut bytes) = (false, vec![], vec![], vec![]);
        for cell in values.iter().filter_map(|value| value.as_cell(kind)) {
            match cell {
                Cell::Null => has_null = true,
                Cell::Int(value) => numbers.push(value),
                Cell::Float(value) => floats.push(rank(value)),
                Cell::Bytes(value) => bytes.push(value.to_vec()),
            }
        }
        let (numbers, floats, bytes) = (Set::new(numbers), Set::new(floats), Set::new(bytes));
        Self { has_null, numbers, floats, bytes }
    }

    fn contains(&self, cell: &Cell<'_>) -> bool {
        match cell {
            Cell::Null => self.has_null,
            Cell::Int(value) => self.numbers.hashed.contains(value),
            Cell::Float(value) => self.floats.hashed.contains(&rank(*value)),
            Cell::Bytes(bytes) => self.bytes.hashed.contains(*bytes),
        }
    }

    /// Whether one of them may be within these bounds. NaN always may.
    fn may_be_in(&self, bounds: &Bounds) -> bool {
        let may_be_value = || match (bounds.least(), bounds.greatest()) {
            (Cell::Int(least), Cell::Int(greatest)) => self.numbers.has_within(&least, &greatest),
            (Cell::Float(least), Cell::Float(greatest)) => {
                self.floats.hashed.contains(&rank(f64::NAN))
                    || self.floats.has_within(&rank(least), &rank(greatest))
            }
            (Cell::Bytes(least), Cell::Bytes(greatest)) => self.bytes.has_within(least, greatest),
            _ => true,
        };
        (self.has_null && bounds.may_have_nulls) || (bounds.may_have_values && may_be_value())
    }
}

/// A number that rises with the value. That of NaN is above all others.
fn rank(value: f64) -> u64 {
    let bits = float_bits(value);
    if bits >> 63 == 1 { !bits } else { bits | 1 << 63 }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::{ArrayRef, BinaryArray, Float64Array, Int64Array};

    use super::*;
    use crate::shard::Statistics;

    fn bounds(least: ArrayRef, greatest: ArrayRef) -> Bounds {
        let bounds = Some((least, greatest));
        Bounds::new(Statistics { bounds, may_have_nulls: false, may_have_values: true })
    }

    #[test]
    fn members_within_bounds_are_found() {
        let number = |value| Arc::new(Int64Array::from(vec![value])) as ArrayRef;
        let numbers = Members::new(&[Bound::Int(-4), Bound::Int(7)], Kind::Int);
        let has = |least, greatest| numbers.may_be_in(&bounds(number(least), number(greatest)));
        assert!(has(-4, -4) && has(0, 7) && has(-10, 10));
        assert!(!has(-3, 6) && !has(8, 9) && !has(-9, -5));

        let float = |value| Arc::new(Float64Array::from(vec![value])) as ArrayRef;
        let kind = Kind::Float { is_narrow: false };
        let members = Members::new(&[Bound::Float(-1.5), Bound::Float(0.0)], kind);
        let has = |least, greatest| members.may_be_in(&bounds(float(least), float(greatest)));
        assert!(has(-2.0, -1.5) && has(-0.0, -0.0) && has(-1.0, 1.0) && has(-9.0, f64::INFINITY));
        assert!(!has(-1.0, -0.5) && !has(0.5, 2.0) && !has(-9.0, -2.0));
        let nan = Members::new(&[Bound::Float(f64::NAN)], kind);
        assert!(nan.may_be_in(&bounds(float(0.0), float(1.0))));

        let text =
            |value: &str| Arc::new(BinaryArray::from_vec(vec![value.as_bytes()])) as ArrayRef;
        let members = Members::new(&[Bound::Bytes(b"owl".to_vec())], Kind::Text);
        let has = |least, greatest| members.may_be_in(&bounds(text(least), text(greatest)));
        assert!(has("o", "p") && has("owl", "owl") && !has("owls", "z") && !has("a", "ow"));
    }
}
