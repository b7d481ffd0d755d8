//! A kernel runs on devices that it has a body for.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn add(x: &[f32], y: &mut [f32]);
    unsafe cuda "if (threadIdx.x < y_len) y[threadIdx.x] += x[threadIdx.x];";
    host { y[0] += x[0] }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(8)?, host.zeros(8)?);
    host.stream()?.run(add(&x, &mut y))
}
