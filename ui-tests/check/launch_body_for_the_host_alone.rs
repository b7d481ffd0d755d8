//! `launch!` runs its body wherever the program finds itself, so the body is generic over its device.

use typed_nccl::{AnyDevice, Communicator, Host, Result, launch};

fn main() -> Result<()> {
    launch!(body)
}

fn body(comm: Communicator<Host<AnyDevice>>) -> Result<()> {
    comm.barrier()?;
    comm.finish()
}
