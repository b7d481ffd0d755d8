//! Registering memory waits for the other ranks, and a group does not.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let ghost = comm.window::<f32>(8)?;
    comm.close(ghost).map(drop)
}
