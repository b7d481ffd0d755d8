//! A communicator sends from its own device.

use typed_nccl::{At, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let x = Host::<At<1>>::open()?.from_slice(&[1.0_f32; 8])?;
    let mut y = near.zeros::<f32>(8)?;
    let comm = Seat::local(1).remove(0).init(near)?;
    comm.all_reduce(&x, &mut y, Sum)?;
    comm.finish()
}
