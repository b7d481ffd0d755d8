//! A group's operands live on the communicator's own device.

use typed_nccl::{At, Host, Result, Seat};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let x = Host::<At<0>>::open()?.zeros::<f32>(8)?;
    let mut comm = Seat::local(1).remove(0).init(near)?;
    let mut y = comm.device().zeros::<f32>(8)?;
    comm.group(|g| {
        g.send(&x, 0)?;
        g.recv(&mut y, 0)
    })?;
    comm.finish()
}
