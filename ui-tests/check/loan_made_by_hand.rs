//! A loan is made by `device.lend`, which ends it before the memory is gone.

use typed_nccl::error::Site;
use typed_nccl::{Host, Lend, Result};

fn keep(device: &Host, site: Site) -> Result<()> {
    let values = vec![1.0_f32; 4];
    let loan = Lend::lend(&values, device, site)?;
    drop(values);
    drop(loan);
    Ok(())
}

fn main() {
    let _: fn(&Host, Site) -> Result<()> = keep;
}
