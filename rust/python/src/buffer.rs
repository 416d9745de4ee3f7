//! Memory that NumPy borrows.
#![allow(unsafe_code)]
#![expect(clippy::needless_pass_by_value, reason = "PyO3 hands `self` over by value")]

use std::{ffi::c_int, fmt, ops::Range};

use gristmill_core::memory;
use pyo3::{exceptions::PyBufferError, ffi, prelude::*};

/// Bytes from the core, exported through the buffer protocol without a copy.
///
/// `numpy.frombuffer` keeps the object alive as the array's base; when the last array over it
/// dies, the memory goes back to the pipeline's pool, or to the allocator.
#[pyclass(frozen, module = "gristmill._core")]
pub(crate) struct Buffer {
    /// Owns the memory; not looked at again until it is dropped.
    _owner: memory::Buffer,
    start: Start,
    len: usize,
}

/// The address of the first byte.
struct Start(*mut u8);

// SAFETY: the pointer is only ever handed to Python by `__getbuffer__`, never read or written
// here, and the memory that it points to (`Buffer::_owner`) may be freed on any thread.
unsafe impl Send for Start {}
// SAFETY: as above: sharing a `&Start` gives no access to the memory.
unsafe impl Sync for Start {}

impl Buffer {
    /// Takes over `owner`, whose bytes Python may from now on read and write.
    pub(crate) fn new(owner: memory::Buffer) -> Self {
        let all = 0..owner.as_bytes().len();
        Self::part(owner, all)
    }

    /// Takes over `owner`, of which Python may from now on read and write the bytes in this range.
    pub(crate) fn part(mut owner: memory::Buffer, range: Range<usize>) -> Self {
        let bytes = owner.as_bytes_mut().get_mut(range).unwrap_or_default();
        let (start, len) = (Start(bytes.as_mut_ptr()), bytes.len());
        Self { _owner: owner, start, len }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.len)
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    ///
    /// Called by the interpreter alone, with a `view` that it may fill.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("the view is null"));
        }
        let this = slf.get();
        let len = this.len as ffi::Py_ssize_t;
        // SAFETY: `view` is not null and the interpreter lets us fill it. The memory is `len`
        // bytes at `start`, owned by `_owner`, which never moves or shrinks it; the view holds a
        // reference to `slf`, so it lives as long as the view. Rust makes no reference to these
        // bytes while `Buffer` lives, so Python may write to them.
        let status = unsafe {
            ffi::PyBuffer_FillInfo(view, slf.as_ptr(), this.start.0.cast(), len, 0, flags)
        };
        if status == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}
