//! Only the first node takes part in a collective between the nodes.

use typed_nccl::plan;

plan! {
    pub nodes<T: Numeric>(nodes: Ranks, local: Ranks in [2, 4, 8], len: usize) {
        comm rail along nodes;
        inout x: [T; len];
        if rank.nodes == 0 {
            rail.all_reduce(x, sum);
        }
    }
}

fn main() {}
