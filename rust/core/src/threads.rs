//! Where threads start: one place that names them, and tells how many can run.

use std::{any::Any, io, thread};

/// Starts a named thread. A panic in it ends only this thread and comes out of `join`.
///
/// # Errors
///
/// What the operating system says when it has no thread to give.
pub(crate) fn spawn<F, T>(name: impl Into<String>, run: F) -> io::Result<thread::JoinHandle<T>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Starts a named thread that may borrow; the scope joins it.
///
/// # Errors
///
/// What the operating system says when it has no thread to give.
pub(crate) fn spawn_scoped<'scope, F, T>(
    scope: &'scope thread::Scope<'scope, '_>,
    name: impl Into<String>,
    run: F,
) -> io::Result<thread::ScopedJoinHandle<'scope, T>>
where
    F: FnOnce() -> T + Send + 'scope,
    T: Send + 'scope,
{
    thread::Builder::new().name(name.into()).spawn_scoped(scope, run)
}

/// CPUs that this process may use: affinity and cgroup quota counted.
pub fn usable_cpus() -> usize {
    thread::available_parallelism().map_or(1, Into::into)
}

/// What a contained panic said.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_panic_comes_out_of_join() {
        let handle = super::spawn("gristmill-test", || panic!("contained")).unwrap();
        assert_eq!(handle.thread().name(), Some("gristmill-test"));
        assert!(handle.join().is_err());
    }
}
