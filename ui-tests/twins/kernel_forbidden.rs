//! A crate that forbids `unsafe` has kernels of the host.

#![forbid(unsafe_code)]

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn fill(a: f32, y: &mut [f32]);
    host {
        y.fill(a);
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut y = host.zeros(8)?;
    host.stream()?.run(fill(2.0, &mut y))
}
