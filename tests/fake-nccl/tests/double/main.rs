//! The double itself. Every test takes a copy, which is a library of its own.

#[macro_use]
mod common;

mod books;
mod groups;
mod sizes;
