//! A stream runs kernels on its own device.

use typed_nccl::{At, Host, Result, kernel};

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
    let near = Host::<At<0>>::open()?;
    let (x, mut y) = (near.zeros(8)?, near.zeros(8)?);
    near.stream()?.run(add(2.0, &x, &mut y))
}
