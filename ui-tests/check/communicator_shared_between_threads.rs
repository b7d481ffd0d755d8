//! A communicator serves one thread at a time.

use std::thread::scope;

use typed_nccl::{Host, Result, Seat};

fn on_another_thread(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    scope(|threads| threads.spawn(work).join()).expect("no panic")
}

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    on_another_thread(|| comm.barrier())
}
