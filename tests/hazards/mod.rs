//! Uses of a window that nothing orders with a peer's put are told, with both lines, and those that
//! something orders are not: for each thing that orders, a program and its broken twin.
#![cfg(debug_assertions)] // where the check is on by itself

mod edges;
mod ended;
mod memory;
mod play;
mod random;
