//! A cache of values that several readers need and one of them loads.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex},
};

use lru::LruCache;

use crate::sync::lock_std;

/// A least-recently-used cache, bounded by bytes. A single value that exceeds the limit stays until
/// the next.
///
/// It never blocks: a look-up returns whether the value is being loaded, and the caller looks again
/// after the load.
#[derive(Debug)]
pub(crate) struct LoadCache<K: Hash + Eq, V> {
    limit: usize,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K: Hash + Eq, V> {
    loaded: LruCache<K, (Arc<V>, usize)>,
    /// The values that are being loaded, with their expected sizes.
    loading: HashMap<K, usize>,
    /// The value whose load began last.
    last_begun: Option<K>,
    /// Bytes of both.
    n_bytes: usize,
    n_hits: u64,
    n_loads: u64,
}

/// The result of a look-up.
#[derive(Debug)]
pub(crate) enum Lookup<V> {
    Loaded(Arc<V>),
    Loading,
    Missing,
}

/// A load that has begun. If it is dropped before it is finished, it has failed, and another reader
/// may try.
pub(crate) struct Loading<'a, K: Hash + Eq + Copy, V> {
    cache: &'a LoadCache<K, V>,
    key: K,
    is_finished: bool,
}

impl<K: Hash + Eq + Copy, V> LoadCache<K, V> {
    /// At most `limit` bytes.
    pub(crate) fn new(limit: usize) -> Self {
        let inner = Inner {
            loaded: LruCache::unbounded(),
            loading: HashMap::new(),
            last_begun: None,
            n_bytes: 0,
            n_hits: 0,
            n_loads: 0,
        };
        Self { limit, inner: Mutex::new(inner) }
    }

    /// The most bytes.
    pub(crate) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes of cached values, and the expected bytes of those that are being loaded.
    pub(crate) fn n_bytes(&self) -> usize {
        lock_std(&self.inner).n_bytes
    }

    /// `(hits, loads)` so far.
    pub(crate) fn counts(&self) -> (u64, u64) {
        let inner = lock_std(&self.inner);
        (inner.n_hits, inner.n_loads)
    }

    /// The value whose load began last.
    pub(crate) fn last_begun(&self) -> Option<K> {
        lock_std(&self.inner).last_begun
    }

    /// Looks a value up.
    pub(crate) fn find(&self, key: K) -> Lookup<V> {
        let mut inner = lock_std(&self.inner);
        if let Some((value, _)) = inner.loaded.get(&key) {
            let value = Arc::clone(value);
            inner.n_hits += 1;
            return Lookup::Loaded(value);
        }
        if inner.loading.contains_key(&key) { Lookup::Loading } else { Lookup::Missing }
    }

    /// Whether this value is cached or being loaded.
    pub(crate) fn has(&self, key: K) -> bool {
        let inner = lock_std(&self.inner);
        inner.loaded.contains(&key) || inner.loading.contains_key(&key)
    }

    /// Whether a load of this size must wait for those that have begun: together they would evict each
    /// other before they were used.
    pub(crate) fn is_crowded(&self, n_bytes: usize) -> bool {
        lock_std(&self.inner).is_crowded(n_bytes, self.limit)
    }

    /// Begins to load a value, and evicts others to make room for its expected bytes, all of them or all but
    /// the one that was used last: readers that have waited for that may not have taken it yet. `None` where
    /// the value is cached or being loaded by now, or must wait for others.
    pub(crate) fn begin(
        &self,
        key: K,
        n_bytes: usize,
        keeps_last: bool,
    ) -> Option<Loading<'_, K, V>> {
        let mut inner = lock_std(&self.inner);
        if inner.loaded.contains(&key)
            || inner.loading.contains_key(&key)
            || inner.is_crowded(n_bytes, self.limit)
        {
            return None;
        }
        inner.loading.insert(key, n_bytes);
        inner.last_begun = Some(key);
        inner.n_bytes = inner.n_bytes.saturating_add(n_bytes);
        inner.n_loads += 1;
        let evicted = inner.evict(self.limit, usize::from(keeps_last));
        drop(inner);
        // Freeing large values takes time.
        drop(evicted);
        Some(Loading { cache: self, key, is_finished: false })
    }

    /// Removes a value.
    pub(crate) fn remove(&self, key: K) {
        let mut inner = lock_std(&self.inner);
        let removed = inner.loaded.pop(&key);
        if let Some((_, n_bytes)) = &removed {
            inner.n_bytes = inner.n_bytes.saturating_sub(*n_bytes);
        }
        drop(inner);
        drop(removed);
    }

    /// Removes values with such keys, the least recently used first, while there are more than `limit`
    /// bytes.
    pub(crate) fn trim(&self, limit: usize, removable: impl Fn(&K) -> bool) {
        let mut inner = lock_std(&self.inner);
        if inner.n_bytes <= limit {
            return;
        }
        let old: Vec<K> = inner.loaded.iter().rev().map(|(key, _)| *key).collect();
        let mut removed = Vec::new();
        for key in old.into_iter().filter(removable) {
            if inner.n_bytes <= limit {
                break;
            }
            if let Some((value, n_bytes)) = inner.loaded.pop(&key) {
                inner.n_bytes = inner.n_bytes.saturating_sub(n_bytes);
                removed.push(value);
            }
        }
        drop(inner);
        drop(removed);
    }

    /// Removes all values.
    pub(crate) fn clear(&self) {
        self.trim(0, |_| true);
    }
}

impl<K: Hash + Eq + Copy, V> Inner<K, V> {
    fn is_crowded(&self, n_bytes: usize, limit: usize) -> bool {
        let loading: usize = self.loading.values().sum();
        !self.loading.is_empty() && loading.saturating_add(n_bytes) > limit
    }

    fn evict(&mut self, limit: usize, n_kept: usize) -> Vec<Arc<V>> {
        let mut evicted = Vec::new();
        while self.n_bytes > limit
            && self.loaded.len() > n_kept
            && let Some((_, (value, n_bytes))) = self.loaded.pop_lru()
        {
            self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
            evicted.push(value);
        }
        evicted
    }
}

impl<K: Hash + Eq + Copy, V> Loading<'_, K, V> {
    /// Adds the value, of `n_bytes` bytes.
    pub(crate) fn finish(mut self, value: &Arc<V>, n_bytes: usize) {
        let cache = self.cache;
        self.is_finished = true;
        let mut inner = lock_std(&cache.inner);
        inner.end(self.key);
        // Before the value is added, so that it stays even if it alone exceeds the limit.
        inner.n_bytes = inner.n_bytes.saturating_add(n_bytes);
        let evicted = inner.evict(cache.limit, 0);
        inner.loaded.put(self.key, (Arc::clone(value), n_bytes));
        drop(inner);
        drop(evicted);
    }
}

impl<K: Hash + Eq + Copy, V> Inner<K, V> {
    fn end(&mut self, key: K) {
        if let Some(n_bytes) = self.loading.remove(&key) {
            self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
        }
    }
}

impl<K: Hash + Eq + Copy, V> Drop for Loading<'_, K, V> {
    fn drop(&mut self) {
        if !self.is_finished {
            lock_std(&self.cache.inner).end(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cache: &LoadCache<u32, &'static str>, key: u32, n_bytes: usize) {
        cache.begin(key, n_bytes, false).unwrap().finish(&Arc::new("value"), n_bytes);
    }

    fn is_loaded(cache: &LoadCache<u32, &'static str>, key: u32) -> bool {
        matches!(cache.find(key), Lookup::Loaded(_))
    }

    #[test]
    fn a_value_is_loaded_once_at_a_time() {
        let cache = LoadCache::new(100);
        assert!(matches!(cache.find(1), Lookup::Missing));
        let loading = cache.begin(1, 10, false).unwrap();
        assert!(matches!(cache.find(1), Lookup::Loading));
        assert!(cache.begin(1, 10, false).is_none());
        loading.finish(&Arc::new("value"), 30);
        assert!(is_loaded(&cache, 1) && cache.begin(1, 10, false).is_none());
        assert_eq!((cache.n_bytes(), cache.counts()), (30, (1, 1)));
        drop(cache.begin(2, 10, false).unwrap());
        assert!(matches!(cache.find(2), Lookup::Missing), "a load that failed may be tried again");
        assert_eq!(cache.n_bytes(), 30);
    }

    #[test]
    fn the_least_recently_used_are_evicted_first() {
        let cache = LoadCache::new(100);
        for key in [1, 2, 3] {
            load(&cache, key, 30);
        }
        assert!(is_loaded(&cache, 1));
        load(&cache, 4, 40);
        assert_eq!([1, 2, 3, 4].map(|key| is_loaded(&cache, key)), [true, false, true, true]);
        load(&cache, 5, 500);
        assert_eq!([1, 3, 4, 5].map(|key| is_loaded(&cache, key)), [false, false, false, true]);
        let next = cache.begin(6, 10, true).unwrap();
        assert_eq!((cache.n_bytes(), is_loaded(&cache, 5)), (510, true));
        next.finish(&Arc::new("value"), 10);
        assert_eq!((cache.n_bytes(), is_loaded(&cache, 5)), (10, false));
    }

    #[test]
    fn loads_that_would_evict_each_other_wait() {
        let cache = LoadCache::<u32, ()>::new(100);
        let first = cache.begin(1, 70, false).unwrap();
        assert!(cache.is_crowded(40) && cache.begin(2, 40, false).is_none());
        let second = cache.begin(2, 30, false).unwrap();
        drop(first);
        let _alone = cache.begin(3, 70, false).unwrap();
        drop(second);
    }

    #[test]
    fn values_are_removed_by_key() {
        let cache = LoadCache::new(100);
        for key in 0..4 {
            load(&cache, key, 20);
        }
        cache.trim(30, |key| *key < 2);
        assert_eq!([0, 1, 2, 3].map(|key| is_loaded(&cache, key)), [false, false, true, true]);
        cache.remove(2);
        cache.clear();
        assert_eq!(cache.n_bytes(), 0);
    }
}
