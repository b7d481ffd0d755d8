//! The health of a communicator is that of its operations.

use typed_nccl::{Communicator, Host, Ready, Result, Standing};

fn watch(comm: &Communicator<Host, Ready>) -> Result<Standing> {
    comm.health()
}

fn main() {
    _ = watch;
}
