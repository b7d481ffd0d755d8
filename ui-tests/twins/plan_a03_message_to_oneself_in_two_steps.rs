//! What a rank sends to itself waits for a receive that comes later.

use typed_nccl::plan;

plan! {
    pub itself<T: Element>(n: Ranks in 1..=4, len: usize) {
        in a: [T; len];
        inout b: [T; len];
        if rank == 0 {
            group {
                send a to 0;
                recv b from 0;
            }
        }
    }
}

fn main() {}
