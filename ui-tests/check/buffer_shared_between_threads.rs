//! A buffer serves one thread at a time.

use std::thread::scope;

use typed_nccl::{Host, Result};

fn on_another_thread(work: impl FnOnce() -> Result<()> + Send) -> Result<()> {
    scope(|threads| threads.spawn(work).join()).expect("no panic")
}

fn main() -> Result<()> {
    let x = Host::local()?.zeros::<f32>(8)?;
    on_another_thread(|| x.to_vec().map(drop))
}
