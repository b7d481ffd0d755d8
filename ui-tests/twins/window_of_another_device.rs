//! A communicator works on memory of its own device, registered or not.

use typed_nccl::{At, Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut near = Seat::local(1).remove(0).init(Host::<At<0>>::open()?)?;
    let mut far = Seat::local(1).remove(0).init(Host::<At<1>>::open()?)?;
    let (mut here, mut there) = (near.window::<f32>(8)?, far.window::<f32>(8)?);
    far.all_reduce_in_place(&mut there, Sum)?;
    near.all_reduce_in_place(&mut here, Sum)?;
    far.all_reduce_in_place(&mut there, Sum)
}
