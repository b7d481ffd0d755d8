//! A function that names one kind of memory does not take the other.

use typed_nccl::{Buffer, Host, Result};

fn first(x: &Buffer<f32, Host>) -> Result<f32> {
    Ok(x.to_vec()?[0])
}

fn main() -> Result<()> {
    let x = Host::local()?.nccl_zeros::<f32>(8)?;
    assert_eq!(first(&x)?, 0.0);
    Ok(())
}
