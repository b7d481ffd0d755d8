//! A tensor's buffer is used by communicators on its device.

use typed_nccl::interop::Tensor;
use typed_nccl::{Communicator, Host, Result, Sum};

fn step(comm: &Communicator<Host>, host: &Host, x: Tensor<Vec<f32>>) -> Result<()> {
    let mut x = x.on(host)?;
    comm.all_reduce_in_place(&mut x, Sum)
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (step, Host::local);
}
