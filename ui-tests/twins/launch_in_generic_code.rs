//! What a closure is given depends on the device; a kernel has a body for each.

use typed_nccl::{Buffer, Device, Host, Result, Stream, kernel};

kernel! {
    fn zero(x: &mut [f32]);
    // SAFETY: it stays below the length.
    unsafe cuda r#"
        size_t i = (size_t) blockIdx.x * blockDim.x + threadIdx.x;
        if (i < x_len) x[i] = 0.0f;
    "#;
    host { x.fill(0.0) }
}

fn clear<D: Device>(stream: &Stream<D>, x: &mut Buffer<f32, D>) -> Result<()> {
    stream.run(zero(x))
}

fn main() -> Result<()> {
    let host = Host::local()?;
    let mut x = host.from_slice(&[1.0; 8])?;
    clear(&host.stream()?, &mut x)?;
    assert_eq!(x.to_vec()?, [0.0; 8]);
    Ok(())
}
