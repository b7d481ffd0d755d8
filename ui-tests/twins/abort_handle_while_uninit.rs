//! There is nothing to abort from afar before a communicator waits for others.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let comm = Communicator::builder().seat(seat).device(Host::local()?).build().start()?;
    let handle = comm.abort_handle();
    assert!(handle.abort("never mind"));
    Ok(())
}
