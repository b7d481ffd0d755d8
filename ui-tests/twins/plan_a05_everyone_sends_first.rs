//! Everyone sends first, and nobody gets to receiving.

use typed_nccl::plan;

plan! {
    pub ring<T: Element>(n: Ranks in 2.., len: usize) {
        in a: [T; len];
        out b: [T; len];
        group {
            send a to (rank + 1) % n;
            recv b from (rank - 1) % n;
        }
    }
}

fn main() {}
