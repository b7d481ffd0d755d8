//! A function over any device names the memory that the device can be lent.

use typed_nccl::{Communicator, Device, Host, Result, Seat, Sum};

fn sum<D: Device>(comm: &Communicator<D>, x: &mut [f32]) -> Result<()> {
    comm.device().lend(x, |x| comm.all_reduce_in_place(x, Sum))
}

fn main() -> Result<()> {
    let comm = Seat::local(1).remove(0).init(Host::local()?)?;
    sum(&comm, &mut [1.0; 8])?;
    comm.finish()
}
