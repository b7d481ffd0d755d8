//! A revoked communicator has stopped on all ranks.

use typed_nccl::{Buffer, Communicator, Host, Result, Revoked};

fn step(comm: &Communicator<Host, Revoked>, x: &mut Buffer<f32, Host>) -> Result<()> {
    comm.broadcast_in_place(x, 0)
}

fn main() {
    _ = step;
}
