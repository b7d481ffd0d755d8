//! What is generic over the device takes kernels that run on every device.

use typed_nccl::{Buffer, Device, Host, Result, Stream, kernel};

kernel! {
    fn add(x: &[f32], y: &mut [f32]);
    unsafe cuda "if (threadIdx.x == 0) y[0] += x[0];";
    host { y[0] += x[0] }
}

fn twice<D: Device>(stream: &Stream<D>, x: &Buffer<f32, D>, y: &mut Buffer<f32, D>) -> Result<()> {
    stream.run(add(x, y))?;
    stream.run(add(x, y))
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let (x, mut y) = (host.zeros(8)?, host.zeros(8)?);
    twice(&host.stream()?, &x, &mut y)
}
