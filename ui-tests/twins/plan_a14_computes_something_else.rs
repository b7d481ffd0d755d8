//! Every part goes to the right rank, and there to another sender's place.

use typed_nccl::plan;

plan! {
    pub exchange<T: Element>(n: Ranks in 1..=8, len: usize in [1, 2, 3]) {
        in a: [T; n * len];
        out b: [T; n * len];
        group {
            for k in 0..n {
                send a.chunk(n, (rank + k) % n) to (rank + k) % n into b.chunk(n, rank);
            }
        }
        computes all_to_all(a -> b);
    }
}

fn main() {}
