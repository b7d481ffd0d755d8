//! A graph of one communicator is not launched with another one.

use typed_nccl::{Communicator, Graph, Host, Label, Local, Result, World};

struct Twin;

impl Label for Twin {
    type On<D: typed_nccl::Device> = Other<D>;
}

struct Other<D>(std::marker::PhantomData<fn() -> D>);

impl<D: typed_nccl::Device> World for Other<D> {
    type Device = D;
    const NAME: &'static str = "Other";
}

fn launch(comm: &Communicator<Other<Host<Local>>>, graph: &mut Graph<Host<Local>>) -> Result<()> {
    graph.launch(comm)
}

fn main() {}
