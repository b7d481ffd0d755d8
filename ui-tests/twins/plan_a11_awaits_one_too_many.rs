//! It is raised once in a run, and awaited twice.

use typed_nccl::plan;

plan! {
    pub halo<T: Element>(n: Ranks in 3.., m: usize) where m >= 2 {
        inout swapped window u: [T; m];
        signal s, back;
        put u[..1] to (rank - 1) % n into u[m - 1..] signal s;
        wait s from (rank + 1) % n;
        signal back to (rank + 1) % n;
        wait back from (rank - 1) % n;
    }
}

fn main() {}
