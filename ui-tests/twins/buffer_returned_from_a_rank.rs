//! A buffer stays with its rank; what a rank gives back is its values.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let each = Host::spmd(2, |place| -> Result<_> {
        let x = place.device().zeros::<f32>(8)?;
        x.to_vec()
    })?;
    assert_eq!(each.len(), 2);
    Ok(())
}
