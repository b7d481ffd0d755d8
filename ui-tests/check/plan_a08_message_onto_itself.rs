//! What arrives overwrites what is being sent.

use typed_nccl::plan;

plan! {
    pub ring<T: Element>(n: Ranks, len: usize) {
        inout a: [T; len];
        send a to (rank + 1) % n into a;
    }
}

fn main() {}
