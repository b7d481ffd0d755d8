//! A mistake in a kernel is told where it is.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn add(a: f23, x: &[f32], y: &mut [f32]);
    host {
        for (y, x) in y.iter_mut().zip(x) {
            *y += a * x;
        }
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(8)?, host.zeros(8)?);
    host.stream()?.run(add(2.0, &x, &mut y))
}
