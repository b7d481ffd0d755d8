//! The message comes when its reader is done: it read what the caller had left there.

use typed_nccl::plan;

plan! {
    pub stage<T: Element>(n: Ranks, len: usize) {
        inout inp: [T; len];
        local act: [T; len];
        run forward(read inp, write act);
        send act to rank + 1 into inp;
    }
}

fn main() {}
