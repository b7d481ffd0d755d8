//! A communicator's work goes to a stream of its own device.

use typed_nccl::{At, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let stream = Host::<At<0>>::open()?.stream()?;
    let comm = Seat::local(1).remove(0).init(near)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.on(&stream).all_reduce_in_place(&mut x, Sum)?;
    comm.finish()
}
