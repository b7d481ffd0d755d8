//! A launched closure writes the stream's device.

use typed_nccl::{At, Host, Result};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let stream = near.stream()?;
    let mut x = Host::<At<0>>::open()?.zeros::<f32>(8)?;
    stream.launch(&mut x, |x, _| x.fill(1.0))
}
