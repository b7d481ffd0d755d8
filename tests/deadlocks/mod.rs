//! Endless waits are reported at once: which rank waits for which, at which line. Every test runs
//! under a watchdog, and every communicator has a deadline of ten minutes.

mod calls;
mod circles;
mod common;
mod correct;
