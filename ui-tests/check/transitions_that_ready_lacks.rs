//! One that is `Ready` is connected and has its memory.

use std::time::Instant;

use typed_nccl::{Communicator, Host, Result};

fn connect(comm: Communicator<Host>) -> Result<Communicator<Host>> {
    comm.connect()
}

fn wait(comm: Communicator<Host>, until: Instant) -> bool {
    comm.try_ready(until).is_ok()
}

fn resume(comm: Communicator<Host>) -> Result<Communicator<Host>> {
    comm.resume()
}

fn main() {
    _ = (connect, wait, resume);
}
