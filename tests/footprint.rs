//! What operations cost and leave behind: allocations, memory, threads, and time in proportion.
//!
//! Every byte is counted; a test that measures the whole process runs in its own.

mod again;
mod counting;
mod own_process;

mod cost;
mod cost_host;
mod deaths;
mod growth;
mod soak;
