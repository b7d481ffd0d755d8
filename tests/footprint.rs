//! What operations take and leave: allocations, memory, threads, and time in proportion.
//!
//! Every byte is counted; a test that counts what the whole process has runs in one of its own.

mod again;
mod counting;
mod own_process;

mod cost;
mod cost_host;
mod deaths;
mod growth;
mod soak;
