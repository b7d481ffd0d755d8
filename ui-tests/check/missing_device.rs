//! A communicator needs a device.

use typed_nccl::{Communicator, Result, Seat};

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let comm = Communicator::builder().seat(seat).build();
    comm.connect()?.finish()
}
