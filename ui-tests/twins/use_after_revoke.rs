//! What `shrink` gives goes on.

use typed_nccl::{Communicator, Host, Result};

fn stop(comm: Communicator<Host>) -> Result<()> {
    let comm = comm.revoke().shrink(&[])?;
    comm.barrier()
}

fn main() {
    _ = stop;
}
