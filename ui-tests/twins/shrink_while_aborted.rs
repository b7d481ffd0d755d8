//! A revoked communicator is shrunk.

use typed_nccl::{Communicator, Host, Result};

fn without_rank_3(comm: Communicator<Host>) -> Result<Communicator<Host>> {
    comm.revoke().shrink(&[3])
}

fn main() {
    _ = without_rank_3;
}
