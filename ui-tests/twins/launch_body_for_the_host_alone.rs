//! `launch!` runs its body wherever the program finds itself, so the body is generic over its device.

use typed_nccl::{Communicator, Device, Result, launch};

fn main() -> Result<()> {
    launch!(body)
}

fn body<D: Device>(comm: Communicator<D>) -> Result<()> {
    comm.barrier()?;
    comm.finish()
}
