//! A round waits for the rank that signals here, not for the nearest.

use typed_nccl::plan;

plan! {
    pub barrier(n: Ranks in 1..=4) {
        local window ground: [u8; 1];
        signal round_1, round_2;
        if n > 1 {
            signal round_1 to (rank + 1) % n;
            wait round_1 from (rank - 1) % n;
        }
        if n > 2 {
            signal round_2 to (rank + 2) % n;
            wait round_2 from (rank - 1) % n;
        }
    }
}

fn main() {}
