//! A launch takes up to twelve operands.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros::<f32>(8)?, host.zeros::<f32>(8)?);
    host.stream()?.launch((&x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &x, &mut y), |_, _| {})
}
