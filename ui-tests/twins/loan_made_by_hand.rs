//! A loan is made by `device.lend`, which ends it before the memory is gone.

use typed_nccl::{Host, Result};

fn keep(device: &Host) -> Result<()> {
    let values = vec![1.0_f32; 4];
    device.lend(&values, |x| x.to_vec().map(drop))?;
    drop(values);
    Ok(())
}

fn main() -> Result<()> {
    keep(&Host::local()?)
}
