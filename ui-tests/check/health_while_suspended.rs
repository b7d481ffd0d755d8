//! The health of a communicator is that of its operations.

use typed_nccl::{Communicator, Host, Result, Standing, Suspended};

fn watch(comm: &Communicator<Host, Suspended>) -> Result<Standing> {
    comm.health()
}

fn main() {
    _ = watch;
}
