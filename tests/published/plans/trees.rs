//! Trees.

use typed_nccl::plan;

plan! {
    /// MSCCL, `allreduce_binomial_tree` with two trees: one half of `x` along a binomial tree, the
    /// other along the same tree of the ranks in the opposite order.
    pub mirrored_trees_all_reduce<T: Numeric>(n: Ranks in powers of 2, len: usize)
    where
        len % 2 == 0,
    {
        inout x: [T; len];
        local got, other: [T; len / 2];
        let low = x.chunk(2, 0);
        let high = x.chunk(2, 1);
        let mirrored = n - 1 - rank;
        for d in powers of 2 below n {
            group {
                if rank % (2 * d) == d {
                    send low to rank - d into got;
                }
                if mirrored % (2 * d) == d {
                    send high to rank + d into other;
                }
            }
            if rank % (2 * d) == 0 {
                low += got;
            }
            if mirrored % (2 * d) == 0 {
                high += other;
            }
        }
        for d in (powers of 2 below n).rev() {
            group {
                if rank % (2 * d) == 0 {
                    send low to rank + d into low;
                }
                if mirrored % (2 * d) == 0 {
                    send high to rank - d into high;
                }
            }
        }
        computes all_reduce(x, sum);
    }
}

plan! {
    /// A textbook's broadcast along a binary tree, in `k` pieces: while a rank passes one on, the
    /// next arrives.
    pub binary_tree_broadcast<T: Element>(n: Ranks, k: usize, len: usize) where len % k == 0 {
        inout x: [T; len];
        for i in 0..k {
            let piece = x.chunk(k, i);
            if rank > 0 {
                recv piece from rank((rank - 1) / 2);
            }
            group {
                if 2 * rank + 1 < n {
                    send piece to rank(2 * rank + 1);
                }
                if 2 * rank + 2 < n {
                    send piece to rank(2 * rank + 2);
                }
            }
        }
        computes broadcast(x, root = 0);
    }
}
