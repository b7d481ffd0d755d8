//! The last rank's window ends before the place that is written.

use typed_nccl::plan;

plan! {
    pub board<T: Element>(n: Ranks in 2.., h: usize) {
        inout window part: [T; h];
        inout swapped window board: [T; (n - 1) * h];
        signal there, back;
        put part to (rank + 1) % n into board[rank * h..(rank + 1) * h] signal there;
        wait there from (rank - 1) % n;
        signal back to (rank - 1) % n;
        wait back from (rank + 1) % n;
    }
}

fn main() {}
