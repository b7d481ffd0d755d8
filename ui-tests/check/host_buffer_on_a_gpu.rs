//! A communicator of GPUs sends from a GPU.

use typed_nccl::{Buffer, Communicator, Cuda, Host, Result, Sum};

fn step(comm: &Communicator<Cuda>, x: &Buffer<f32, Host>, y: &mut Buffer<f32, Cuda>) -> Result<()> {
    comm.all_reduce(x, y, Sum)
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (step, Host::local);
}
