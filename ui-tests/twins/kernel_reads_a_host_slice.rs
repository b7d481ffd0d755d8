//! A kernel reads device memory, whatever its body takes in Rust.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn add(a: f32, x: &[f32], y: &mut [f32]);
    unsafe cuda r#"
        size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
        if (i < y_len) y[i] += a * x[i];
    "#;
    host {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += a * x);
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let values = vec![1.0; 8];
    let (x, mut y) = (host.from_slice(&values)?, host.zeros::<f32>(8)?);
    host.stream()?.run(add(2.0, &x, &mut y))
}
