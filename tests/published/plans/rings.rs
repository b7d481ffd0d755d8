//! Rings.

use typed_nccl::plan;

plan! {
    /// MSCCL, `allgather_ring`.
    pub ring_all_gather<T: Element>(n: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; n * len];
        b.chunk(n, rank) = a;
        for i in 0..n - 1 {
            let part = b.chunk(n, (rank - i) % n);
            send part to (rank + 1) % n into part;
        }
        computes all_gather(a -> b);
    }
}

plan! {
    /// MSCCL, `pipeline_a100_ring`: half of the ranks add up around a ring, the others get the sums
    /// and pass them on around theirs.
    pub pipeline_ring<T: Numeric>(halves: Ranks in [2], n: Ranks, len: usize) where len % n == 0 {
        inout x: [T; len];
        local got: [T; len / n];
        let next = (rank.n + 1) % n;
        if rank.halves == 0 {
            for i in 0..n - 1 {
                send x.chunk(n, (rank.n - i) % n) to next into got;
                x.chunk(n, (rank.n - i - 1) % n) += got;
            }
        }
        let own = x.chunk(n, (rank.n + 1) % n);
        send own to rank.halves + 1 into own;
        if rank.halves == 1 {
            for i in 0..n - 1 {
                let part = x.chunk(n, (rank.n - i + 1) % n);
                send part to next into part;
            }
        }
        computes {
            if rank.halves == 1 {
                x = sum(for r in 0..n { x of r });
            }
        }
    }
}
