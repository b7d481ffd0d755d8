//! Unordered uses of a window and a peer's put are reported with both lines, and ordered ones are
//! not: for each thing that establishes order, a program and its broken twin.
#![cfg(debug_assertions)] // where the check is on by itself

mod edges;
mod ended;
mod memory;
mod play;
mod random;
