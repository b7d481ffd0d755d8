//! A buffer stays with its rank; what other ranks may have is its values.

use std::sync::Mutex;

use typed_nccl::{Host, Result, spmd};

fn main() -> Result<()> {
    let shelf = Mutex::new(None);
    spmd::<Host>(2, |place| {
        let x = place.device().zeros::<f32>(8)?;
        *shelf.lock().expect("no panic") = Some(x);
        Ok(())
    })
}
