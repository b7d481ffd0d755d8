//! A function of one communicator does not take another.

use typed_nccl::{Communicator, Host, Result, Seat, tag};

tag!(DataParallel, TensorParallel);

fn average_gradients(comm: &Communicator<DataParallel>) -> Result<()> {
    comm.barrier()
}

fn main() -> Result<()> {
    let builder = Communicator::builder().seat(Seat::local(1).remove(0)).device(Host::local()?);
    let comm = builder.label::<DataParallel>().build().connect()?;
    average_gradients(&comm)
}
