//! One rank may begin with one communicator, another with the other.

use typed_nccl::plan;

plan! {
    pub two<T: Numeric>(nodes: Ranks, local: Ranks in [2, 4, 8], len: usize) {
        comm node along local;
        comm rail along nodes;
        inout x, y: [T; len];
        stream net, other;
        node.all_reduce(x, sum) on net;
        rail.all_reduce(y, sum) on other;
    }
}

fn main() {}
