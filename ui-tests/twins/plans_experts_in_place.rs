//! NCCL exchanges nothing in place: an all-to-all reads one buffer and fills another.

use typed_nccl::plan;

plan! {
    pub experts<T: Element>(n: Ranks, capacity: usize) {
        inout tokens: [T; n * capacity];
        local inbox: [T; n * capacity];
        stream net, compute;
        all_to_all(tokens -> inbox) on net;
        run experts(update inbox) on compute after net;
        all_to_all(inbox -> tokens) on net after compute;
    }
}

fn main() {}
