//! What has grown is another communicator.

use typed_nccl::{Communicator, Host, Invitation, Result};

fn go_on(comm: Communicator<Host>, invitation: Invitation) -> Result<()> {
    let larger = comm.grow(invitation)?;
    comm.barrier()?;
    larger.finish()
}

fn main() {
    _ = go_on;
}
