//! Panics of other libraries that become errors: nothing is printed of them.

use std::{
    any::Any,
    cell::{Cell, RefCell},
    panic::{self, AssertUnwindSafe, Location, PanicHookInfo},
    sync::Once,
    thread,
};

static SILENCED: Once = Once::new();

thread_local! {
    /// How many calls of [`contained`] this thread is in.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// Where the last panic in one of them began.
    static PLACE: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// As [`panic::catch_unwind`], and prints nothing: where the panic began is part of its message, which is
/// the payload as a `String`. Other panics are reported as ever.
///
/// The caller sees to it that nothing uses what a panic left half done.
///
/// # Errors
///
/// The payload of the panic.
pub fn contained<T>(work: impl FnOnce() -> T) -> thread::Result<T> {
    SILENCED.call_once(|| {
        let others = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if !is_contained(info) {
                others(info);
            }
        }));
    });
    DEPTH.set(DEPTH.get() + 1);
    let done = panic::catch_unwind(AssertUnwindSafe(work));
    DEPTH.set(DEPTH.get().saturating_sub(1));
    done.map_err(|payload| {
        let text = payload.downcast_ref::<&str>().map(|&text| text.to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let place = PLACE.take().map(|place| format!(" ({place})")).unwrap_or_default();
        let message: Box<dyn Any + Send> =
            Box::new(format!("{}{place}", text.as_deref().unwrap_or("no message")));
        message
    })
}

fn is_contained(info: &PanicHookInfo<'_>) -> bool {
    // At the end of a thread there are no such variables any more.
    let is_contained = DEPTH.try_with(|depth| depth.get() > 0).unwrap_or(false);
    if is_contained {
        let place = info.location().map(short);
        let _ = PLACE.try_with(|of| of.replace(place));
    }
    is_contained
}

/// The end of the path alone: where it was built is nobody's business.
fn short(location: &Location<'_>) -> String {
    let parts: Vec<&str> = location.file().rsplit('/').take(3).collect();
    let parts: Vec<&str> = parts.into_iter().rev().collect();
    format!("{}:{}", parts.join("/"), location.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_contained_panic_says_where_and_others_are_contained_no_more() {
        let nested = contained(|| {
            let inner = contained(|| panic!("inner {}", 1));
            assert_eq!(DEPTH.get(), 1);
            inner
        });
        let payload = nested.unwrap().unwrap_err();
        let message = payload.downcast_ref::<String>().unwrap();
        assert!(message.starts_with("inner 1 (") && message.contains("src/contained.rs:"));
        assert_eq!(DEPTH.get(), 0);
        assert_eq!(contained(|| 7).unwrap(), 7);
    }
}
