//! A ready one goes on in place.

use typed_nccl::{Communicator, Host, Recovery, Result};

fn go_on(comm: &mut Communicator<Host>) -> Result<Recovery> {
    comm.recover()
}

fn main() {
    _ = go_on;
}
