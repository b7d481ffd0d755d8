//! A suspended communicator has no signals to wait for.

use typed_nccl::{Communicator, Host, Ready, Result};

fn step(comm: &Communicator<Host, Ready>) -> Result<()> {
    comm.wait_signal(0)
}

fn main() {
    _ = step;
}
