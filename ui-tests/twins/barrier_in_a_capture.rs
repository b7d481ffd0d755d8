//! Nothing of what is captured has run, so there is nothing to wait for.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let mut graph = comm.capture(|g| g.all_reduce_in_place(&mut x, Sum))?;
    graph.launch(&comm)?;
    comm.barrier()?;
    comm.finish()
}
