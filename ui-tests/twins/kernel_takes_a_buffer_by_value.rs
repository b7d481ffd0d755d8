//! A kernel borrows what it reads.

use typed_nccl::{Host, Result, kernel};

kernel! {
    fn add(x: &[f32], y: &mut [f32]);
    host {
        y.iter_mut().zip(x).for_each(|(y, x)| *y += x);
    }
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros::<f32>(8)?, host.zeros::<f32>(8)?);
    host.stream()?.run(add(&x, &mut y))
}
