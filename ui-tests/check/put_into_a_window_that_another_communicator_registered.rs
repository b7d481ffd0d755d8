//! A put goes by the registration of the communicator that it is called on.

use typed_nccl::{Host, Result, Seat, tag};

tag!(Tensor);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut tensor = comm.split::<Tensor>(0, 0)?;
    let grads = comm.window::<f32>(8)?;
    let shared = grads.also_in(&mut tensor)?;
    tensor.put_signal(shared.of(&grads)?, 0, grads.at(0))?;
    tensor.wait_signal(0)?;
    comm.finish()
}
