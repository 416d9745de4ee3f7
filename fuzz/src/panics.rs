//! Finds panics, contained ones included, and whether they are in our own code.

use std::{
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe},
    sync::Once,
};

use gristmill_audio::contained;

thread_local! {
    static IS_WATCHED: Cell<bool> = const { Cell::new(false) };
    static SEEN: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

/// Runs `work` without output of panics. Returns its result, or the message of a panic that escaped
/// from it; and the places of all panics, contained ones included.
pub(crate) fn watched<T>(work: impl FnOnce() -> T) -> (Result<T, String>, Vec<String>) {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        // Its hook, which says nothing of contained panics, must be the inner one.
        let _ = contained(|| ());
        let other = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if IS_WATCHED.get() {
                let place = info.location().map_or("nowhere".to_owned(), |at| {
                    format!("{}:{}", short(at.file()), at.line())
                });
                SEEN.with_borrow_mut(|seen| seen.push(place));
            } else {
                other(info);
            }
        }));
    });
    IS_WATCHED.set(true);
    // After an escaped panic the state does not matter: it is a finding.
    let result = panic::catch_unwind(AssertUnwindSafe(work));
    IS_WATCHED.set(false);
    let seen = SEEN.take();
    let result = result.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
        text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default()
    });
    (result, seen)
}

/// The path of a registry's source without what depends on the machine.
fn short(file: &str) -> &str {
    match file.split_once("/registry/src/") {
        Some((_, path)) => path.split_once('/').map_or(path, |(_, path)| path),
        None => file,
    }
}

/// Whether a place is in this repository, where no panic is allowed.
pub(crate) fn is_ours(place: &str) -> bool {
    ["rust/audio/", "rust/core/", "fuzz/src/"].iter().any(|part| place.contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contained_panics_are_seen() {
        let (result, places) = watched(|| contained(|| panic!("inside")).is_err());
        assert_eq!(result, Ok(true));
        assert!(places.len() == 1 && places.iter().all(|place| is_ours(place)), "{places:?}");
    }
}
