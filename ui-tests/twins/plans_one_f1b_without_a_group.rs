//! In 1F1B a stage sends forward and receives backward at once.

use typed_nccl::plan;

plan! {
    pub one_f1b<T: Element>(n: Ranks in [2, 3, 4], mb: usize in [2, 3, 4, 8], k: usize)
    where
        mb >= n,
    {
        inout act[i in 0..mb]: [T; k];
        out out[i in 0..mb]: [T; k];
        inout grad[i in 0..mb]: [T; k];
        out gin[i in 0..mb]: [T; k];
        stream net, compute;
        let w = n - 1 - rank;
        for i in 0..w {
            recv act[i] from rank - 1 on net;
            run fwd(i, read act[i], write out[i]) on compute;
            send out[i] to rank + 1 on net;
        }
        recv act[w] from rank - 1 on net;
        for j in 0..mb - w {
            run fwd(w + j, read act[w + j], write out[w + j]) on compute;
            group {
                send out[w + j] to rank + 1 on net;
                recv grad[j] from rank + 1 on net;
            }
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j]) on compute;
            group {
                send gin[j] to rank - 1 on net;
                if j + 1 < mb - w {
                    recv act[w + j + 1] from rank - 1 on net;
                }
            }
        }
        for j in mb - w..mb {
            recv grad[j] from rank + 1 on net;
            run bwd(j, read act[j], read out[j], read grad[j], write gin[j]) on compute;
            send gin[j] to rank - 1 on net;
        }
    }
}

fn main() {}
