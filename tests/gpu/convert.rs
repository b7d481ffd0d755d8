//! Conversions between element types, with the library's kernels.

use typed_nccl::{Cuda, Result};

#[path = "../convert/body.rs"]
mod body;

pub(crate) fn every_pair() -> Result<()> {
    body::every_pair(&Cuda::any(0)?)
}

/// More elements than a grid has threads, and a view that begins inside.
pub(crate) fn many_elements() -> Result<()> {
    let device = Cuda::any(0)?;
    let len = 4096 * 256 + 1001;
    let values: Vec<i32> = (0..len).collect();
    let stream = device.stream()?;
    let (x, mut y) = (device.from_slice(&values)?, device.zeros::<f64>(len as usize)?);
    stream.convert(&x.slice(1..len as usize), &mut y.slice_mut(0..len as usize - 1))?;
    let y = y.to_vec()?;
    let is_next = |(at, value): (usize, &f64)| *value == at as f64 + 1.0;
    assert!(y[..y.len() - 1].iter().enumerate().all(is_next));
    assert_eq!(y[y.len() - 1], 0.0);
    Ok(())
}
