//! A kernel writes exclusive views only.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn add(a: f32, x: &[f32], y: &mut [f32]);
    unsafe cuda "if (threadIdx.x < y_len) y[threadIdx.x] += a * x[threadIdx.x];";
    host {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(8)?, host.zeros::<f32>(8)?);
    host.stream()?.run(add(2.0, &x, &mut y.slice_mut(0..4)))
}
