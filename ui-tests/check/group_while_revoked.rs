//! A revoked communicator issues no groups.

use typed_nccl::{Communicator, Host, Result, Revoked};

fn step(comm: &mut Communicator<Host, Revoked>) -> Result<()> {
    comm.group(|g| g.signal(0))
}

fn main() {
    _ = step;
}
