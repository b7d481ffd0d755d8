//! Pipelines of micro-batches.

use typed_nccl::plan;

plan! {
    /// The zero-bubble schedule H1: as one forward, one backward, with the gradients of the weights
    /// apart, later on later ranks, where they fill what would be bubbles.
    pub zero_bubble<T: Numeric>(
        n: Ranks in [2, 3, 4, 5, 6, 7, 8, 16],
        mb: usize in [2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32],
        k: usize,
    )
    where
        mb >= n,
    {
        inout act[i in 0..mb]: [T; k];
        inout grad[i in 0..mb]: [T; k];
        out out[i in 0..mb], gin[i in 0..mb]: [T; k];
        inout weights: [T; k];
        stream net, compute;
        let w = n - 1 - rank;
        for i in 0..w {
            recv act[i] from rank - 1 on net;
            run fwd(i, read act[i], write out[i]) computes out = act on compute;
            send out[i] to rank + 1 on net;
        }
        recv act[w] from rank - 1 on net;
        for j in 0..mb - w {
            // The first stage's, through all stages before this one.
            here act[w + j] = act[w + j] of 0;
            run fwd(w + j, read act[w + j], write out[w + j]) computes out = act on compute;
            group {
                send out[w + j] to rank + 1 on net;
                recv grad[j] from rank + 1 on net;
            }
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j])
                computes gin = grad on compute;
            group {
                send gin[j] to rank - 1 on net;
                if j + 1 < mb - w {
                    recv act[w + j + 1] from rank - 1 on net;
                }
            }
            if j >= rank {
                run weight(j - rank, read act[j - rank], read grad[j - rank], update weights)
                    computes weights += grad on compute;
            }
        }
        for j in mb - w..mb {
            recv grad[j] from rank + 1 on net;
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j])
                computes gin = grad on compute;
            send gin[j] to rank - 1 on net;
            if j >= rank {
                run weight(j - rank, read act[j - rank], read grad[j - rank], update weights)
                    computes weights += grad on compute;
            }
        }
        for j in max(mb - rank, 0)..mb {
            run weight(j, read act[j], read grad[j], update weights)
                computes weights += grad on compute;
        }
        computes {
            for i in 0..mb {
                out[i] = act[i] of 0;
                gin[i] = grad[i] of n - 1;
            }
            weights = sum(weights, for i in 0..mb { grad[i] of n - 1 });
        }
    }
}
