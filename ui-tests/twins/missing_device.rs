//! A communicator needs a device.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let comm = Communicator::builder().seat(seat).device(Host::local()?).build();
    comm.connect()?.finish()
}
