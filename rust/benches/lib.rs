//! Nothing but a home for the benches, each of which is a program of its own.
