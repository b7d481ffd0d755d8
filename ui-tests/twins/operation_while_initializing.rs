//! A communicator that connects in the background communicates once it is ready.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut x = Host::local()?.zeros::<f32>(8)?;
    let comm = Seat::local(1).remove(0).start(Host::local()?)?;
    let comm = comm.ready().wait()?;
    comm.all_reduce_in_place(&mut x, Sum)
}
