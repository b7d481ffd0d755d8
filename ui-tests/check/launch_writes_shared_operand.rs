//! A launched closure writes what it was given with `&mut`.

use typed_nccl::{Host, Result};

fn main() -> Result<()> {
    let host = Host::local()?;
    let stream = host.stream()?;
    let x = host.zeros::<f32>(8)?;
    stream.launch(&x, |x, _| x.fill(1.0))
}
