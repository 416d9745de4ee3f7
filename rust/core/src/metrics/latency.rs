//! The latency and bandwidth of the storage, from how long requests take.

/// A running least-squares fit of `seconds = latency + bytes in flight / bandwidth`.
///
/// The bytes are those of all pending requests, its own included: where requests share the storage's
/// bandwidth, each waits for the bytes of the others too. So the slope is the inverse of that
/// bandwidth, and more readers would hide the latency.
///
/// Means and co-moments are updated by Welford's method (Technometrics 4, 1962), which loses no
/// digits over any number of requests.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LatencyFit {
    n: f64,
    mean_x: f64,
    mean_y: f64,
    xx: f64,
    xy: f64,
}

/// Fewer requests tell nothing.
const MIN_REQUESTS: f64 = 8.0;
/// With less spread of the bytes in flight, relative to their mean, the slope would be noise.
const MIN_SPREAD: f64 = 0.05;

impl LatencyFit {
    /// Adds a request.
    pub(crate) fn add(&mut self, bytes: u64, seconds: f64) {
        let x = bytes as f64;
        self.n += 1.0;
        let from_old = x - self.mean_x;
        self.mean_x += from_old / self.n;
        self.mean_y += (seconds - self.mean_y) / self.n;
        self.xx += from_old * (x - self.mean_x);
        self.xy += from_old * (seconds - self.mean_y);
    }

    /// `(latency in seconds, seconds a byte)`, neither below 0; `None` where requests are too few or
    /// nearly as many bytes are always in flight.
    pub(crate) fn get(&self) -> Option<(f64, f64)> {
        let spread = (self.xx / self.n).sqrt();
        if self.n < MIN_REQUESTS || spread < MIN_SPREAD * self.mean_x || self.mean_x <= 0.0 {
            return None;
        }
        let slope = (self.xy / self.xx).clamp(0.0, self.mean_y / self.mean_x);
        Some(((self.mean_y - slope * self.mean_x).max(0.0), slope))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fitted(requests: &[(u64, f64)]) -> Option<(f64, f64)> {
        let mut line = LatencyFit::default();
        for (bytes, seconds) in requests {
            line.add(*bytes, *seconds);
        }
        line.get()
    }

    #[test]
    fn bytes_in_flight_must_differ() {
        assert_eq!(fitted(&[]), None);
        assert_eq!(fitted(&[(1000, 0.1); 50]), None);
        assert_eq!(fitted(&[(10, 0.1), (20, 0.2)]), None);
    }

    #[test]
    fn rounding_does_not_make_a_latency_negative() {
        for k in 1..2000 {
            let bandwidth = 1e6 + f64::from(k) * 77_777.7;
            let requests: Vec<_> =
                (1..20).map(|n| (n * 999, (n * 999) as f64 / bandwidth)).collect();
            assert!(fitted(&requests).unwrap().0 >= 0.0);
        }
    }

    #[test]
    fn neither_is_below_zero() {
        // Where larger requests take less time, all of it is latency; where time grows faster than
        // the bytes, none of it is.
        let falling: Vec<_> = (1..20).map(|k| (k * 1000, 1.0 - 0.01 * k as f64)).collect();
        let (latency, slope) = fitted(&falling).unwrap();
        assert!(slope == 0.0 && (latency - 0.9).abs() < 1e-9);
        let square: Vec<_> = (1..20).map(|k| (k * 1000, 1e-3 * (k * k) as f64)).collect();
        let (latency, slope) = fitted(&square).unwrap();
        assert!(latency.abs() < 1e-12 && slope > 0.0);
    }

    proptest! {
        #[test]
        fn a_line_is_recovered(
            latency in 0.0..0.1_f64,
            bandwidth in 1e6..1e10_f64,
            sizes in prop::collection::vec(1_u64..4 << 20, 10..100),
        ) {
            let requests: Vec<_> =
                sizes.iter().map(|n| (*n, latency + *n as f64 / bandwidth)).collect();
            if let Some((found, slope)) = fitted(&requests) {
                prop_assert!(found >= 0.0 && slope >= 0.0);
                prop_assert!((found - latency).abs() < 1e-9 + 1e-6 * latency);
                prop_assert!((slope * bandwidth - 1.0).abs() < 1e-6);
            }
        }
    }
}
