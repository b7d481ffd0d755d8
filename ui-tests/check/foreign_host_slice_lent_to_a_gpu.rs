//! A GPU is lent memory of its own.

use typed_nccl::{Communicator, Cuda, Host, Result, Sum};

fn step(comm: &Communicator<Cuda>, mut x: Vec<f32>) -> Result<()> {
    comm.device().lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (step, Host::local);
}
