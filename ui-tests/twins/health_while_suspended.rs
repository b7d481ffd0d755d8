//! The health of a communicator is that of its operations.

use typed_nccl::{Communicator, Host, Ready, Result};

fn watch(comm: &Communicator<Host, Ready>) -> Result<()> {
    comm.health()
}

fn main() {
    _ = watch;
}
