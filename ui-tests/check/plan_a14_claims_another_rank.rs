//! What a rank gets is claimed to come from the rank that it sends to.

use typed_nccl::plan;

plan! {
    pub shift<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; len];
        send a to (rank + 1) % n into b;
        computes b = a of (rank + 1) % n;
    }
}

fn main() {}
