//! A communicator is connected once.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let comm = comm.connect()?;
    comm.finish()
}
