//! Each neighbour has its own part of the halo.

use typed_nccl::plan;

plan! {
    pub torus<T: Element>(rows: Ranks, cols: Ranks, h: usize) {
        inout swapped window u: [T; h];
        local swapped window halo: [T; 4 * h];
        signal top, bottom, left, right;
        stream net, compute;
        let above = (rank.rows - 1) % rows;
        let below = (rank.rows + 1) % rows;
        let before = (rank.cols - 1) % cols;
        let behind = (rank.cols + 1) % cols;
        put u to above into halo[h..2 * h] signal bottom on net;
        put u to below into halo[..h] signal top on net;
        put u to before into halo[3 * h..] signal right on net;
        put u to behind into halo[3 * h..] signal left on net;
        wait bottom from below, top from above, right from behind, left from before on net;
        let from_above = halo[..h];
        let from_below = halo[h..2 * h];
        let from_before = halo[2 * h..3 * h];
        let from_behind = halo[3 * h..];
        run step(
            read from_above, read from_below, read from_before, read from_behind, write u.next,
        ) on compute after net;
    }
}

fn main() {}
