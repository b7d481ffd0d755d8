//! A communicator communicates once it is connected.

use typed_nccl::{Communicator, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let (seat, host) = (Seat::local(1).remove(0), Host::local()?);
    let mut x = host.zeros::<f32>(8)?;
    let comm = Communicator::builder().seat(seat).device(host).build().connect()?;
    comm.all_reduce_in_place(&mut x, Sum)
}
