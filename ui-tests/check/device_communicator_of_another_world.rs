//! A device communicator ends with the communicator that made it.

use typed_nccl::{DevComm, Communicator, Host, Result, tag};

tag!(DataParallel, TensorParallel);

fn end(
    comm: &mut Communicator<DataParallel<Host>>,
    dev: DevComm<TensorParallel<Host>>,
) -> Result<()> {
    comm.close_dev_comm(dev)
}

fn main() {}
