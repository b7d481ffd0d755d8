//! A ring sends to one side and receives from the other.

use typed_nccl::plan;

plan! {
    pub ring<T: Element>(n: Ranks in 3.., len: usize) {
        in a: [T; len];
        out b: [T; len];
        group {
            send a to (rank + 1) % n;
            recv b from (rank - 1) % n;
        }
    }
}

fn main() {}
