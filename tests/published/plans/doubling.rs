//! Partners at distances of powers of two.

use typed_nccl::plan;

plan! {
    /// MSCCL, `allgather_recursive_doubling`.
    pub doubling_all_gather<T: Element>(n: Ranks in powers of 2, len: usize) {
        in a: [T; len];
        out b: [T; n * len];
        b.chunk(n, rank) = a;
        for d in powers of 2 below n {
            let part = b.chunk(n / d, rank / d);
            send part to rank ^ d into part;
        }
        computes all_gather(a -> b);
    }
}

plan! {
    /// MSCCL, `allreduce_a100_ncv4`: each of two partners adds up one half of both and of the other
    /// two.
    pub ncv4_all_reduce<T: Numeric>(n: Ranks in [4], len: usize) where len % 2 == 0 {
        inout x: [T; len];
        local got: [T; len / 2];
        let own = x.chunk(2, rank % 2);
        send x.chunk(2, 1 - rank % 2) to rank ^ 1 into got;
        own += got;
        send own to rank ^ 2 into got;
        own += got;
        send own to rank ^ 1 into own;
        computes all_reduce(x, sum);
    }
}
