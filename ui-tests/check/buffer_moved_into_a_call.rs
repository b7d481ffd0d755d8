//! A reference that writes is read through a new reference, and stays.

use typed_nccl::{Buffer, Communicator, Host, Result};

fn there_and_back(comm: &Communicator<Host>, x: &mut Buffer<f32, Host>) -> Result<()> {
    comm.send(x, 1)?;
    comm.recv(x, 1)
}

fn main() {
    _ = there_and_back;
}
