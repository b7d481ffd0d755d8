//! A communicator is shared between threads behind a lock.

use std::sync::{Arc, Mutex};

use typed_nccl::{Host, Result, Seat};

fn on_another_thread(work: impl FnOnce() -> Result<()> + Send + 'static) -> Result<()> {
    std::thread::spawn(work).join().expect("no panic")
}

fn main() -> Result<()> {
    let comm = Arc::new(Mutex::new(Seat::local(1).remove(0).init(Host::local()?)?));
    let other = comm.clone();
    on_another_thread(move || other.lock().expect("no panic").barrier())
}
