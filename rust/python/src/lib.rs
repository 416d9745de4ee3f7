//! The extension module `gristmill._core`.
