//! A suspended communicator has no signals to wait for.

use typed_nccl::{Communicator, Host, Result, Suspended};

fn step(comm: &Communicator<Host, Suspended>) -> Result<()> {
    comm.wait_signal(0)
}

fn main() {
    _ = step;
}
