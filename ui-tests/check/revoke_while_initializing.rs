//! What has no ranks yet cannot go on without some of them.

use typed_nccl::{Communicator, Host, Initializing, Revoked};

fn stop(comm: Communicator<Host, Initializing>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn main() {
    _ = stop;
}
