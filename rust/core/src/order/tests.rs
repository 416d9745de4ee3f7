//! The stream as a whole: epochs, slices, partitions and positions.

use proptest::prelude::*;

use super::*;

fn rows() -> Rows {
    Rows::new(&[3, 0, 4], &[(2, 1)]).unwrap()
}

fn spec(seed: Option<u64>, epochs: Option<u64>, partition: Partition) -> OrderSpec {
    let shuffle = seed.map(|seed| Shuffle { seed, window: None, reshuffle: true });
    OrderSpec { shuffle, epochs, partition, ..OrderSpec::ONCE }
}

fn all(order: &Order) -> Vec<Step> {
    (0..).map_while(|i| order.step(i)).collect()
}

#[test]
fn file_order_runs_through_shards_and_epochs() {
    let order = Order::new(rows(), &spec(None, Some(2), Partition::ALL)).unwrap();
    let epoch: Vec<_> = [(0, 0), (0, 1), (0, 2), (2, 0), (2, 2), (2, 3)]
        .map(|(shard, row)| RowId { shard, row })
        .to_vec();
    let steps = all(&order);
    assert_eq!(steps.iter().map(|s| s.row).collect::<Vec<_>>(), [epoch.clone(), epoch].concat());
    assert_eq!(steps.iter().map(|s| s.epoch).collect::<Vec<_>>(), [[0; 6], [1; 6]].concat());
}

#[test]
fn an_empty_slice_ends_at_once_even_for_ever() {
    let none = Slice { start: Some(9), stop: None, step: None, sequential: false };
    let order =
        Order::new(rows(), &OrderSpec { slices: vec![none], epochs: None, ..OrderSpec::ONCE });
    assert_eq!(order.unwrap().step(0), None);
}

proptest! {
    /// From any position of the stream, any number of hosts together deliver the rest of it.
    #[test]
    fn hosts_share_the_rest_of_the_stream(
        seed in prop::option::of(any::<u64>()), epochs in 1u64..4, n_hosts in 1u64..9,
        position in 0u64..30, is_even: bool,
    ) {
        let whole = Order::new(rows(), &spec(seed, Some(epochs), Partition::ALL)).unwrap();
        let whole = all(&whole);
        let position = position.min(whole.len() as u64);
        let multiple_of = if is_even { n_hosts } else { 1 };
        let left = (whole.len() as u64 - position) / multiple_of * multiple_of;
        let end = (position + left) as usize;
        let mut parts = Vec::new();
        let mut lens = Vec::new();
        for offset in 0..n_hosts {
            let partition = Partition { offset, stride: n_hosts, multiple_of };
            let mut order = Order::new(rows(), &spec(seed, Some(epochs), partition)).unwrap();
            let (epoch, next_index) = (position / 6, position % 6);
            let start = order.resume_at(epoch, next_index, 0).unwrap();
            for (k, step) in (0usize..).zip((start..).map_while(|i| order.step(i))) {
                parts.push((k, step));
            }
            lens.push(order.len().unwrap() - start);
        }
        // In step: the first of all hosts, then the second of all ...
        parts.sort_by_key(|(k, _)| *k);
        let left = whole.get(position as usize..end).unwrap_or_default();
        for (k, round) in left.chunks(n_hosts as usize).enumerate() {
            let theirs = |s: &&Step| parts.contains(&(k, **s));
            prop_assert_eq!(round.iter().filter(theirs).count(), round.len());
        }
        prop_assert_eq!(parts.len(), left.len());
        if is_even {
            prop_assert!(lens.windows(2).all(|pair| pair[0] == pair[1]));
        }
    }
}

#[test]
fn positions_past_the_end_are_refused() {
    let mut order = Order::new(rows(), &spec(Some(1), Some(2), Partition::ALL)).unwrap();
    assert_eq!(order.resume_at(2, 0, 0).unwrap(), 12);
    assert_eq!(order.resume_at(0, 15, 4).unwrap(), 12);
    assert!(order.resume_at(2, 1, 0).is_err());
    assert!(order.resume_at(u64::MAX, 1, 0).is_err());
    for epochs in [None, Some(1 << 63)] {
        let mut long = Order::new(rows(), &spec(Some(1), epochs, Partition::ALL)).unwrap();
        assert!(long.resume_at((1 << 62) / 6, 0, 0).is_ok());
        assert!(long.resume_at((1 << 62) / 6 + 1, 0, 0).is_err(), "batches from there on overflow");
    }
    assert_eq!(order.nearest(9, 3), (2, 0));
    assert_eq!(order.nearest(1, 30), (1, 6));
}

#[test]
fn the_fingerprint_names_what_differs() {
    let fingerprint =
        |counts: &[u64], excluded: &[(u32, u64)], spec: &OrderSpec, keys: &[u64], crop| {
            let order = Order::new(Rows::new(counts, excluded).unwrap(), spec).unwrap();
            Fingerprint::new(&order, &[(keys.to_vec(), vec![crop])])
        };
    let spec = |seed| spec(seed, None, Partition::ALL);
    let (counts, excluded, keys) = ([3, 0, 4], [(2, 1)], [1, 2, 3]);
    let base = fingerprint(&counts, &excluded, &spec(Some(1)), &keys, 7);
    assert_eq!(Fingerprint::parse(&base.to_string()), Some(base));
    assert_eq!(Fingerprint::parse("3-6-0"), None);
    let partition = Partition { offset: 1, stride: 4, multiple_of: 2 };
    let part = OrderSpec { partition, ..spec(Some(1)) };
    assert_eq!(base.difference(&fingerprint(&counts, &excluded, &part, &keys, 7)), None);
    let block = Slice { start: Some(1), stop: None, step: Some(2), sequential: true };
    let blocks = OrderSpec { slices: vec![block], ..spec(Some(1)) };
    for (other, word) in [
        (fingerprint(&counts, &excluded, &spec(Some(2)), &keys, 7), "shuffled"),
        (fingerprint(&counts, &excluded, &spec(None), &keys, 7), "shuffled"),
        (fingerprint(&counts, &excluded, &spec(Some(1)), &[1, 3, 2], 7), "base names"),
        (fingerprint(&counts, &[(2, 2)], &spec(Some(1)), &keys, 7), "excluded"),
        (fingerprint(&[4, 0, 3], &excluded, &spec(Some(1)), &keys, 7), "row counts"),
        (fingerprint(&[3, 0], &[], &spec(Some(1)), &[1, 2], 7), "2 shards, not 3"),
        (fingerprint(&counts, &excluded, &spec(Some(1)), &keys, 8), "seed"),
        (fingerprint(&counts, &excluded, &blocks, &keys, 7), "block"),
    ] {
        let difference = base.difference(&other).unwrap();
        assert!(difference.contains(word), "{difference}");
    }
}
