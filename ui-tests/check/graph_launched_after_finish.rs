//! A graph is launched with its communicator, which is over.

use typed_nccl::{Communicator, Graph, Result, World};

fn last<W: World>(comm: Communicator<W>, mut graph: Graph<W>) -> Result<()> {
    comm.finish()?;
    graph.launch(&comm)
}

fn main() {}
