//! A window serves one thread at a time.

use std::thread::scope;

use typed_nccl::{Host, Result, Seat};

fn on_another_thread(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    scope(|threads| threads.spawn(work).join()).expect("no panic")
}

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let ghost = comm.window::<f32>(8)?;
    on_another_thread(|| ghost.to_vec().map(drop))
}
