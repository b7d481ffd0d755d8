//! A kernel's windows are of its device communicator's world.

use typed_nccl::{Communicator, Host, Requirements, Result, Seat, kernel, tag};

tag!(DataParallel, TensorParallel);

kernel! {
    fn add(dev: &DevComm, from: &Window<f32>, to: &mut [f32]);
    host {
        dev.lsa_barrier(0).sync();
        to[0] += from.own().get(0);
    }
}

fn main() -> Result<()> {
    let builder = || Communicator::builder().seat(Seat::local(1).remove(0));
    let data = builder().device(Host::local()?).label::<DataParallel>();
    let tensor = builder().device(Host::local()?).label::<TensorParallel>();
    let (mut far, mut near) = (data.build().connect()?, tensor.build().connect()?);
    let api = near.device_api()?;
    let dev = near.dev_comm(&api, &Requirements::new().lsa_barriers(1))?;
    let window = far.window::<f32>(8)?;
    let mut to = near.device().zeros(8)?;
    near.stream().run(add(&dev, &window, &mut to))?;
    near.sync(near.stream())?;
    far.finish()?;
    near.finish()
}
