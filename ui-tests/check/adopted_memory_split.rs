//! Adopted memory goes back to its owner whole.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let x = Host::local()?.adopt(vec![0.0_f32; 8])?;
    let (weights, grads) = x.split_at(4)?;
    println!("{} {}", weights.len(), grads.len());
    Ok(())
}
