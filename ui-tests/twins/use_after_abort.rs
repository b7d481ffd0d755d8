//! `abort` is the end of a communicator.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    comm.barrier()?;
    comm.abort();
    Ok(())
}
