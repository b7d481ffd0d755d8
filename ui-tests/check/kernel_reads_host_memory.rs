//! Kernels work on device memory.

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
    let x = vec![1.0; 8];
    let mut y = host.zeros(8)?;
    host.stream()?.run(add(2.0, &x, &mut y))
}
