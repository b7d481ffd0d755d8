//! The host is lent slices.

use typed_nccl::{Communicator, Host, Result, Sum};

fn step(comm: &Communicator<Host>, mut x: Vec<f32>) -> Result<()> {
    comm.device().lend(&mut x, |x| comm.all_reduce_in_place(x, Sum))
}

fn main() {
    let _: (_, fn() -> Result<Host>) = (step, Host::local);
}
