//! A launch borrows buffers.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let x = host.zeros::<f32>(8)?;
    host.stream()?.launch(x, |_, _| {})
}
