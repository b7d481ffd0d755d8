//! A buffer of the device's own memory can be cut.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let x = Host::local()?.zeros::<f32>(8)?;
    let (weights, grads) = x.split_at(4)?;
    println!("{} {}", weights.len(), grads.len());
    Ok(())
}
