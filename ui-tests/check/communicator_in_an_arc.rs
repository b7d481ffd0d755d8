//! A communicator is shared between threads behind a lock.

use std::sync::Arc;

use typed_nccl::{Host, Result, Seat};

fn on_another_thread(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    std::thread::spawn(work).join().expect("no panic")
}

fn main() -> Result<()> {
    let comm = Arc::new(Seat::local(1).remove(0).init(Host::local()?)?);
    let other = comm.clone();
    on_another_thread(move || other.barrier())
}
