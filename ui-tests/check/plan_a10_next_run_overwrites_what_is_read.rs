//! That a neighbour's edge has arrived does not say that it has read ours.

use typed_nccl::plan;

plan! {
    pub halo<T: Element>(n: Ranks in 3.., m: usize, h: usize) where m >= 4 * h {
        inout window u: [T; m];
        signal hi, lo;
        stream net, cmp;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        put u[h..2 * h] to left into u[m - h..m] signal hi on net;
        put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
        wait hi from right, lo from left on net;
        run smooth(update u) on cmp after net;
    }
}

fn main() {}
