//! An output that was forgotten.

use typed_nccl::plan;

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b, c: [T; len];
        send a to (rank + 1) % n into b;
    }
}

fn main() {}
