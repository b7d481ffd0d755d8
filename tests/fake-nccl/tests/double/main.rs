//! The double itself. Every test uses its own copy, which is a separate library.

#[macro_use]
mod common;

mod books;
mod groups;
mod sizes;
