//! A put reads from a window of its own communicator.

use typed_nccl::{Communicator, Host, Result, Seat, tag};

tag!(DataParallel, TensorParallel);

fn main() -> Result<()> {
    let builder = || Communicator::builder().seat(Seat::local(1).remove(0));
    let data = builder().device(Host::local()?).label::<DataParallel>();
    let tensor = builder().device(Host::local()?).label::<TensorParallel>();
    let (mut data, mut tensor) = (data.build().connect()?, tensor.build().connect()?);
    let (near, far) = (tensor.window::<f32>(8)?, data.window::<f32>(8)?);
    data.put_signal(&far, 0, far.at(0))?;
    tensor.put_signal(near.slice(0..8), 0, near.at(0))
}
