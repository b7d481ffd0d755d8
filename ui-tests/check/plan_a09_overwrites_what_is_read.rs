//! A neighbour may put its edge here while this rank still reads the last one.

use typed_nccl::plan;

plan! {
    #[once]
    pub halo<T: Element>(n: Ranks in 3.., m: usize, h: usize) where m >= 4 * h {
        inout window u: [T; m];
        signal hi, lo;
        stream net, cmp;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        for step in 0..2 {
            put u[h..2 * h] to left into u[m - h..m] signal hi on net;
            put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
            wait hi from right, lo from left on net;
            run smooth(update u) on cmp after net;
        }
    }
}

fn main() {}
