//! Buckets are numbered from 0.

use typed_nccl::plan;

plan! {
    pub grad_sync<T: Float>(n: Ranks, k: usize, sizes: [usize; k]) {
        inout g[i in 0..k]: [T; sizes[i]];
        stream compute, net;
        for i in (1..k + 1).rev() {
            run backward(i, write g[i]) on compute;
            all_reduce(g[i], avg) on net after compute;
        }
        run apply(read g) on compute after net;
    }
}

fn main() {}
