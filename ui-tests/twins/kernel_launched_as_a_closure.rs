//! `launch` takes a closure, `run` a kernel.

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
    let (x, mut y) = (host.zeros::<f32>(8)?, host.zeros::<f32>(8)?);
    let stream = host.stream()?;
    stream.run(add(2.0, &x, &mut y))
}
