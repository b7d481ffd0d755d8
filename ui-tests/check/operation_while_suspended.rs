//! A suspended communicator has no device memory to communicate with.

use typed_nccl::{Buffer, Communicator, Host, Result, Sum, Suspended};

fn step(comm: &Communicator<Host, Suspended>, x: &mut Buffer<f32, Host>) -> Result<()> {
    comm.all_reduce_in_place(x, Sum)
}

fn main() {
    _ = step;
}
