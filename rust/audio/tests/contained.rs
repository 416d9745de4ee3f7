//! Only contained panics are silent: the program's own hook hears of all others.

use std::{
    panic,
    sync::atomic::{AtomicUsize, Ordering::SeqCst},
};

use gristmill_audio::contained;

static HEARD: AtomicUsize = AtomicUsize::new(0);

#[test]
fn only_contained_panics_are_silent() {
    panic::set_hook(Box::new(|_| {
        HEARD.fetch_add(1, SeqCst);
    }));
    let n_heard = |n: usize| assert_eq!(HEARD.load(SeqCst), n);
    assert!(panic::catch_unwind(|| panic!("before")).is_err());
    n_heard(1);
    assert!(contained(|| panic!("contained")).is_err());
    n_heard(1);
    assert!(panic::catch_unwind(|| panic!("after")).is_err());
    n_heard(2);
    #[expect(clippy::disallowed_methods, reason = "the panic is not to be contained")]
    let other = || std::thread::spawn(|| panic!("another thread")).join().is_err();
    assert!(contained(other).unwrap());
    n_heard(3);
}
