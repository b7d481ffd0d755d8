//! What is called on the communicator itself would run at once, and not be part of the graph.

use typed_nccl::{Host, Result, Seat, Sum};

fn main() -> Result<()> {
    let mut comm = Seat::local(1).remove(0).init(Host::local()?)?;
    let mut x = comm.device().zeros::<f32>(8)?;
    let mut graph = comm.capture(|_| comm.all_reduce_in_place(&mut x, Sum))?;
    graph.launch(&comm)?;
    comm.finish()
}
