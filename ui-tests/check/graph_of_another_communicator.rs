//! A graph of one communicator is not launched with another one.

use typed_nccl::{Communicator, Host, Result, Seat, Sum, tag};

tag!(DataParallel, TensorParallel);

fn main() -> Result<()> {
    let builder = || Communicator::builder().seat(Seat::local(1).remove(0));
    let data = builder().device(Host::local()?).label::<DataParallel>();
    let tensor = builder().device(Host::local()?).label::<TensorParallel>();
    let (mut data, tensor) = (data.build().connect()?, tensor.build().connect()?);
    let mut x = data.device().zeros::<f32>(8)?;
    let mut graph = data.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    graph.launch(&tensor)
}
