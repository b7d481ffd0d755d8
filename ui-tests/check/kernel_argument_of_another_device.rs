//! A kernel reads and writes the stream's device.

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
    let x = Host::<At<1>>::open()?.from_slice(&[1.0_f32; 8])?;
    let mut y = near.zeros::<f32>(8)?;
    near.stream()?.run(add(2.0, &x, &mut y))
}
