//! The right neighbour raises `hi` here, the left one `lo`.

use typed_nccl::plan;

plan! {
    pub halo<T: Element>(n: Ranks in 3.., m: usize, h: usize) where m >= 4 * h {
        inout swapped window u: [T; m];
        signal lo, hi;
        stream net, compute;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        put u[h..2 * h] to left into u[m - h..] signal hi on net;
        put u[m - 2 * h..m - h] to right into u[..h] signal lo on net;
        wait hi from right, lo from left on net;
        run step(read u, write u.next[h..m - h]) on compute after net;
    }
}

fn main() {}
