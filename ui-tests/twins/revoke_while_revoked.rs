//! A ready communicator is stopped once.

use typed_nccl::{Communicator, Host, Revoked};

fn stop(comm: Communicator<Host>) -> Communicator<Host, Revoked> {
    comm.revoke()
}

fn main() {
    _ = stop;
}
