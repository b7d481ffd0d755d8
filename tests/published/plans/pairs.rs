//! All ranks with all others at once.

use typed_nccl::plan;

plan! {
    /// MSCCL, `allgather_allpairs`.
    pub pairs_all_gather<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; n * len];
        group {
            for i in 0..n {
                send a to (rank + i) % n into b.chunk(n, rank);
            }
        }
        computes all_gather(a -> b);
    }
}

plan! {
    /// MSCCL, `allreduce_a100_allpairs_v2`: each rank adds up its part along a tree of its own.
    pub local_tree_all_reduce<T: Numeric>(n: Ranks in powers of 2, len: usize) where len % n == 0 {
        inout x: [T; len];
        local got: [T; len];
        let own = x.chunk(n, rank);
        group {
            for i in 1..n {
                send x.chunk(n, (rank + i) % n) to (rank + i) % n into got.chunk(n, i);
            }
        }
        for d in (powers of 2 below n).rev() {
            own += got.chunk(n, d);
            for i in 1..d {
                got.chunk(n, i) += got.chunk(n, i + d);
            }
        }
        group {
            for i in 1..n {
                send own to (rank + i) % n into own;
            }
        }
        computes all_reduce(x, sum);
    }
}
