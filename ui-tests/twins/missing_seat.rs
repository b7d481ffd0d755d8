//! A communicator needs a seat.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let builder = Communicator::builder().seat(Seat::local(1).remove(0));
    let comm = builder.device(Host::local()?).build();
    comm.connect()?.finish()
}
