//! A communicator that connects in the background finishes once it is ready.

use typed_nccl::{Host, Result, Seat};

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).start(Host::local()?)?;
    comm.ready().wait()?.finish()
}
