//! What a closure is given depends on the device; a kernel has a body for each.

use typed_nccl::{Buffer, Device, Host, Result, Stream};

fn clear<D: Device>(stream: &Stream<D>, x: &mut Buffer<f32, D>) -> Result<()> {
    stream.launch(x, |x, _| x.fill(0.0))
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.from_slice(&[1.0; 8])?;
    clear(&host.stream()?, &mut x)?;
    assert_eq!(x.to_vec()?, [0.0; 8]);
    Ok(())
}
