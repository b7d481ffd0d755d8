//! They meet first.

use typed_nccl::{Communicator, Host, Result, Uninit};

fn without_rank_3(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.connect()?.shrink(&[3])
}

fn main() {
    _ = without_rank_3;
}
