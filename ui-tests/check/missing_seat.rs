//! A communicator needs a seat.

use typed_nccl::{Communicator, Host, Result};

fn main() -> Result<()> {
    let builder = Communicator::builder();
    let comm = builder.device(Host::local()?).build();
    comm.connect()?.finish()
}
