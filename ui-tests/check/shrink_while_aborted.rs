//! After `abort` there is nothing to go on with.

use typed_nccl::{Aborted, Communicator, Host, Result};

fn without_rank_3(comm: Communicator<Host, Aborted>) -> Result<Communicator<Host>> {
    comm.shrink(&[3])
}

fn main() {
    _ = without_rank_3;
}
