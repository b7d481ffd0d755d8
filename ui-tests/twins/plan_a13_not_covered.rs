//! A step too few leaves a hole.

use typed_nccl::plan;

plan! {
    pub gather<T: Element>(n: Ranks in 1..=8, len: usize in [1, 2, 3]) {
        in a: [T; len];
        out b: [T; n * len];
        send a to rank into b.chunk(n, rank);
        for k in 0..n - 1 {
            let part = b.chunk(n, (rank - k) % n);
            send part to (rank + 1) % n into part;
        }
        covers b;
    }
}

fn main() {}
