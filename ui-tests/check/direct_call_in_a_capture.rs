//! What is called on the communicator itself would run at once, and not be part of the graph.

use typed_nccl::{Buffer, Communicator, Graph, Result, Sum, World};

fn step<W: World>(
    comm: &mut Communicator<W>,
    x: &mut Buffer<f32, W::Device>,
) -> Result<Graph<W>> {
    comm.capture(|g| {
        g.all_reduce_in_place(x, Sum)?;
        comm.all_reduce_in_place(x, Sum)
    })
}

fn main() {}
