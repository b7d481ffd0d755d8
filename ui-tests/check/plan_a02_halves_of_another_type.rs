//! NCCL moves bytes: f32 would be received as f64.

use typed_nccl::plan;

plan! {
    pub ring(n: Ranks, len: usize) {
        in a: [f32; len];
        out b: [f64; len];
        send a to (rank + 1) % n into b;
    }
}

fn main() {}
