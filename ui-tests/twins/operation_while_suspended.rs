//! A suspended communicator has no device memory to communicate with.

use typed_nccl::{Buffer, Communicator, Host, Ready, Result, Sum};

fn step(comm: &Communicator<Host, Ready>, x: &mut Buffer<f32, Host>) -> Result<()> {
    comm.all_reduce_in_place(x, Sum)
}

fn main() {
    _ = step;
}
