//! It can be aborted.

use typed_nccl::{Aborted, Communicator, Host, Initializing};

fn stop(comm: Communicator<Host, Initializing>) -> Communicator<Host, Aborted> {
    comm.abort()
}

fn main() {
    _ = stop;
}
