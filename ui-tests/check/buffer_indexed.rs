//! A part of a buffer is a view.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros::<f32>(8)?, host.zeros::<f32>(4)?);
    host.stream()?.copy(&x[0..4], &mut y)?;
    assert_eq!(y.to_vec()?, [0.0; 4]);
    Ok(())
}
