//! A kernel's windows are of its device communicator's world, and so are their parts.

use typed_nccl::{Communicator, Host, Requirements, Result, Seat, kernel, tag};

tag!(DataParallel, TensorParallel);

kernel! {
    fn add(dev: &DevComm, at: Barrier, from: &WindowSlice<f32>, to: &mut [f32]);
    host {
        at.sync();
        to[0] += from.own().get(0) + dev.size() as f32;
    }
}

fn main() -> Result<()> {
    let builder = || Communicator::builder().seat(Seat::local(1).remove(0));
    let data = builder().device(Host::local()?).label::<DataParallel>();
    let tensor = builder().device(Host::local()?).label::<TensorParallel>();
    let (mut far, mut near) = (data.build().connect()?, tensor.build().connect()?);
    let needs = Requirements::new().lsa_barriers(1);
    let (far_api, api) = (far.device_api()?, near.device_api()?);
    let (far_dev, dev) = (far.dev_comm(&far_api, &needs)?, near.dev_comm(&api, &needs)?);
    let (far_window, window) = (far.window::<f32>(8)?, near.window::<f32>(8)?);
    let mut to = near.device().zeros(8)?;
    near.stream().run(add(&dev, dev.lsa_barrier(0)?, &far_window.slice(0..4), &mut to))?;
    near.sync(near.stream())?;
    far.finish()?;
    near.finish()
}
