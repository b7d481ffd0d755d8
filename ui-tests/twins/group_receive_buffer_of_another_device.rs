//! Both sides of an operation in a group live on the communicator's own device.

use typed_nccl::{At, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let x = near.zeros::<f32>(8)?;
    let mut y = Host::<At<0>>::open()?.zeros::<f32>(8)?;
    let mut comm = Seat::local(1).remove(0).init(near)?;
    comm.group(|g| g.all_reduce(&x, &mut y, Sum))?;
    comm.finish()
}
