//! The last stage of a pipeline has no successor.

use typed_nccl::plan;

plan! {
    pub pipeline<T: Element>(n: Ranks in 2.., mb: usize, k: usize) {
        inout inp[i in 0..mb]: [T; k];
        out out[i in 0..mb]: [T; k];
        stream net, compute;
        for i in 0..mb {
            sequence {
                run fwd(i, read inp[i], write out[i]) on compute;
                send out[i] to (rank + 1) % n into inp[i] on net;
            }
        }
    }
}

fn main() {}
