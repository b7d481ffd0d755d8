//! The last rank sends to rank 0, which does not receive it.

use typed_nccl::plan;

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) where n >= 2 {
        in a: [T; len];
        inout b: [T; len];
        group {
            send a to (rank + 1) % n;
            if rank > 0 {
                recv b from (rank - 1) % n;
            }
        }
    }
}

fn main() {}
