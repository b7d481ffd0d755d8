//! Waits that never end are told at once: who waits for whom, at which line. Every test is under a
//! watchdog, and every communicator has ten minutes.

mod calls;
mod circles;
mod common;
mod correct;
