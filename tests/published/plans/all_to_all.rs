//! All-to-alls, and messages of a plan's own pattern.

use typed_nccl::plan;

plan! {
    /// MSCCL, `alltoall_allpairs`.
    pub pairs_all_to_all<T: Element>(n: Ranks, len: usize) {
        in a: [T; n * len];
        out b: [T; n * len];
        group {
            for i in 0..n {
                send a.chunk(n, (rank + i) % n) to (rank + i) % n into b.chunk(n, rank);
            }
        }
        computes all_to_all(a -> b);
    }
}

plan! {
    /// MSCCL, `simple/custom_collective`: the first of three ranks sends to the others.
    pub to_both<T: Element>(n: Ranks in [3], len: usize) {
        in a: [T; len];
        out b: [T; len];
        group {
            if rank == 0 {
                send a to 1 into b;
                send a to 2 into b;
            }
        }
        computes {
            if rank > 0 {
                b = a of 0;
            }
        }
    }
}

plan! {
    /// Tokens to experts and back: from one rank to another `counts[from * n + to]`, which may be
    /// none, and at most `most`.
    pub routed<T: Element>(n: Ranks, most: usize, k: usize, counts: [usize; k] in 0..)
    where
        k == n * n,
    {
        in tokens[i in 0..n]: [T; most];
        inout result[i in 0..n]: [T; most];
        local inbox[i in 0..n], outbox[i in 0..n]: [T; most];
        group {
            for i in 0..n {
                let to = (rank + i) % n;
                let many = min(counts[rank * n + (rank + i) % n], most);
                send tokens[(rank + i) % n][..many] to to into inbox[rank][..many];
            }
        }
        for i in 0..n {
            let many = min(counts[i * n + rank], most);
            let got = inbox[i][..many];
            let made = outbox[i][..many];
            run expert(i, read got, write made) computes made = got;
        }
        group {
            for i in 0..n {
                let to = (rank + i) % n;
                let many = min(counts[(rank + i) % n * n + rank], most);
                send outbox[(rank + i) % n][..many] to to into result[rank][..many];
            }
        }
        computes {
            for i in 0..n {
                let many = min(counts[rank * n + i], most);
                result[i][..many] = tokens[i][..many];
            }
        }
    }
}
