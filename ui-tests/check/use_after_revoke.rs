//! `revoke` takes the communicator.

use typed_nccl::{Communicator, Host, Result};

fn stop(comm: Communicator<Host>) -> Result<()> {
    comm.revoke();
    comm.barrier()
}

fn main() {
    _ = stop;
}
