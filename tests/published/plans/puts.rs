//! One-sided schedules.

use typed_nccl::plan;

plan! {
    /// MSCCL++, an all-to-all around a ring: each step, all that has further to go moves on.
    pub ring_all_to_all<T: Element>(n: Ranks, len: usize) {
        in a: [T; n * len];
        out b: [T; n * len];
        local swapped window moving[i in 0..n]: [T; (n - i) * len];
        signal here;
        for i in 0..n {
            moving[0].chunk(n, i) = a.chunk(n, (rank + i) % n);
        }
        b.chunk(n, rank) = moving[0][..len];
        for i in 0..n - 1 {
            put moving[i][len..] to (rank + 1) % n into moving[i + 1] signal here;
            wait here from (rank - 1) % n;
            b.chunk(n, (rank - i - 1) % n) = moving[i + 1][..len];
        }
        computes all_to_all(a -> b);
    }
}

plan! {
    /// MSCCL++, an all-gather of several nodes: each rank puts what it has to its node's ranks and
    /// to those of its number on other nodes, and passes on what comes from those.
    pub multi_all_gather<T: Element>(nodes: Ranks, local: Ranks, len: usize) {
        in a: [T; len];
        out b: [T; size * len];
        local swapped window all: [T; size * len];
        signal far, near;
        let own = all.chunk(size, rank);
        own = a;
        for i in 1..nodes {
            put own to (rank.nodes + i) % nodes into own signal far;
        }
        for k in 1..local {
            put own to (rank.local + k) % local into own signal near;
        }
        for i in 1..nodes {
            wait far from (rank.nodes - i) % nodes;
        }
        for i in 1..nodes {
            let part = all.chunk(size, (rank.nodes - i) % nodes * local + rank.local);
            for k in 1..local {
                put part to (rank.local + k) % local into part signal near;
            }
        }
        for k in 1..local {
            wait nodes of near from (rank.local - k) % local;
        }
        b = all;
        computes all_gather(a -> b);
    }
}
