//! A communicator is waited for once it was started.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let comm = Communicator::builder().seat(seat).device(Host::local()?).build().start()?;
    comm.ready().wait()?.finish()
}
