//! Conversions between element types, on the host. `tests/gpu` runs the same on GPUs.

use typed_nccl::{Error, Host, Result};

mod body;

#[test]
fn every_pair_is_what_rust_makes_of_it() -> Result<()> {
    body::every_pair(&Host::local()?)
}

#[test]
fn conversions_are_in_stream_order() -> Result<()> {
    let host = Host::local()?;
    let (stream, other) = (host.stream()?, host.stream()?);
    let mut x = host.from_slice(&[1.5_f32, 2.5, -3.0, 4.0])?;
    let mut y = host.zeros::<i32>(6)?;
    stream.launch(&mut x, |x, ()| x.reverse())?;
    // On another stream, after it.
    other.convert(&x.slice(1..4), &mut y.slice_mut(2..5))?;
    stream.fill(&mut x, 0.0)?;
    assert_eq!(y.to_vec()?, [0, 0, -3, 2, 1, 0]);
    Ok(())
}

#[test]
fn lengths_that_differ_are_refused() -> Result<()> {
    let host = Host::local()?;
    let (stream, x, mut y) = (host.stream()?, host.zeros::<f32>(3)?, host.zeros::<u8>(4)?);
    let error = stream.convert(&x, &mut y).expect_err("4 are not 3");
    assert!(matches!(error, Error::BadLength(_)), "{error}");
    assert!(error.to_string().contains("the elements of what is converted"), "{error}");
    Ok(())
}
