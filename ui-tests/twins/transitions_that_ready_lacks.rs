//! Each of these asks for the state that has it.

use std::time::Instant;

use typed_nccl::{Communicator, Host, Initializing, Result, Suspended, Uninit};

fn connect(comm: Communicator<Host, Uninit>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host, Initializing>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn resume(comm: Communicator<Host, Suspended>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn main() {
    _ = (connect, wait, resume);
}
