//! What a kernel is, in the words of `kernel!`, is a promise.

use typed_nccl::kernel::{Declared, Kernel};

struct Mine;

// SAFETY: it has no body.
unsafe impl Declared for Mine {
    const KERNEL: &'static Kernel = &Kernel {
        name: "mine",
        parameters: &[],
        types: &[],
        cuda: None,
        host: None,
        threads: 1,
        blocks: None,
        needs: 0,
    };
}

fn main() {
    assert_eq!(Mine::KERNEL.name, "mine");
}
