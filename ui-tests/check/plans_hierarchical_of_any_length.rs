//! The parts of a node are equal where their number divides the length.

use typed_nccl::plan;

plan! {
    pub hierarchical<T: Numeric>(nodes: Ranks, local: Ranks in [2, 4, 8], len: usize) {
        inout x: [T; len];
        comm node along local;
        comm rail along nodes;
        let part = x.chunk(local, rank.local);
        node.reduce_scatter(x -> part, sum);
        rail.all_reduce(part, sum);
        node.all_gather(part -> x);
    }
}

fn main() {}
