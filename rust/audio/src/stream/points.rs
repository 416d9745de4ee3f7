//! Places in a recording where decoding can begin, and how they are written.

use super::wire::{MAX_NUMBER, Reader, folded, put_number, unfolded};

/// How far apart points are, in seconds. A crop reads as much more than it needs on average.
const STEP_S: f64 = 1.5;

/// The fewest bytes between two points: if a second has fewer, more points save nothing.
const MIN_STEP_BYTES: u64 = 8 << 10;

/// A place where decoding can begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// What comes before it, in what the codec counts: packets, or frames.
    pub(crate) unit: u64,
    /// Where it is in the recording.
    pub(crate) byte: u64,
}

/// The points of a recording in their order. The first is where its audio begins, and the last where that
/// ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Points(Vec<Point>);

impl Points {
    /// Chooses points among all `places` that there are, in their order. `end` is where the audio ends;
    /// `units_per_s` tells how far apart they need be.
    pub(crate) fn choose(
        places: impl IntoIterator<Item = Point>,
        end: Point,
        units_per_s: f64,
    ) -> Option<Self> {
        let step = (STEP_S * units_per_s) as u64;
        let is_far = |last: &Point, next: &Point| {
            next.unit >= last.unit + step && next.byte >= last.byte + MIN_STEP_BYTES
        };
        let mut points: Vec<Point> = Vec::new();
        for point in places {
            if points.last().is_none_or(|last| is_far(last, &point)) {
                points.push(point);
            }
        }
        points.pop_if(|last| last.unit >= end.unit || last.byte >= end.byte);
        points.push(end);
        let points = Self(points);
        points.is_sound(MAX_NUMBER).then_some(points)
    }

    /// Whether they are in order, and within `n_bytes`.
    fn is_sound(&self, n_bytes: u64) -> bool {
        let is_next = |pair: &[Point]| match pair {
            [a, b] => a.unit < b.unit && a.byte < b.byte,
            _ => false,
        };
        let last =
            self.0.last().is_some_and(|last| last.byte <= n_bytes && last.unit <= MAX_NUMBER);
        self.0.len() >= 2 && last && self.0.windows(2).all(is_next)
    }

    /// Where the audio ends.
    pub(crate) fn end(&self) -> Point {
        self.0.last().copied().unwrap_or(Point { unit: 0, byte: 0 })
    }

    /// Where the audio begins.
    pub(crate) fn start(&self) -> Point {
        self.0.first().copied().unwrap_or(Point { unit: 0, byte: 0 })
    }

    /// The last point that is not behind this unit, or the first of all.
    pub(crate) fn before(&self, unit: u64) -> Point {
        let n = self.0.partition_point(|point| point.unit <= unit);
        self.0.get(n.saturating_sub(1)).copied().unwrap_or(self.start())
    }

    /// The first point that is not in front of this unit, or the last of all.
    pub(crate) fn behind(&self, unit: u64) -> Point {
        let n = self.0.partition_point(|point| point.unit < unit);
        self.0.get(n).copied().unwrap_or(self.end())
    }

    /// Writes how far each is from the one before, as a difference to the distance before that: most
    /// distances are alike.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        put_number(out, self.0.len() as u64);
        let mut deltas = Deltas::default();
        for point in &self.0 {
            let [unit, byte] = deltas.of(point);
            put_number(out, unit);
            put_number(out, byte);
        }
    }

    /// Reads points within a recording of `n_bytes`.
    pub(crate) fn read(reader: &mut Reader<'_>, n_bytes: u64) -> Option<Self> {
        // Each takes bytes of its own, so there are never more than bytes.
        let n = reader.number()?;
        let mut points = Vec::new();
        let mut deltas = Deltas::default();
        for _ in 0..n {
            points.push(deltas.point([reader.number()?, reader.number()?]));
        }
        let points = Self(points);
        points.is_sound(n_bytes).then_some(points)
    }
}

/// The last point, and how far it was from the one before it.
#[derive(Default)]
struct Deltas {
    last: [u64; 2],
    step: [u64; 2],
}

impl Deltas {
    fn of(&mut self, point: &Point) -> [u64; 2] {
        let point = [point.unit, point.byte];
        let step = [0, 1].map(|i| at(&point, i).wrapping_sub(at(&self.last, i)));
        let coded = [0, 1].map(|i| folded(at(&step, i).wrapping_sub(at(&self.step, i))));
        (self.last, self.step) = (point, step);
        coded
    }

    fn point(&mut self, coded: [u64; 2]) -> Point {
        self.step = [0, 1].map(|i| at(&self.step, i).wrapping_add(unfolded(at(&coded, i))));
        self.last = [0, 1].map(|i| at(&self.last, i).wrapping_add(at(&self.step, i)));
        let [unit, byte] = self.last;
        Point { unit, byte }
    }
}

fn at(pair: &[u64; 2], i: usize) -> u64 {
    pair.get(i).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_apart_and_found() {
        let places = (0..200).map(|i| Point { unit: 10 * i, byte: 100 + 1000 * i });
        let end = Point { unit: 2000, byte: 200_100 };
        let points = Points::choose(places.clone(), end, 100.0).unwrap();
        let bytes: Vec<u64> = points.0.iter().map(|point| point.byte).take(3).collect();
        assert_eq!(bytes, [100, 15_100, 30_100]);
        assert_eq!(points.before(299), Point { unit: 150, byte: 15_100 });
        assert_eq!(points.before(300).unit, 300);
        assert_eq!((points.behind(151).unit, points.behind(150).unit), (300, 150));
        assert_eq!((points.behind(1_999_999), points.start().byte), (end, 100));
        let seldom = Points::choose(places, end, 1.0).unwrap();
        assert!(
            seldom
                .0
                .windows(2)
                .all(|pair| pair[1].byte - pair[0].byte >= MIN_STEP_BYTES || pair[1] == end)
        );
        assert!(Points::choose([end], end, 1.0).is_none());
    }

    proptest::proptest! {
        #[test]
        fn points_come_back(
            steps in proptest::collection::vec((1u64..1 << 20, 1u64..1 << 20), 2..50),
            less in 0u64..3,
        ) {
            let mut point = Point { unit: 0, byte: 44 };
            let points = Points(steps.iter().map(|(unit, byte)| {
                point = Point { unit: point.unit + unit, byte: point.byte + byte };
                point
            }).collect());
            let mut out = Vec::new();
            points.write(&mut out);
            let n_bytes = point.byte + 1 - less;
            let read = Points::read(&mut Reader::new(&out), n_bytes);
            proptest::prop_assert_eq!(read, (less < 2).then_some(points));
        }

        #[test]
        fn any_bytes_are_points_in_order_or_none(bytes: Vec<u8>) {
            if let Some(points) = Points::read(&mut Reader::new(&bytes), 1 << 40) {
                proptest::prop_assert!(points.end().byte <= 1 << 40 && points.0.len() <= bytes.len());
            }
        }
    }
}
