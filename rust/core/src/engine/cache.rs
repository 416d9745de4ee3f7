//! What several readers need and one of them loads: least recently used, bounded by bytes.

use std::{
    collections::HashMap,
    hash::Hash,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use lru::LruCache;

/// A least-recently-used cache of what takes long to load. One value that alone exceeds the limit
/// stays until the next.
///
/// Nobody waits in here: a value that is on its way is told apart from one that is not, and
/// whoever finds it so comes back.
#[derive(Debug)]
pub(super) struct LoadCache<K: Hash + Eq, V> {
    limit: usize,
    inner: Mutex<Inner<K, V>>,
}

#[derive(Debug)]
struct Inner<K: Hash + Eq, V> {
    loaded: LruCache<K, (Arc<V>, usize)>,
    /// On their way, and the bytes that are expected of them.
    loading: HashMap<K, usize>,
    /// Of both.
    n_bytes: usize,
    n_found: u64,
    n_loads: u64,
}

/// What a look came to.
#[derive(Debug)]
pub(super) enum Found<V> {
    /// Here.
    Loaded(Arc<V>),
    /// On its way, or kept from beginning by others that are.
    Loading,
    /// Neither.
    Missing,
}

/// A load that has begun. Dropped unfinished, it has failed, and others may try.
pub(super) struct Loading<'a, K: Hash + Eq + Copy, V> {
    cache: &'a LoadCache<K, V>,
    key: K,
    is_finished: bool,
}

impl<K: Hash + Eq + Copy, V> LoadCache<K, V> {
    /// At most `limit` bytes.
    pub(super) fn new(limit: usize) -> Self {
        let inner = Inner {
            loaded: LruCache::unbounded(),
            loading: HashMap::new(),
            n_bytes: 0,
            n_found: 0,
            n_loads: 0,
        };
        Self { limit, inner: Mutex::new(inner) }
    }

    fn lock(&self) -> MutexGuard<'_, Inner<K, V>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The most bytes.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Bytes held now, those on their way included.
    pub(super) fn n_bytes(&self) -> usize {
        self.lock().n_bytes
    }

    /// `(found, loaded)` so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.n_found, inner.n_loads)
    }

    /// Looks for a value.
    pub(super) fn find(&self, key: K) -> Found<V> {
        let mut inner = self.lock();
        if let Some((value, _)) = inner.loaded.get(&key) {
            let value = Arc::clone(value);
            inner.n_found += 1;
            return Found::Loaded(value);
        }
        if inner.loading.contains_key(&key) { Found::Loading } else { Found::Missing }
    }

    /// Whether this value is here or on its way.
    pub(super) fn has(&self, key: K) -> bool {
        let inner = self.lock();
        inner.loaded.contains(&key) || inner.loading.contains_key(&key)
    }

    /// Whether a load of so many bytes has to wait for those under way: together they would push
    /// each other out before they were used.
    pub(super) fn is_crowded(&self, n_bytes: usize) -> bool {
        self.lock().is_crowded(n_bytes, self.limit)
    }

    /// Begins to load a value, after others made room for its expected bytes. `None` where it is
    /// here or on its way by now, or has to wait for others.
    pub(super) fn begin(&self, key: K, n_bytes: usize) -> Option<Loading<'_, K, V>> {
        let mut inner = self.lock();
        if inner.loaded.contains(&key)
            || inner.loading.contains_key(&key)
            || inner.is_crowded(n_bytes, self.limit)
        {
            return None;
        }
        inner.loading.insert(key, n_bytes);
        inner.n_bytes = inner.n_bytes.saturating_add(n_bytes);
        inner.n_loads += 1;
        let evicted = inner.evict(self.limit);
        drop(inner);
        // Freeing large values takes time.
        drop(evicted);
        Some(Loading { cache: self, key, is_finished: false })
    }

    /// Takes a value out.
    pub(super) fn remove(&self, key: K) {
        let mut inner = self.lock();
        let removed = inner.loaded.pop(&key);
        if let Some((_, n_bytes)) = &removed {
            inner.n_bytes = inner.n_bytes.saturating_sub(*n_bytes);
        }
        drop(inner);
        drop(removed);
    }

    /// Takes out what has such a key, the least recently used first, while there are more than
    /// `limit` bytes.
    pub(super) fn shed(&self, limit: usize, goes: impl Fn(&K) -> bool) {
        let mut inner = self.lock();
        if inner.n_bytes <= limit {
            return;
        }
        let old: Vec<K> = inner.loaded.iter().rev().map(|(key, _)| *key).collect();
        let mut removed = Vec::new();
        for key in old.into_iter().filter(goes) {
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

    /// Takes out everything.
    pub(super) fn clear(&self) {
        self.shed(0, |_| true);
    }
}

impl<K: Hash + Eq + Copy, V> Inner<K, V> {
    fn is_crowded(&self, n_bytes: usize, limit: usize) -> bool {
        let loading: usize = self.loading.values().sum();
        !self.loading.is_empty() && loading.saturating_add(n_bytes) > limit
    }

    fn evict(&mut self, limit: usize) -> Vec<Arc<V>> {
        let mut evicted = Vec::new();
        while self.n_bytes > limit
            && let Some((_, (value, n_bytes))) = self.loaded.pop_lru()
        {
            self.n_bytes = self.n_bytes.saturating_sub(n_bytes);
            evicted.push(value);
        }
        evicted
    }
}

impl<K: Hash + Eq + Copy, V> Loading<'_, K, V> {
    /// The value, which takes so many bytes, is here for all.
    pub(super) fn finish(mut self, value: &Arc<V>, n_bytes: usize) {
        let cache = self.cache;
        self.is_finished = true;
        let mut inner = cache.lock();
        inner.end(self.key);
        // Others make room before it comes: it stays until the next.
        inner.n_bytes = inner.n_bytes.saturating_add(n_bytes);
        let evicted = inner.evict(cache.limit);
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
            self.cache.lock().end(self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(cache: &LoadCache<u32, &'static str>, key: u32, n_bytes: usize) {
        cache.begin(key, n_bytes).unwrap().finish(&Arc::new("value"), n_bytes);
    }

    fn is_loaded(cache: &LoadCache<u32, &'static str>, key: u32) -> bool {
        matches!(cache.find(key), Found::Loaded(_))
    }

    #[test]
    fn a_value_is_loaded_once_at_a_time() {
        let cache = LoadCache::new(100);
        assert!(matches!(cache.find(1), Found::Missing));
        let loading = cache.begin(1, 10).unwrap();
        assert!(matches!(cache.find(1), Found::Loading));
        assert!(cache.begin(1, 10).is_none());
        loading.finish(&Arc::new("value"), 30);
        assert!(is_loaded(&cache, 1) && cache.begin(1, 10).is_none());
        assert_eq!((cache.n_bytes(), cache.counts()), (30, (1, 1)));
        drop(cache.begin(2, 10).unwrap());
        assert!(matches!(cache.find(2), Found::Missing), "a load that failed may be tried again");
        assert_eq!(cache.n_bytes(), 30);
    }

    #[test]
    fn the_least_recently_used_go_first() {
        let cache = LoadCache::new(100);
        for key in [1, 2, 3] {
            load(&cache, key, 30);
        }
        assert!(is_loaded(&cache, 1));
        load(&cache, 4, 40);
        assert_eq!([1, 2, 3, 4].map(|key| is_loaded(&cache, key)), [true, false, true, true]);
        load(&cache, 5, 500);
        assert_eq!([1, 3, 4, 5].map(|key| is_loaded(&cache, key)), [false, false, false, true]);
        load(&cache, 6, 10);
        assert_eq!((cache.n_bytes(), is_loaded(&cache, 5)), (10, false));
    }

    #[test]
    fn loads_that_would_push_each_other_out_wait() {
        let cache = LoadCache::<u32, ()>::new(100);
        let first = cache.begin(1, 70).unwrap();
        assert!(cache.is_crowded(40) && cache.begin(2, 40).is_none());
        let second = cache.begin(2, 30).unwrap();
        drop(first);
        let _alone = cache.begin(3, 70).unwrap();
        drop(second);
    }

    #[test]
    fn what_is_behind_goes_when_asked() {
        let cache = LoadCache::new(100);
        for key in 0..4 {
            load(&cache, key, 20);
        }
        cache.shed(30, |key| *key < 2);
        assert_eq!([0, 1, 2, 3].map(|key| is_loaded(&cache, key)), [false, false, true, true]);
        cache.remove(2);
        cache.clear();
        assert_eq!(cache.n_bytes(), 0);
    }
}
