//! A ring all-reduce by steps, which adds what came to another part.

use typed_nccl::plan;

plan! {
    pub ring<T: Numeric>(n: Ranks, len: usize) where len % n == 0 {
        inout x: [T; len];
        local got: [T; len / n];
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i) % n) to (rank + 1) % n into got;
            run add(read got, update x.chunk(n, (rank - i) % n)) computes x += got;
        }
        for i in 0..n - 1 {
            send x.chunk(n, (rank - i + 1) % n) to (rank + 1) % n into x.chunk(n, (rank - i + 1) % n);
        }
        computes all_reduce(x, sum);
    }
}

fn main() {}
