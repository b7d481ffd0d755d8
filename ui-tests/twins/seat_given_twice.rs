//! A communicator takes one seat.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let mut seats = Seat::local(2);
    let builder = Communicator::builder().seat(seats.remove(0));
    builder.device(Host::local()?).build().abort();
    Ok(())
}
