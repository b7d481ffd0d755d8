//! The memory of a window has one owner, also where it is registered with two communicators.

use typed_nccl::{Host, Result, Seat, Sum, tag};

tag!(Tensor);

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut tensor = comm.split::<Tensor>(0, 0)?;
    let mut grads = comm.window::<f32>(8)?;
    let shared = grads.also_in(&mut tensor)?;
    tensor.all_reduce_in_place(&mut grads, Sum)?;
    tensor.close_shared(shared)?;
    comm.finish()
}
