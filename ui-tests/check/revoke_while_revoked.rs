//! It has stopped already.

use typed_nccl::{Communicator, Host, Revoked};

fn stop(comm: Communicator<Host, Revoked>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn main() {
    _ = stop;
}
