//! The larger one takes its place.

use typed_nccl::{Communicator, Host, Invitation, Result};

fn go_on(mut comm: Communicator<Host>, invitation: Invitation) -> Result<()> {
    comm = comm.grow(invitation)?;
    comm.barrier()?;
    comm.finish()
}

fn main() {
    _ = go_on;
}
