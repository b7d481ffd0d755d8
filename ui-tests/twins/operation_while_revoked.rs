//! A revoked communicator has stopped on all ranks.

use typed_nccl::{Buffer, Communicator, Host, Ready, Result};

fn step(comm: &Communicator<Host, Ready>, x: &mut Buffer<f32, Host>) -> Result<()> {
    comm.broadcast_in_place(x, 0)
}

fn main() {
    _ = step;
}
