//! A communicator hands out its device once it is connected.

use typed_nccl::{Communicator, Host, Result, Seat};

fn main() -> Result<()> {
    let seat = Seat::local(1).remove(0);
    let comm = Communicator::builder().seat(seat).device(Host::local()?).build().connect()?;
    comm.device().zeros::<f32>(8).map(drop)
}
