//! A kernel has a body.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn nothing(x: &[f32], y: &mut [f32]);
    host {}
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(8)?, host.zeros(8)?);
    host.stream()?.run(nothing(&x, &mut y))
}
