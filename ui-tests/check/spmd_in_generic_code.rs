//! Ranks are started on devices of a family.

use typed_nccl::{Device, Host, Result};

fn sizes<D: Device>(n: usize) -> Result<Vec<usize>> {
    D::spmd(n, |place| {
        let comm = place.init()?;
        let size = comm.size();
        comm.finish().map(|()| size)
    })
}

fn main() -> Result<()> {
    assert_eq!(sizes::<Host>(2)?, [2; 2]);
    Ok(())
}
