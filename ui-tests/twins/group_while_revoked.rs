//! A revoked communicator issues no groups.

use typed_nccl::{Communicator, Host, Ready, Result};

fn step(comm: &mut Communicator<Host, Ready>) -> Result<()> {
    comm.group(|g| g.signal(0))
}

fn main() {
    _ = step;
}
