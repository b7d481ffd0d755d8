//! A launched closure reads and writes the stream's device.

use typed_nccl::{At, Host, Result};

fn main() -> Result<()> {
    let near = Host::<At<0>>::open()?;
    let stream = near.stream()?;
    let x = Host::<At<0>>::open()?.from_slice(&[1.0_f32; 8])?;
    let mut y = near.zeros::<f32>(8)?;
    stream.launch((&x, &mut y), |(x, y), _| y.copy_from_slice(x))
}
