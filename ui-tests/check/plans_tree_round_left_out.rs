//! A tree doubles who has it in every round.

use typed_nccl::plan;

plan! {
    pub tree<T: Element>(n: Ranks in 1..=8, len: usize) {
        inout x: [T; len];
        if rank < 1 {
            send x to rank + 1 into x;
        }
        if rank < 2 {
            send x to rank + 2 into x;
        }
        if rank < 3 {
            send x to rank + 4 into x;
        }
        computes broadcast(x, root = 0);
    }
}

fn main() {}
