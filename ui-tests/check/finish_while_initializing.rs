//! A communicator that connects in the background finishes once it is ready.

use std::time::{Duration, Instant};

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let comm = Seat::local(1).remove(0).start(Host::local()?)?;
    assert!(deadline > Instant::now());
    comm.finish()
}
