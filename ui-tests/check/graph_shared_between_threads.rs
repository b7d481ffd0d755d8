//! One thread launches a graph: all ranks launch theirs in one order.

use typed_nccl::{Graph, Host};

fn shared<T: Sync>(_: &T) {}

fn share(graph: &Graph<Host>) {
    shared(graph);
}

fn main() {}
