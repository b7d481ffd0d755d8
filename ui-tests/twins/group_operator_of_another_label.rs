//! An operator serves the communicator that made it, in a group as well.

use typed_nccl::{Communicator, Host, Result, Seat, tag};

tag!(DataParallel, TensorParallel);

fn main() -> Result<()> {
    let builder = || Communicator::builder().seat(Seat::local(1).remove(0));
    let data = builder().device(Host::local()?).label::<DataParallel>();
    let tensor = builder().device(Host::local()?).label::<TensorParallel>();
    let (mut data, mut tensor) = (data.build().connect()?, tensor.build().connect()?);
    let (half, two) = (data.pre_mul_sum(0.5_f32)?, tensor.pre_mul_sum(2.0_f32)?);
    let mut x = tensor.device().zeros::<f32>(8)?;
    data.all_reduce_in_place(&mut x, &half)?;
    tensor.group(|g| g.all_reduce_in_place(&mut x, &two))
}
