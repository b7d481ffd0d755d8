//! Before NCCL 2.32 a captured signal waits until the one before it was consumed.

use typed_nccl::plan;

plan! {
    #[capture]
    #[target(2, 30, 7)]
    pub halo<T: Element>(n: Ranks in 3.., h: usize) {
        inout window edge: [T; 2 * h];
        local swapped window halo: [T; 4 * h];
        signal hi, lo;
        let left = (rank - 1) % n;
        let right = (rank + 1) % n;
        put edge.chunk(2, 0) to left into halo.chunk(4, 2) signal hi;
        put edge.chunk(2, 1) to left into halo.chunk(4, 3) signal hi;
        put edge.chunk(2, 0) to right into halo.chunk(4, 0) signal lo;
        put edge.chunk(2, 1) to right into halo.chunk(4, 1) signal lo;
        wait 2 of hi from right, 2 of lo from left;
    }
}

fn main() {}
